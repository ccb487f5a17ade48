# SPDX-License-Identifier: Apache-2.0
"""One goal of `outrider eval kills --hedged`: two verifiers, one of which is killed and restarted."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from outrider_interfaces.action import Navigate

from outrider.core.errors import LinkError, OutriderError
from outrider.core.files.writing import replace_file
from outrider.evaluation.kills.hedged_kills import VERIFIERS, HedgedGoal, Moment
from outrider.evaluation.kills.kill_scene import (
    START_S,
    Goal,
    Sample,
    Scene,
    run_to_the_end,
    start_node,
    wait_for,
)
from outrider.evaluation.kills.kill_trials import GOAL_S, MOMENTS, await_moment
from outrider.evaluation.kills.process_kills import RESULT_FILE
from outrider.runtime.common.ports import free_port
from outrider.runtime.mission.simulated_base import MAX_LAG_S
from outrider.runtime.node_graph.parameter_values import write_parameter_file
from outrider.runtime.processes.ros_env import free_domain, ros_environment
from outrider.runtime.processes.supervisor import Supervisor
from outrider.runtime.wiring.probe import probe_verifier

NAMESPACE = "/second"
PLACEMENT = "other_room"
"""Long goals, some of which are searched in vain, by the target alone too."""
SECOND_EVERY = 3
"""One kill in this many is of the second verifier: the first leads, so that its end is what matters."""


class HedgedScene(Scene):
    """A robot with two verifiers, whose nodes are in another ROS domain than the robot's.

    So they seem to run on other machines: what is killed is no part of the robot's graph. The second
    verifier has its own namespace.
    """

    def __init__(self, folder: Path, seed: int, models: Path, motion: str) -> None:
        super().__init__(folder, seed, PLACEMENT, models, ["record"], motion)
        self.nodes = tuple(name for name in self.nodes if name != "verifier")
        first = self._parameters.pop("verifier")
        second = first | {"endpoint": f"tcp://127.0.0.1:{free_port()}"}
        self._parameters["navigator"]["second_endpoint"] = second["endpoint"]
        self._verifier_parameters = dict(zip(VERIFIERS, (first, second), strict=True))
        self._verifiers: list[Supervisor] = []

    def start_nodes(self, parameter_file: Path) -> None:
        """Starts the nodes of the scene and both verifiers."""
        elsewhere, folder = ros_environment(free_domain()), parameter_file.parent
        for name, namespace in zip(VERIFIERS, ("", NAMESPACE), strict=True):
            file = folder / name / parameter_file.name
            self._verifiers.append(Supervisor(file.parent, elsewhere, namespace=namespace).__enter__())
            write_parameter_file(file, {"verifier": self._verifier_parameters[name]}, namespace)
            start_node(self._verifiers[-1], "verifier", file)
        super().start_nodes(parameter_file)

    def __exit__(self, *_: object) -> None:
        for supervisor in self._verifiers:
            supervisor.stop_all()
        super().__exit__()

    def kill_verifier(self, name: str) -> None:
        """Kill a verifier, as by kill -9."""
        self._verifiers[VERIFIERS.index(name)].kill("verifier")

    def start_verifier_again(self, name: str) -> None:
        """Starts a killed verifier again."""
        self._verifiers[VERIFIERS.index(name)].start_again("verifier")

    def await_verifiers(self, goal: Goal | None = None) -> bool:
        """Wait until both verifiers answer; return False if the goal has ended before."""
        ended = goal.has_ended if goal is not None else lambda: False
        return all(
            wait_for(lambda one=one: _answers(one), START_S, f"the verifier at {one}", ended)  # type: ignore[misc]
            for one in (parameters["endpoint"] for parameters in self._verifier_parameters.values())
        )


def _answers(endpoint: str) -> bool:
    try:
        probe_verifier(endpoint, timeout_s=0.5)
    except LinkError:
        return False
    return True


def longest_stand_s(samples: Sequence[Sample], since_s: float, until_s: float) -> float:
    """Return the longest time in seconds without motion between two times, by a base's steady samples.

    Of a gap between two samples at most MAX_LAG_S counts: a base that was held up did not experience the
    rest.
    """
    longest = stood = 0.0
    for sample, following in pairwise(samples):
        begin_s, end_s = max(sample.time_s, since_s), min(following.time_s, until_s)
        if sample.moves:
            stood = 0.0
        elif end_s > begin_s:
            stood += min(end_s - begin_s, MAX_LAG_S)
        longest = max(longest, stood)
    return longest


def watch_moment(scene: HedgedScene, goal: Goal, killed: str) -> Moment:
    """Kill a verifier, or none, and wait until the robot moves by a text that was begun later."""
    observer = scene.observer
    moving, step = observer.moves, observer.texts[-1].step
    at_s = time.time()
    if killed:
        scene.kill_verifier(killed)

    def moves_by_new_text() -> bool:
        last = observer.texts[-1]
        return observer.moves and (last.step > step + 1 or (last.step == step + 1 and last.action_complete))

    moved_on = wait_for(moves_by_new_text, START_S, "a motion after a kill", goal.has_ended)
    until_s = time.time()

    def has_base_velocity() -> bool:
        return bool(observer.base_velocities) and observer.base_velocities[-1].time_s >= until_s

    wait_for(has_base_velocity, START_S, "the base's velocity", goal.has_ended)
    stood_s = longest_stand_s(list(observer.base_velocities), at_s, until_s) if moved_on else None
    if killed:
        scene.start_verifier_again(killed)
    return Moment(killed, moving, stood_s)


def _goal_with_kills(scene: HedgedScene, kills: int, rng: np.random.Generator, moments: list[Moment]) -> Any:
    """Return the goal's result; add control moments and kills, in turn, to `moments`."""
    scene.await_ready()
    scene.await_verifiers()
    goal = scene.begin_goal()
    names = [VERIFIERS[(at // 2 + 1) % SECOND_EVERY == 0] if at % 2 else "" for at in range(2 * kills)]
    for name in names:
        is_ready = scene.await_verifiers(goal)
        if not is_ready or not await_moment(scene, goal, str(rng.choice(MOMENTS)), float(rng.uniform())):
            break
        moments.append(watch_moment(scene, goal, name))
    wait_for(goal.has_ended, GOAL_S, "the goal's end")
    return goal.result


def run_goal(folder: Path, kills: int, seed: int, models: Path, motion: str) -> HedgedGoal:
    """Drive one goal in a home; its recording stays in the folder."""
    moments: list[Moment] = []
    with HedgedScene(folder, seed, models, motion) as scene:
        try:
            result = _goal_with_kills(scene, kills, np.random.default_rng([seed, 33]), moments)
        except OutriderError as error:
            return HedgedGoal(seed, False, True, str(error), tuple(moments))
        reached, in_vain = (
            result.success and scene.at_target(),
            result.error_code == Navigate.Result.NOT_FOUND,
        )
        return HedgedGoal(seed, reached, not (result.success or in_vain), result.message, tuple(moments))


def main() -> int:
    """Run with the arguments: folder, kills, seed, models, motion."""
    folder, kills, seed, models, motion = sys.argv[1:]

    def drive() -> None:
        goal = run_goal(Path(folder), int(kills), int(seed), Path(models), motion)
        replace_file(Path(folder) / RESULT_FILE, msgspec.json.encode(goal))

    return run_to_the_end(drive)


if __name__ == "__main__":
    raise SystemExit(main())
