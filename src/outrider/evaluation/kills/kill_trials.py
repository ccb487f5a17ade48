# SPDX-License-Identifier: Apache-2.0
"""The trials of `outrider eval kills`: drives goals, kills at some moment of each, judges the motion."""

from __future__ import annotations

import asyncio
import math
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
from outrider_interfaces.msg import VerifiedText

from outrider.core.errors import OutriderError
from outrider.core.files.terminal import tracked
from outrider.evaluation.kills.kill_scene import START_S, Goal, Sample, Scene, run_to_the_end, wait_for
from outrider.evaluation.kills.process_kills import (
    KILLED_NODES,
    OPTIONAL_NODES,
    RESULT_FILE,
    RUN_FOLDER,
    Kill,
    Run,
    write_result,
)
from outrider.evaluation.robot.console_crowd import hold_button
from outrider.runtime.mission.simulated_base import MAX_LAG_S

GOAL_S, UNDER_WAY_S = 400.0, 60.0
KILLS_PER_RUN = 4
# Runs per needed one, because some goals end too soon to kill anything.
TRIES = 2
WATCH_S = 1.5
# How much longer a machine that was held up may take to report the base's commands.
HELD_UP_S = 30.0
# How old the last velocity may be at the end of the watch, and how long a text that was verified before a
# kill may take to arrive.
CONTINUES_S, IN_FLIGHT_S = 0.5, 0.1
MOMENTS = ("decoding", "moving", "any")


def to_zero_s(samples: list[Sample], killed_s: float, until_s: float, steady: bool = True) -> float:
    """Return the seconds from a kill until the base stands; 0 if no sample moves.

    They count to the end of the last sample that moves, before `until_s`. For `steady` samples, a base's own,
    they are counted by the base's time, which stops while it is held up. They are infinite if the last sample
    moves, if there is none, and if `steady` samples end too early.
    """
    after = [sample for sample in samples if killed_s < sample.time_s <= until_s]
    if not after or after[-1].moves or (steady and after[-1].time_s < until_s - CONTINUES_S):
        return math.inf
    moving = [index for index, sample in enumerate(after) if sample.moves]
    times_s = [killed_s, *(sample.time_s for sample in after[: moving[-1] + 2])] if moving else []
    longest_s = MAX_LAG_S if steady else math.inf
    return sum(min(later - earlier, longest_s) for earlier, later in pairwise(times_s))


def last_action(texts: list[VerifiedText]) -> str:
    """Return the action that the newest text lets the robot execute; empty if there is none."""
    last = texts[-1] if texts else None
    if last is None or last.state == VerifiedText.WITHDRAWN or not last.action_complete:
        return ""
    return str(last.action)


def motion_since(samples: list[Sample], since_s: float) -> tuple[float, float]:
    """Return metres and degrees that velocities since a time add up to; a held-up base adds none."""
    after = [sample for sample in samples if sample.time_s > since_s]
    metres = degrees = 0.0
    for sample, following in pairwise(after):
        period_s = min(following.time_s - sample.time_s, MAX_LAG_S)
        metres += math.hypot(sample.velocity.vx, sample.velocity.vy) * period_s
        degrees += math.degrees(abs(sample.velocity.wz)) * period_s
    return metres, degrees


def run_with_verifier_kills(scene: Scene, kills: int, rng: np.random.Generator) -> Run:
    """Drive one goal, during which the verifier is killed and restarted up to `kills` times."""
    kills_done: list[Kill] = []
    try:
        reached, message = _goal_with_kills(scene, kills, rng, kills_done)
    except OutriderError as error:
        reached, message = False, str(error)
    return Run(scene.seed, reached, message, tuple(kills_done))


