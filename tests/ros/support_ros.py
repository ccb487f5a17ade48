"""Nodes for tests, a base without physics for the action node, and a client of `Navigate`."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from conftest import WAIT_S, Client, NodeThread, wait_until
from fakes import ScriptedDecoder
from geometry_msgs.msg import Twist
from nav_msgs.msg import Odometry as OdometryMsg
from outrider_interfaces.action import Navigate
from outrider_interfaces.msg import MotionReport, VerifiedText
from rclpy.action import ActionClient
from sensor_msgs.msg import Image, LaserScan

from outrider.core.values import Odometry, Pose2D, RangeScan, Velocity
from outrider.navigation.motion.pilot import PilotSettings
from outrider.nodes.base.action_node import ActionNode
from outrider.nodes.common import convert, qos
from outrider.nodes.navigator.navigator_node import NavigatorNode
from outrider.runtime.mission.goal_run import GoalSettings
from outrider.runtime.node_graph.parameters import Value
from outrider.runtime.wiring.robot_pair import Edge

Run = Callable[..., NodeThread]
"""The type of the fixture `run_node`."""
PERIOD_S = 0.02
PATIENCE_S = 5.0
SCAN = RangeScan((math.inf,) * 36, -math.pi, math.tau / 36, 0.0)


class PatientAction(ActionNode):
    """Has long time limits: these tests are not about its limits, and their nodes share one interpreter."""

    def pilot_settings(self) -> PilotSettings:
        settings = super().pilot_settings()
        limits = replace(settings.limits, stale_after_s=PATIENCE_S)
        return replace(settings, silence_s=PATIENCE_S, limits=limits)


class ImpatientAction(PatientAction):
    """Waits only briefly for a base in trouble: for tests in which the trouble lasts."""

    def pilot_settings(self) -> PilotSettings:
        return replace(super().pilot_settings(), base_patience_s=0.5)


class EdgeNavigator(NavigatorNode):
    """A navigator with a given edge; by default its decoder says stop. `limits` replace goal settings."""

    def __init__(
        self, parameters: Mapping[str, Value] | None = None, edge: Edge | None = None, **limits: float
    ) -> None:
        self._given_edge, self._limits = edge or Edge(ScriptedDecoder([]), None), limits
        super().__init__(parameters)

    def open_edge(self) -> Edge:
        return self._given_edge

    def _goal_settings(self) -> GoalSettings:
        return replace(super()._goal_settings(), **self._limits)  # type: ignore[arg-type]


class FakeBase:
    """Moves as commanded, without lag; publishes odom and scan. Records every command with its time.

    If its thread is delayed it moves more slowly, and its odometry says so. With `listens` false it stands,
    and does not subscribe to cmd_vel, so that another type may.
    """

    def __init__(self, client: Client, listens: bool = True) -> None:
        self.client = client
        self.pose = Pose2D(0.0, 0.0, 0.0)
        self.commands: list[tuple[float, Velocity]] = []
        self.reports = client.listen(MotionReport, "motion_report", qos.EVENTS)
        self.odometry_on = True
        self.alter: Callable[[OdometryMsg], object] = lambda message: None
        self._velocity, self._stepped_s = Velocity(), time.monotonic()
        self._odom = client.node.create_publisher(OdometryMsg, "odom", qos.SENSOR)
        self._scan = client.node.create_publisher(LaserScan, "scan", qos.SENSOR)
        if listens:
            client.node.create_subscription(Twist, "cmd_vel", self._on_command, qos.COMMAND)
        client.node.create_timer(PERIOD_S, self._step)

    def drive(self, velocity: Velocity) -> None:
        """Sets the velocity from now on."""
        self._velocity = velocity

    def _on_command(self, message: Twist) -> None:
        self.drive(convert.velocity_of(message))
        self.commands.append((time.monotonic(), self._velocity))

    def _step(self) -> None:
        now_s = time.monotonic()
        elapsed_s, self._stepped_s = now_s - self._stepped_s, now_s
        share = min(1.0, 2.0 * PERIOD_S / elapsed_s)
        velocity = Velocity(share * self._velocity.vx, share * self._velocity.vy, share * self._velocity.wz)
        yaw = self.pose.yaw + velocity.wz * elapsed_s
        ahead = velocity.vx * elapsed_s
        x, y = self.pose.x + ahead * math.cos(yaw), self.pose.y + ahead * math.sin(yaw)
        self.pose = Pose2D(x, y, yaw)
        stamp = self.client.node.get_clock().now().to_msg()
        if self.odometry_on:
            message = convert.odometry_message(Odometry(self.pose, velocity, 0.0), stamp)
            self.alter(message)
            self._odom.publish(message)
        self._scan.publish(self.scan_message(stamp))

    def scan_message(self, stamp: Any) -> LaserScan:
        """Returns a scan with nothing in range, all around the base."""
        return convert.scan_message(SCAN, stamp, 8.0)

    def is_moving(self) -> bool:
        return bool(self.commands) and self.commands[-1][1] != Velocity()

    def stands_after(self, moment_s: float, within_s: float) -> bool:
        """Returns whether all commands later than `within_s` after a moment are zero."""
        return all(
            velocity == Velocity() for time_s, velocity in self.commands if time_s > moment_s + within_s
        )


class StillCamera:
    """Publishes ten pictures a second of a grey ramp with noise.

    `frozen` repeats the last one with its stamp; `dead` repeats the last one with new stamps.
    """

    def __init__(self, client: Client, width: int = 56, height: int = 28) -> None:
        self._client = client
        self.frozen = self.dead = False
        row = (60 + np.arange(width) % 128).astype(np.uint8)
        picture = np.ascontiguousarray(np.broadcast_to(row[:, None], (height, width, 3)))
        self._picture = convert.image_message(picture, convert.time_of(0.0), "camera")
        self._images = client.node.create_publisher(Image, "camera/image_raw", qos.SENSOR)
        client.node.create_timer(0.1, self._publish)

    def _publish(self) -> None:
        if not self.frozen:
            self._picture.header.stamp = self._client.node.get_clock().now().to_msg()
        if not self.frozen and not self.dead:
            self._picture.data[0] = (self._picture.data[0] + 1) % 256
        self._images.publish(self._picture)


class Speaker:
    """Repeats a verified text as a running navigator does, until silenced."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._message: VerifiedText | None = None
        # The clock of the texts' stamps.
        self.stamp_s = time.time
        self._publisher = client.node.create_publisher(VerifiedText, "verified_text", qos.EVENTS)
        client.node.create_timer(0.05, self._beat)

    def say(self, step: int, action: str, link_state: str = "connected", session: str = "s") -> None:
        wait_until(lambda: self._publisher.get_subscription_count() > 0, "the action node's subscription")
        message = VerifiedText(session_id=session, step=step, action=action, link_state=link_state)
        message.action_complete = True
        message.header.stamp = convert.time_of(self.stamp_s())
        self._message = message
        self._beat()

    def silence(self) -> float:
        """Stops repeating. Returns the time."""
        self._message = None
        return time.monotonic()

    def _beat(self) -> None:
        message = self._message
        if message is not None:
            self._publisher.publish(message)


