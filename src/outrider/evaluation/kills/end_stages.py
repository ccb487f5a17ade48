# SPDX-License-Identifier: Apache-2.0
"""The stages on which `outrider eval kills` ends processes: a whole robot of real node processes.

Any of them may end; `start_motion` starts those again that have ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import rclpy
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from outrider_interfaces.msg import VerifiedText

from outrider.core.errors import OutriderError
from outrider.evaluation.kills.ends import ORPHANS_ENDED_S, SUPERVISOR
from outrider.evaluation.kills.kill_scene import (
    START_S,
    Goal,
    Sample,
    Scene,
    start_node,
    wait_for,
)
from outrider.nodes.common.process_exit import Ending
from outrider.runtime.common.ending_signals import belonging_to_this_process, wait_for_ending
from outrider.runtime.node_graph.node_specs import MOTIONS
from outrider.runtime.processes.ros_env import ros_environment
from outrider.runtime.processes.supervisor import Supervisor

WRAPPER = ("outrider.evaluation.kills.failing",)
# The object is not in this home, so that the robot never finishes its search.
INSTRUCTION = "find the red chair"
PAUSE_S, MOVES_S = 0.3, 45.0


class Stage(Protocol):
    """A robot that can be made to move. `commands` returns the commands that its base obeys."""

    supervisor: Supervisor

    def start_motion(self, rng: np.random.Generator) -> None:
        """Restart everything that ended, and make the robot move. Raises OutriderError if it does not."""

    def commands(self, process: str) -> tuple[list[Sample], bool]:
        """Returns the base's commands, as seen without a process; True if they are timed by its clock."""

    def longest_stall_s(self, since_s: float) -> float:
        """Returns the longest time since `since_s` (system clock) for which the stage did not receive."""

    def request_transitions(self, node: str, transitions: Sequence[int]) -> list[bool]:
        """Returns a node's answers to lifecycle requests."""

    def pids(self) -> dict[str, int]:
        """Returns the process id of each process by its name."""

    def replace(self, node: str) -> None:
        """End a node's process, whatever its state, and start another."""

    @property
    def moves(self) -> bool:
        """Whether the base is moving."""

    @property
    def texts(self) -> list[VerifiedText]:
        """Returns the verified texts so far."""

    @property
    def reasons(self) -> list[str]:
        """Returns the log messages so far."""


def is_alive(pid: int) -> bool:
    """Whether a process runs or is stopped; a zombie is not alive."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def ask_node(node: Any, executor: Any, name: str, transitions: Sequence[int]) -> list[bool]:
    """Returns a node's answers to lifecycle requests. Raises OutriderError if it does not answer."""
    service = node.create_client(ChangeState, f"{name}/change_state")
    try:
        wait_for(service.service_is_ready, START_S, f"the lifecycle of {name}")
        results = []
        for number in transitions:
            request = ChangeState.Request(transition=Transition(id=number))
            task = executor.create_task(service.call_async, request)
            wait_for(task.done, START_S, "the request")
            wait_for(task.result().done, START_S, f"an answer of {name}")
            results.append(bool(task.result().result().success))
        return results
    finally:
        executor.create_task(node.destroy_client, service)