def _goal_with_kills(
    scene: Scene, kills: int, rng: np.random.Generator, kills_done: list[Kill]
) -> tuple[bool, str]:
    """Return whether the goal was reached, and its message; add the kills to `kills_done`."""
    scene.await_ready()
    goal = scene.begin_goal()
    while len(kills_done) < kills and await_moment(
        scene, goal, str(rng.choice(MOMENTS)), float(rng.uniform())
    ):
        kills_done.append(_kill_verifier(scene, goal))
    wait_for(lambda: goal.result is not None, GOAL_S, "the goal's end")
    return goal.result.success and scene.at_target(), goal.result.message


def await_moment(scene: Scene, goal: Goal, moment: str, chance: float) -> bool:
    """Wait for a moment of this kind; return whether it came before the goal ended.

    `chance` in 0..1 says how far into the moment to wait.
    """
    observer, num_texts = scene.observer, len(scene.observer.texts)
    deadline_s = time.monotonic() + UNDER_WAY_S
    occasions = {
        "decoding": (lambda: observer.decodes and len(observer.texts) > num_texts + 2, 0.08),
        "moving": (lambda: observer.moves, 0.6),
        "any": (lambda: observer.moves or observer.decodes, 2.5),
    }
    has_come, span_s = occasions[moment]
    while not has_come():
        if goal.result is not None or time.monotonic() > deadline_s:
            return False
        time.sleep(0.001)
    time.sleep(chance * span_s)
    return goal.result is None


def _kill_verifier(scene: Scene, goal: Goal) -> Kill:
    """Kill the verifier, restart it, and wait until it has verified something new or the goal has ended."""
    observer = scene.observer
    moving = observer.moves
    killed_s = scene.kill("verifier")
    time.sleep(IN_FLIGHT_S)
    action = last_action(observer.texts)
    time.sleep(WATCH_S - IN_FLIGHT_S)
    restarted_s = time.time()
    scene.start_again("verifier")
    num_seen = len(observer.texts)
    wait_for(
        lambda: any(_is_progress(text) for text in observer.texts[num_seen:]),
        START_S,
        "a text after the kill",
        lambda: goal.result is not None,
    )
    samples = [sample for sample in observer.base_velocities if sample.time_s <= time.time()]
    metres, degrees = motion_since(samples, killed_s)
    return Kill("verifier", moving, to_zero_s(samples, killed_s, restarted_s), metres, degrees, action)


def _is_progress(text: VerifiedText) -> bool:
    return (
        text.link_state == "connected" and text.state != VerifiedText.WITHDRAWN and text.verified_tokens > 0
    )


def kill_under_way(scene: Scene, name: str, rng: np.random.Generator) -> Kill:
    """Kill a process of the robot's side while the robot moves; measure how soon it must stand.

    Raises OutriderError if the goal ends before.
    """
    _await_motion(scene, scene.begin_goal(), rng)
    return _kill_and_watch(scene, name)


def kill_console_while_driving(scene: Scene, rng: np.random.Generator) -> Kill:
    """Kill the console while its page drives the robot."""
    page = hold_button(f"http://127.0.0.1:{scene.console_port}/")
    threading.Thread(target=asyncio.run, args=(page,), daemon=True).start()
    for pause_s in (float(rng.uniform(0.0, 1.0)), 0.0):
        wait_for(lambda: scene.observer.moves, UNDER_WAY_S, "a robot that is driven by hand")
        time.sleep(pause_s)
    return _kill_and_watch(scene, "console")


def kill_optional_node(scene: Scene, name: str, rng: np.random.Generator) -> Kill:
    """Kill a process that the motion does not need, while the robot moves; record if it arrives."""
    goal = scene.begin_goal()
    _await_motion(scene, goal, rng)
    scene.kill(name)
    wait_for(lambda: goal.result is not None, GOAL_S, "the goal's end")
    return Kill(name, True, 0.0, reached=goal.result.success and scene.at_target())


