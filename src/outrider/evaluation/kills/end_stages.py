# SPDX-License-Identifier: Apache-2.0
"""Where the ends of `outrider eval kills` take place: a robot, and a stand-in for Gazebo's base.

Both run real node processes, of which any may end; `begin` starts again what has.
"""

from __future__ import annotations

import contextlib
import json
import math
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
from geometry_msgs.msg import Twist
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from nav_msgs.msg import Odometry as OdometryMsg
from outrider_interfaces.msg import MotionReport, VerifiedText
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import LaserScan

from outrider.core.errors import OutriderError
from outrider.core.values import Odometry, Pose2D, RangeScan, Velocity
from outrider.evaluation.kills.ends import GAZEBO, ORPHANS_ENDED_S, SUPERVISOR, WATCHDOG
from outrider.evaluation.kills.kill_scene import (
    START_S,
    Goal,
    NodeSpinner,
    Sample,
    Scene,
    start_node,
    wait_for,
)
from outrider.nodes.common import convert, qos
from outrider.nodes.common.process_exit import Ending
from outrider.runtime.common.ending_signals import belonging_to_this_process
from outrider.runtime.node_graph.node_graphs import GAZEBO_GRAPH
from outrider.runtime.node_graph.node_specs import MOTIONS
from outrider.runtime.node_graph.parameter_values import graph_parameters, write_parameter_file
from outrider.runtime.node_graph.ros_env import free_domain, ros_environment
from outrider.runtime.node_graph.supervisor import Supervisor

WRAPPER = ("outrider.evaluation.kills.failing",)
# Of a home in which the goal's object is not, so that the robot does not come to the end of its search.
HELD = "find the red chair"
SPIN_S, PERIOD_S, TEXT_PERIOD_S = 0.02, 0.02, 0.05
PAUSE_S, MOVES_S = 0.3, 45.0
OPEN_SCAN = RangeScan((math.inf,) * 36, -math.pi, math.tau / 36, 0.0)


class Stage(Protocol):
    """A robot that can be brought to move. `told` is what its base obeys."""

    supervisor: Supervisor

    def begin(self, rng: np.random.Generator) -> None:
        """Bring everything back that ended, and the robot to move. Raises OutriderError where it does not."""

    def told(self, process: str) -> tuple[list[Sample], bool]:
        """What the base was told, as far as that can be seen without a process; True: by the base's clock."""

    def ask(self, node: str, transitions: Sequence[int]) -> list[bool]:
        """How a node answers requests of its lifecycle."""

    def pids(self) -> dict[str, int]:
        """Returns the process id of each process by its name."""

    def replace(self, node: str) -> None:
        """End a node's process, however it is, and start another."""

    @property
    def moves(self) -> bool:
        """Whether the base is moving."""

    @property
    def texts(self) -> list[VerifiedText]:
        """Returns the verified texts so far."""

    @property
    def said(self) -> list[str]:
        """Returns the log messages so far."""