def start_action(
    run_node: Run,
    client: Client,
    parameters: dict[str, Any] | None = None,
    action: type[ActionNode] = PatientAction,
) -> tuple[Any, FakeBase, Speaker]:
    """Starts the action node with a base and a navigator. Returns once all are connected."""
    node = run_node(lambda: action(parameters)).node
    base, speaker = FakeBase(client), Speaker(client)
    wait_until(lambda: node._odometry and node._scan, "odometry and scan")
    wait_until(lambda: client.node.count_publishers("motion_report"), "the reports' publisher")
    wait_until(lambda: node._reports.get_subscription_count(), "the reports' subscription")
    return node, base, speaker


class Goals:
    """Sends goals and waits for their results from the test's thread."""

    def __init__(self, client: Client, name: str = "navigate") -> None:
        self._client = client
        self._goals = ActionClient(client.node, Navigate, name)
        self.feedback: list[Any] = []

    def send(self, instruction: str, start_s: float = WAIT_S) -> Any:
        """Returns the handle of a goal, accepted or not. The navigator may take `start_s` to appear."""
        wait_until(self._goals.server_is_ready, "the Navigate server", start_s)
        goal = Navigate.Goal(instruction=instruction)

        def on_feedback(message: Any) -> None:
            self.feedback.append(message.feedback)

        return result_of(self._client.do(lambda: self._goals.send_goal_async(goal, on_feedback)))

    def outcome(self, handle: Any, timeout_s: float = 40.0) -> Any:
        """Waits until the goal has ended. Returns its status and result."""
        return result_of(self._client.do(handle.get_result_async), timeout_s)

    def result(self, handle: Any, timeout_s: float = 40.0) -> Any:
        return self.outcome(handle, timeout_s).result

    def cancel(self, handle: Any) -> None:
        result_of(self._client.do(handle.cancel_goal_async))


def result_of(future: Any, timeout_s: float = 20.0) -> Any:
    done = threading.Event()
    future.add_done_callback(lambda _: done.set())
    assert done.wait(timeout_s), f"no answer within {timeout_s:g} s"
    return future.result()