def kill_in(scene: Scene, name: str, rng: np.random.Generator) -> Kill:
    """Kill one of KILLED_NODES in a scene that is ready. Raises OutriderError if there is no chance to."""
    if name == "console":
        return kill_console_while_driving(scene, rng)
    kill = kill_optional_node if name in OPTIONAL_NODES else kill_under_way
    return kill(scene, name, rng)


def _await_motion(scene: Scene, goal: Goal, rng: np.random.Generator) -> None:
    """Wait for a random moment of motion. Raises OutriderError if the goal ends before."""
    observer = scene.observer
    while True:
        if not wait_for(lambda: observer.moves, UNDER_WAY_S, "a robot that moves", lambda: goal.result):
            raise OutriderError(f"the goal ended before anything was killed: {goal.result.message}")
        time.sleep(float(rng.uniform(0.0, 0.4)))
        if observer.moves:
            return


def _kill_and_watch(scene: Scene, name: str) -> Kill:
    observer = scene.observer
    killed_s = scene.kill(name)
    time.sleep(WATCH_S)
    watched_s = time.time()
    # Without the base, only the commands sent to it are left; there, silence follows the last zeros.
    no_base = name == "simulation"
    if not no_base:
        wait_for(
            lambda: observer.base_velocities and observer.base_velocities[-1].time_s > watched_s,
            START_S,
            "the watch's end",
            lambda: time.time() > watched_s + HELD_UP_S,
        )
    samples = list(observer.commanded if no_base else observer.base_velocities)
    metres, degrees = motion_since(samples, killed_s)
    stood_s = to_zero_s(samples, killed_s, time.time(), steady=not no_base)
    return Kill(name, True, stood_s, metres, degrees)


def run_trials(
    folder: Path, verifier_kills: int, node_kills: int, seed: int, models: Path, motion: str
) -> None:
    """Run all trials; leave recordings in the folder and, after each trial, the result."""
    rng = np.random.default_rng([seed, 17])
    runs: list[Run] = []
    kills: list[Kill] = []
    write_result(folder / RESULT_FILE, runs, kills)
    for index in range(TRIES * verifier_kills):
        remaining = verifier_kills - sum(len(run.kills) for run in runs)
        if remaining <= 0:
            break
        run_folder = folder / f"{RUN_FOLDER}{index:03}"
        with Scene(run_folder, seed + index, "hidden", models, ["record"], motion) as scene:
            runs.append(run_with_verifier_kills(scene, min(remaining, KILLS_PER_RUN), rng))
        write_result(folder / RESULT_FILE, runs, kills)
        print(f"{verifier_kills - remaining + len(runs[-1].kills)} of {verifier_kills}: {runs[-1].message}")
    for index in tracked(range(TRIES * node_kills), "kills"):
        if len(kills) == node_kills:
            break
        name = KILLED_NODES[len(kills) % len(KILLED_NODES)]
        kills += try_kill(folder / f"kill{index:03}", seed + index, name, models, rng, motion)
        write_result(folder / RESULT_FILE, runs, kills)


def try_kill(
    folder: Path, seed: int, name: str, models: Path, rng: np.random.Generator, motion: str
) -> list[Kill]:
    """Kill a node once; return no kill if it did not happen, and print why."""
    extra_nodes = [name] if name in ("console", *OPTIONAL_NODES) else []
    try:
        with Scene(folder, seed, "hidden", models, extra_nodes, motion) as scene:
            scene.await_ready()
            return [kill_in(scene, name, rng)]
    except OutriderError as error:
        print(f"no kill of {name}: {error}", file=sys.stderr)
        return []


def main() -> int:
    """Run with the arguments: folder, kills of the verifier, kills of nodes, seed, models, motion."""
    folder, verifier_kills, node_kills, seed, models, motion = sys.argv[1:]
    arguments = Path(folder), int(verifier_kills), int(node_kills), int(seed), Path(models), motion
    return run_to_the_end(lambda: run_trials(*arguments))


if __name__ == "__main__":
    raise SystemExit(main())