class RobotStage(Scene):
    """The whole robot, which searches for an object that is not there."""

    def __init__(self, folder: Path, seed: int, models: Path, motion: str = MOTIONS[0]) -> None:
        super().__init__(folder, seed, "hidden", models, motion=motion)
        self._parameters["simulation"]["instruction"] = INSTRUCTION
        self._goal: Goal | None = None

    def start_nodes(self, parameter_file: Path) -> None:
        """Starts all nodes, each with the wrapper that records its end."""
        for name in self.nodes:
            start_node(self.supervisor, name, parameter_file, WRAPPER)

    def start_motion(self, rng: np.random.Generator) -> None:
        """Replaces dead nodes and sends goals until the robot moves; waits a random time."""
        for name in self.nodes:
            if not is_alive(self.pids()[name]):
                self.replace(name)
        self.await_ready()
        deadline_s = time.monotonic() + 2 * MOVES_S
        while time.monotonic() < deadline_s:
            if self._goal is None or self._goal.result is not None:
                time.sleep(PAUSE_S)
                self._goal = self.begin_goal()
            goal = self._goal
            with contextlib.suppress(OutriderError):
                if wait_for(self._moves_far, MOVES_S, "motion", goal.has_ended):
                    time.sleep(float(rng.uniform(0.0, PAUSE_S)))
                    if self.moves:
                        return
                    continue
            if goal.result is None:
                self._goal = None  # lost with its navigator
        raise OutriderError(f"the robot did not move; it said: {'; '.join(self.reasons[-3:])}")

    def _moves_far(self) -> bool:
        """Whether the motion is large enough: a small one would end before anything could stop it."""
        return self.moves and not self.texts[-1].action.endswith("small")

    @property
    def reasons(self) -> list[str]:
        """Returns the log messages so far."""
        return self.observer.reasons

    @property
    def moves(self) -> bool:
        """Whether the base is moving."""
        return self.observer.moves

    @property
    def texts(self) -> list[VerifiedText]:
        """Returns the verified texts so far."""
        return self.observer.texts

    def commands(self, process: str) -> tuple[list[Sample], bool]:
        """Returns the base's commands, and whether they are timed by the base's clock."""
        if process == SUPERVISOR:
            return list(self.observer.commanded), False
        return list(self.observer.base_velocities), True

    def longest_stall_s(self, since_s: float) -> float:
        """Returns the longest time since `since_s` in which the observer did not receive."""
        return self.observer.spinner.longest_stall_s(since_s)

    def request_transitions(self, node: str, transitions: Sequence[int]) -> list[bool]:
        """Requests transitions of a node's life cycle; returns which succeeded."""
        return ask_node(self.observer.node, self.observer.executor, node, transitions)

    def pids(self) -> dict[str, int]:
        """Returns the process id of each node by its name."""
        return self.supervisor.pids()

    def replace(self, node: str) -> None:
        """Ends a node and starts it again."""
        self.supervisor.stop(node)
        self.supervisor.start_again(node)
        if node == "navigator":
            self._goal = None


class SupervisedStage(RobotStage):
    """The whole robot under a supervisor in a separate process."""

    supervisor_process: subprocess.Popen[str]
    _pids: dict[str, int]

    def start_nodes(self, parameter_file: Path) -> None:
        """Starts a supervisor in a separate process, which starts the nodes."""
        command = [
            sys.executable,
            "-m",
            "outrider.evaluation.kills.end_stages",
            str(parameter_file),
            *self.nodes,
        ]
        domain = rclpy.get_default_context().get_domain_id()
        env = belonging_to_this_process(ros_environment(domain))
        self.supervisor_process = subprocess.Popen(
            command, env=env, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        assert self.supervisor_process.stdout is not None
        self._pids = json.loads(self.supervisor_process.stdout.readline() or "{}")

    def __exit__(self, *_: object) -> None:
        if hasattr(self, "supervisor_process"):
            self.supervisor_process.terminate()
            self.supervisor_process.communicate()
            deadline_s = time.monotonic() + ORPHANS_ENDED_S
            while any(map(is_alive, self._pids.values())) and time.monotonic() < deadline_s:
                time.sleep(PAUSE_S)
            for pid in filter(is_alive, self._pids.values()):
                os.kill(pid, signal.SIGKILL)
        super().__exit__()

    def pids(self) -> dict[str, int]:
        """Returns the process id of the supervisor and of each node."""
        return {**self._pids, SUPERVISOR: self.supervisor_process.pid}


def run_supervisor(parameter_file: Path, names: Sequence[str]) -> None:
    """Run nodes until asked to end, as `outrider demo` does; print their process ids."""
    ending = Ending()
    with Supervisor(parameter_file.parent / "logs", os.environ) as supervisor:
        for name in names:
            start_node(supervisor, name, parameter_file)
        print(json.dumps(supervisor.pids()), flush=True)
        wait_for_ending(ending.requested)


if __name__ == "__main__":
    run_supervisor(Path(sys.argv[1]), sys.argv[2:])
