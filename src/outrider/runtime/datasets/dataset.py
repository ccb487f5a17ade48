# SPDX-License-Identifier: Apache-2.0
"""Training examples: frames of homes, with four tasks each and the expert's answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing

import numpy as np

from outrider.core.language.actions import ActionTable, split_answer
from outrider.core.language.prompt import render_user_text
from outrider.core.training_data import Example, Query
from outrider.navigation.goal.history import SearchHistory
from outrider.navigation.motion.driving import carry_out
from outrider.runtime.mission.episode import searched_places
from outrider.simulation.contexts import (
    Lesson,
    make_lesson,
    make_sightings,
    phrase,
    random_pose,
    target_of_home,
)
from outrider.simulation.expert import answer
from outrider.simulation.homes.home import PLACEMENTS, Home, generate_home
from outrider.simulation.homes.vocabulary import Wanted
from outrider.simulation.looks.styles import draw_look
from outrider.simulation.perception import Eyes, View
from outrider.simulation.simulator import Simulator

QUERIES_PER_FRAME = 4
EPISODE_STEPS = 28
RANDOM_FRAMES = 20
RANDOM_ACTION_SHARE = 0.18
RECALL_EPISODES = 0.5
ODOMETRY_NOISE = 0.02
TABLE = ActionTable()
ACTIONS = tuple(
    f"{verb} {size}" for verb in ("move forward", "turn left", "turn right") for size in ("small", "large")
)


def home_examples(seed: int, looks: Sequence[str] = ("plain",)) -> Iterator[Example]:
    """Yields the examples of one home: one noisy episode of the expert, then frames from random poses."""
    rng = np.random.default_rng([seed, 11])
    home = generate_home(seed, placement=PLACEMENTS[int(rng.choice(3, p=[0.35, 0.25, 0.4]))])
    with closing(Stage(home, looks)) as stage:
        yield from _episode(rng, home, stage)
        for _ in range(RANDOM_FRAMES):
            stage.simulator.place(random_pose(rng, home))
            yield lesson_example(rng, stage, None)[0]


class Stage:
    """A simulated home in one of `looks`, which its seed selects."""

    def __init__(self, home: Home, looks: Sequence[str]) -> None:
        look = draw_look(looks[home.seed % len(looks)], home.seed)
        self.simulator = Simulator(home, home.seed, ODOMETRY_NOISE, look)
        self.eyes = Eyes(self.simulator)

    def close(self) -> None:
        """Free the renderer."""
        self.simulator.close()


def _episode(rng: np.random.Generator, home: Home, stage: Stage) -> Iterator[Example]:
    target = target_of_home(rng, home)
    history, simulator = begin(rng, home, target), stage.simulator
    instruction = phrase(rng, target)
    for _ in range(EPISODE_STEPS):
        pose = simulator.odometry().pose
        lesson = Lesson(history.context(instruction, pose), searched_places(history, pose))
        example, text = lesson_example(rng, stage, lesson)
        yield example
        said = split_answer(text)
        if said.action == "stop":
            return
        action = str(rng.choice(ACTIONS)) if rng.random() < RANDOM_ACTION_SHARE else said.action
        take_step(simulator, history, action, said.phase)


def lesson_example(rng: np.random.Generator, stage: Stage, own: Lesson | None) -> tuple[Example, str]:
    """Returns the example of the current view, and the expert's answer to its first task (`own` if given)."""
    simulator = stage.simulator
    segments = simulator.segment_camera()
    view = stage.eyes.look(segments)
    lessons = [own] if own is not None else []
    while len(lessons) < QUERIES_PER_FRAME:
        lessons.append(make_lesson(rng, simulator.home, simulator.truth(), view))
    queries = [_query(view, lesson) for lesson in lessons]
    cells = stage.eyes.cell_labels(segments).tobytes()
    return Example(simulator.frame_jpeg(), cells, queries), queries[0].answer


def _query(view: View, lesson: Lesson) -> Query:
    return Query(render_user_text(lesson.context), answer(view, lesson.context, lesson.searched))


def take_step(simulator: Simulator, history: SearchHistory, action: str, phase: str) -> None:
    """Carry out an action of the table as the robot does, and record it in the history."""
    motion = TABLE.motion(action, history.last_action)
    assert motion is not None
    carry_out(simulator, motion)
    history.record_action(action, phase, simulator.odometry().pose)


def begin(rng: np.random.Generator, home: Home, target: Wanted) -> SearchHistory:
    """Returns the history of a new goal.

    With probability RECALL_EPISODES it holds sightings from memory for the task.
    """
    history = SearchHistory(start=home.start)
    if rng.random() < RECALL_EPISODES:
        history.recall(make_sightings(rng, home, target))
    return history