def is_alive(pid: int) -> bool:
    """Whether a process runs, or is stopped; one that only waits for its parent does not."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def ask_node(node: Any, executor: Any, name: str, transitions: Sequence[int]) -> list[bool]:
    """How a node answers requests of its lifecycle. Raises OutriderError where it does not."""
    service = node.create_client(ChangeState, f"{name}/change_state")
    try:
        wait_for(service.service_is_ready, START_S, f"the lifecycle of {name}")
        answers = []
        for number in transitions:
            request = ChangeState.Request(transition=Transition(id=number))
            sent = executor.create_task(service.call_async, request)
            wait_for(sent.done, START_S, "the request")
            wait_for(sent.result().done, START_S, f"an answer of {name}")
            answers.append(bool(sent.result().result().success))
        return answers
    finally:
        executor.create_task(node.destroy_client, service)


class RobotStage(Scene):
    """The whole robot, which searches for what is not there."""

    def __init__(self, folder: Path, seed: int, models: Path, motion: str = MOTIONS[0]) -> None:
        super().__init__(folder, seed, "hidden", models, motion=motion)
        self._parameters["simulation"]["instruction"] = HELD
        self._goal: Goal | None = None

    def start_nodes(self, parameter_file: Path) -> None:
        """Starts all nodes, each with the wrapper that records its end."""
        for name in self.nodes:
            start_node(self.supervisor, name, parameter_file, WRAPPER)

    def begin(self, rng: np.random.Generator) -> None:
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
        raise OutriderError(f"the robot did not move; it said: {'; '.join(self.said[-3:])}")

    def _moves_far(self) -> bool:
        """Small motions would be over before anything could stop them."""
        return self.moves and not self.texts[-1].action.endswith("small")

    @property
    def said(self) -> list[str]:
        """Returns the log messages so far."""
        return self.observer.said

    @property
    def moves(self) -> bool:
        """Whether the base is moving."""
        return self.observer.moves

    @property
    def texts(self) -> list[VerifiedText]:
        """Returns the verified texts so far."""
        return self.observer.texts

    def told(self, process: str) -> tuple[list[Sample], bool]:
        """Returns the base's commands, and whether they are timed by the base's clock."""
        if process == SUPERVISOR:
            return list(self.observer.commanded), False
        return list(self.observer.told), True

    def ask(self, node: str, transitions: Sequence[int]) -> list[bool]:
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


class HeldStage(RobotStage):
    """The whole robot under a supervisor in a process of its own."""

    holder: subprocess.Popen[str]
    _pids: dict[str, int]

    def start_nodes(self, parameter_file: Path) -> None:
        """Starts a supervisor in a process of its own, which starts the nodes."""
        command = [
            sys.executable,
            "-m",
            "outrider.evaluation.kills.end_stages",
            str(parameter_file),
            *self.nodes,
        ]
        domain = rclpy.get_default_context().get_domain_id()
        env = belonging_to_this_process(ros_environment(domain))
        self.holder = subprocess.Popen(
            command, env=env, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        assert self.holder.stdout is not None
        self._pids = json.loads(self.holder.stdout.readline() or "{}")

    def __exit__(self, *_: object) -> None:
        if hasattr(self, "holder"):
            self.holder.terminate()
            self.holder.communicate()
            deadline_s = time.monotonic() + ORPHANS_ENDED_S
            while any(map(is_alive, self._pids.values())) and time.monotonic() < deadline_s:
                time.sleep(PAUSE_S)
            for pid in filter(is_alive, self._pids.values()):
                os.kill(pid, signal.SIGKILL)
        super().__exit__()

    def pids(self) -> dict[str, int]:
        """Returns the process id of the supervisor and of each node."""
        return {**self._pids, SUPERVISOR: self.holder.pid}


def hold(parameter_file: Path, names: Sequence[str]) -> None:
    """Run nodes until asked to end, as `outrider demo` does; prints their processes."""
    ending = Ending()
    with Supervisor(parameter_file.parent / "logs", os.environ) as supervisor:
        for name in names:
            start_node(supervisor, name, parameter_file)
        print(json.dumps(supervisor.pids()), flush=True)
        ending.asked.wait()


class GazeboStage:
    """The nodes before Gazebo's base, and the action node. This process plays Gazebo, whose base obeys the
    last velocity for ever, and a navigator that says one text after the other.
    """

    nodes = (WATCHDOG, GAZEBO, "action")

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.said: list[str] = []
        self.texts = [VerifiedText(session_id="s", step=1, action="move forward large", action_complete=True)]
        self.texts[0].link_state = "connected"
        self._pose, self._told = Pose2D(0.0, 0.0, 0.0), [Sample(0.0, Velocity())]

    def __enter__(self) -> GazeboStage:
        domain = free_domain()
        rclpy.init(domain_id=domain, signal_handler_options=SignalHandlerOptions.NO)
        self.supervisor = Supervisor(self._folder / "logs", ros_environment(domain)).__enter__()
        self._play()
        file = self._folder / "parameters.yaml"
        try:
            write_parameter_file(file, _gazebo_parameters())
            for name in self.nodes:
                start_node(self.supervisor, name, file, WRAPPER)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.supervisor.stop_all()
        self._spinner.close()
        self._node.destroy_node()
        rclpy.try_shutdown()

    def _play(self) -> None:
        self._node = rclpy.create_node("kill_trials")
        make = self._node.create_publisher
        self._odom = make(OdometryMsg, "gazebo/odom", qos.EVENTS)
        self._scan = make(LaserScan, "scan", qos.SENSOR)
        self._text = make(VerifiedText, "verified_text", qos.EVENTS)
        self._node.create_subscription(Twist, "gazebo/cmd_vel", self._on_velocity, qos.COMMAND)
        self._node.create_subscription(MotionReport, "motion_report", self._on_report, qos.EVENTS)
        self._node.create_timer(PERIOD_S, self._move)
        self._node.create_timer(TEXT_PERIOD_S, self._speak)
        self._spinner = NodeSpinner(self._node)

    def _on_velocity(self, message: Twist) -> None:
        self._told.append(Sample(time.time(), convert.velocity_of(message)))

    def _on_report(self, message: MotionReport) -> None:
        if message.outcome != MotionReport.DONE:
            self.said.append(message.message)
        self.texts[0].step = max(self.texts[0].step, message.step + 1)

    def _move(self) -> None:
        velocity = self._told[-1].velocity
        yaw = self._pose.yaw + velocity.wz * PERIOD_S
        ahead_m = velocity.vx * PERIOD_S
        x, y = self._pose.x + ahead_m * math.cos(yaw), self._pose.y + ahead_m * math.sin(yaw)
        self._pose = Pose2D(x, y, yaw)
        stamp = self._node.get_clock().now().to_msg()
        self._odom.publish(convert.odometry_message(Odometry(self._pose, velocity, 0.0), stamp))
        self._scan.publish(convert.scan_message(OPEN_SCAN, stamp, 8.0))

    def _speak(self) -> None:
        self.texts[0].header.stamp = self._node.get_clock().now().to_msg()
        self._text.publish(self.texts[0])

    def begin(self, rng: np.random.Generator) -> None:
        """Replaces dead nodes and waits until the base moves, and for a random time."""
        for name in self.nodes:
            if not is_alive(self.pids()[name]):
                self.replace(name)
        count = self._node.count_publishers
        wait_for(lambda: count("gazebo/cmd_vel") >= 2, START_S, "both deadmen before the base")
        deadline_s = time.monotonic() + 2 * MOVES_S
        while time.monotonic() < deadline_s:
            wait_for(lambda: self.moves, MOVES_S, "a base that moves")
            time.sleep(float(rng.uniform(0.0, PAUSE_S)))
            if self.moves:
                return
        raise OutriderError(f"the base did not move; it said: {'; '.join(self.said[-3:])}")

    @property
    def moves(self) -> bool:
        """For some commands on end: the watchdog's stops would be in between."""
        return all(sample.moves for sample in self._told[-5:])

    def told(self, process: str) -> tuple[list[Sample], bool]:
        """Returns the base's commands, timed by this process."""
        return list(self._told), False

    def ask(self, node: str, transitions: Sequence[int]) -> list[bool]:
        """Requests transitions of a node's life cycle; returns which succeeded."""
        return ask_node(self._node, self._spinner.executor, node, transitions)

    def pids(self) -> dict[str, int]:
        """Returns the process id of each node by its name."""
        return self.supervisor.pids()

    def replace(self, node: str) -> None:
        """Ends a node and starts it again."""
        self.supervisor.stop(node)
        self.supervisor.start_again(node)


def _gazebo_parameters() -> dict[str, dict[str, Any]]:
    parameters: dict[str, dict[str, Any]] = dict(graph_parameters(GAZEBO_GRAPH, {}, {}))
    return {name: {**values, "use_sim_time": False} for name, values in parameters.items()}


if __name__ == "__main__":
    hold(Path(sys.argv[1]), sys.argv[2:])
