"""Training data: frames of homes with four tasks each and the expert's answers, in resumable shards.

A shard is one msgpack file; it exists only when whole (written beside and renamed).
"""

from __future__ import annotations

import math
import multiprocessing
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np

from outrider.core.actions import ActionTable, Motion, split_answer
from outrider.core.prompt import render_user_text
from outrider.core.training_data import Example, Query, Shard
from outrider.core.values import Pose2D
from outrider.navigation.avoidance import free_way
from outrider.navigation.history import SearchHistory
from outrider.simulation.contexts import Lesson, make_lesson, phrase, random_pose
from outrider.simulation.expert import SearchedPlace, answer
from outrider.simulation.homes import PLACEMENTS, Home, generate_home
from outrider.simulation.perception import Eyes, View
from outrider.simulation.simulator import Simulator

FRAMES_PER_SHARD = 1000
QUERIES_PER_FRAME = 4
EPISODE_STEPS = 28
RANDOM_FRAMES = 20
RANDOM_ACTION_SHARE = 0.18
SLIDE_STEP_M = 0.15
TABLE = ActionTable()
ACTIONS = tuple(
    f"{verb} {size}" for verb in ("move forward", "turn left", "turn right") for size in ("small", "large")
)


def searched_places(history: SearchHistory, pose: Pose2D) -> tuple[SearchedPlace, ...]:
    """The exact places behind the memories of the history's prompt."""
    return tuple(
        SearchedPlace(pose.bearing_to(x, y), pose.distance_to(x, y)) for x, y in history.remembered(pose)
    )


def home_examples(seed: int) -> Iterator[Example]:
    """All examples of one home: one noisy episode of the expert, then frames from random poses."""
    rng = np.random.default_rng([seed, 11])
    home = generate_home(seed, placement=PLACEMENTS[int(rng.choice(3, p=[0.35, 0.25, 0.4]))])
    simulator = Simulator(home, seed)
    eyes = Eyes(simulator)
    try:
        yield from _episode(rng, home, simulator, eyes)
        for _ in range(RANDOM_FRAMES):
            simulator.place(random_pose(rng, home))
            yield _example(rng, simulator, eyes, None)[0]
    finally:
        simulator.close()


def _episode(rng: np.random.Generator, home: Home, simulator: Simulator, eyes: Eyes) -> Iterator[Example]:
    history = SearchHistory(start=home.start)
    instruction = phrase(rng, home.target.spec)
    for _ in range(EPISODE_STEPS):
        pose = simulator.truth()
        lesson = Lesson(history.context(instruction, pose), searched_places(history, pose))
        example, text = _example(rng, simulator, eyes, lesson)
        yield example
        said = split_answer(text)
        if said.action == "stop":
            return
        action = str(rng.choice(ACTIONS)) if rng.random() < RANDOM_ACTION_SHARE else said.action
        motion = TABLE.motion(action, history.last_action)
        assert motion is not None
        simulator.place(_moved(rng, simulator, motion))
        history.record_action(action, said.phase, simulator.truth())


def _example(
    rng: np.random.Generator, simulator: Simulator, eyes: Eyes, own: Lesson | None
) -> tuple[Example, str]:
    segments = simulator.segment_camera()
    view = eyes.look(segments)
    lessons = [own] if own is not None else []
    while len(lessons) < QUERIES_PER_FRAME:
        lessons.append(make_lesson(rng, simulator.home, simulator.truth(), view))
    queries = [_query(view, lesson) for lesson in lessons]
    labels = eyes.cell_labels(segments)
    return Example(simulator.frame_jpeg(), labels.tobytes(), queries), queries[0].answer


def _query(view: View, lesson: Lesson) -> Query:
    return Query(render_user_text(lesson.context), answer(view, lesson.context, lesson.searched))


def _moved(rng: np.random.Generator, simulator: Simulator, motion: Motion) -> Pose2D:
    """Where a motion ends: a few per cent of error, sliding past obstacles as the robot does."""
    pose = simulator.truth()
    yaw = pose.yaw + motion.turn_rad * rng.normal(1.0, 0.03) + rng.normal(0.0, 0.01)
    if motion.forward_m == 0.0:
        return Pose2D(pose.x, pose.y, yaw)
    left_m, side = motion.forward_m * rng.normal(0.98, 0.02), 0.0
    while left_m > 0.01:
        way = free_way(simulator.scan(), min(left_m, SLIDE_STEP_M), side)
        if way.free_m == 0.0:
            break
        heading, side = (
            yaw + way.direction_rad,
            math.copysign(1.0, way.direction_rad) if way.direction_rad else side,
        )
        pose = Pose2D(pose.x + way.free_m * math.cos(heading), pose.y + way.free_m * math.sin(heading), yaw)
        simulator.place(pose)
        left_m -= way.free_m
    return Pose2D(pose.x, pose.y, yaw)


def write_shard(folder: Path, index: int, seed: int) -> Path:
    """Write shard `index` of a data set; an existing one is left alone. Homes are seeded by (seed, index)."""
    path = folder / f"shard-{index:04d}.msgpack"
    if path.exists():
        return path
    examples: list[Example] = []
    home_seed = (seed * 1000 + index) * 1000
    while len(examples) < FRAMES_PER_SHARD:
        examples.extend(home_examples(home_seed))
        home_seed += 1
    folder.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".partial")
    temporary.write_bytes(msgspec.msgpack.encode(Shard(examples[:FRAMES_PER_SHARD])))
    temporary.rename(path)
    return path


def _write_shard_task(task: tuple[Path, int, int]) -> Path:
    return write_shard(*task)


def write_dataset(folder: Path, num_shards: int, seed: int, processes: int) -> Iterator[Path]:
    """Write what is missing of a data set, yielding shards as they are done."""
    tasks = [(folder, index, seed) for index in range(num_shards)]
    if processes <= 1:
        yield from map(_write_shard_task, tasks)
        return
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap_unordered(_write_shard_task, tasks)
