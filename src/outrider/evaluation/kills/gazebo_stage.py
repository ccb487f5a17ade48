# SPDX-License-Identifier: Apache-2.0
"""A stage for the processes in front of Gazebo's base: real nodes around a stand-in for Gazebo."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import rclpy
from geometry_msgs.msg import Twist
from nav_msgs.msg import Odometry as OdometryMsg
from outrider_interfaces.msg import MotionReport, VerifiedText
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import LaserScan

from outrider.core.errors import OutriderError
from outrider.core.values import Odometry, Pose2D, RangeScan, Velocity
from outrider.evaluation.kills.end_stages import MOVES_S, PAUSE_S, WRAPPER, ask_node, is_alive
from outrider.evaluation.kills.ends import GAZEBO, WATCHDOG
from outrider.evaluation.kills.kill_scene import START_S, NodeSpinner, Sample, start_node, wait_for
from outrider.nodes.common import convert, qos
from outrider.runtime.node_graph.node_graphs import GAZEBO_GRAPH
from outrider.runtime.node_graph.parameter_values import graph_parameters, write_parameter_file
from outrider.runtime.processes.ros_env import free_domain, ros_environment
from outrider.runtime.processes.supervisor import Supervisor

PERIOD_S, TEXT_PERIOD_S = 0.02, 0.05
OPEN_SCAN = RangeScan((math.inf,) * 36, -math.pi, math.tau / 36, 0.0)


class GazeboStage:
    """The nodes in front of Gazebo's base, and the action node.

    This process plays Gazebo, whose base obeys the last velocity forever, and a navigator that sends one
    text after the other.
    """

    nodes = (WATCHDOG, GAZEBO, "action")

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.reasons: list[str] = []
        self.texts = [VerifiedText(session_id="s", step=1, action="move forward large", action_complete=True)]
        self.texts[0].link_state = "connected"
        self._pose, self._commands = Pose2D(0.0, 0.0, 0.0), [Sample(0.0, Velocity())]

    def __enter__(self) -> GazeboStage:
        domain = free_domain()
        rclpy.init(domain_id=domain, signal_handler_options=SignalHandlerOptions.NO)
        self.supervisor = Supervisor(self._folder / "logs", ros_environment(domain)).__enter__()
        self._open_node()
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

    def _open_node(self) -> None:
        self._node = rclpy.create_node("kill_trials")
        make = self._node.create_publisher
        self._odom = make(OdometryMsg, "gazebo/odom", qos.EVENTS)
        self._scan = make(LaserScan, "scan", qos.SENSOR)
        self._text = make(VerifiedText, "verified_text", qos.EVENTS)
        self._node.create_subscription(Twist, "gazebo/cmd_vel", self._on_velocity, qos.COMMAND)
        self._node.create_subscription(MotionReport, "motion_report", self._on_report, qos.EVENTS)
        self._node.create_timer(PERIOD_S, self._move)
        self._node.create_timer(TEXT_PERIOD_S, self._publish_text)
        self._spinner = NodeSpinner(self._node)

    def _on_velocity(self, message: Twist) -> None:
        self._commands.append(Sample(time.time(), convert.velocity_of(message)))

    def _on_report(self, message: MotionReport) -> None:
        if message.outcome != MotionReport.DONE:
            self.reasons.append(message.message)
            # A failure ends its goal; the next text belongs to another.
            self.texts[0].session_id = f"s{message.step}"
        self.texts[0].step = max(self.texts[0].step, message.step + 1)

    def _move(self) -> None:
        velocity = self._commands[-1].velocity
        yaw = self._pose.yaw + velocity.wz * PERIOD_S
        ahead_m = velocity.vx * PERIOD_S
        x, y = self._pose.x + ahead_m * math.cos(yaw), self._pose.y + ahead_m * math.sin(yaw)
        self._pose = Pose2D(x, y, yaw)
        stamp = self._node.get_clock().now().to_msg()
        self._odom.publish(convert.odometry_message(Odometry(self._pose, velocity, 0.0), stamp))
        self._scan.publish(convert.scan_message(OPEN_SCAN, stamp, 8.0))

    def _publish_text(self) -> None:
        self.texts[0].header.stamp = self._node.get_clock().now().to_msg()
        self._text.publish(self.texts[0])

    def start_motion(self, rng: np.random.Generator) -> None:
        """Restarts dead nodes, then waits until the base moves and for a random time."""
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
        raise OutriderError(f"the base did not move; it said: {'; '.join(self.reasons[-3:])}")

    @property
    def moves(self) -> bool:
        """Whether the last few commands all move the base: stops of the watchdog would be among them."""
        return all(sample.moves for sample in self._commands[-5:])

    def commands(self, process: str) -> tuple[list[Sample], bool]:
        """Returns the base's commands, timed by this process."""
        return list(self._commands), False

    def longest_stall_s(self, since_s: float) -> float:
        """Returns the longest time since `since_s` in which this process did not receive."""
        return self._spinner.longest_stall_s(since_s)

    def request_transitions(self, node: str, transitions: Sequence[int]) -> list[bool]:
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
