# SPDX-License-Identifier: Apache-2.0
"""Motions as goals of nav2's `NavigateToPose`, cancelled as soon as anything stops the robot.

nav2 plans and commands the base. The pilot still decides what may move, and watches odometry and scan. A
goal that is no longer wanted counts as driving. It is cancelled repeatedly until nav2 reports its end.
"""

from __future__ import annotations

import math
import time
import uuid
from functools import partial
from typing import Any

import rclpy
from action_msgs.msg import GoalStatus
from action_msgs.srv import CancelGoal
from geometry_msgs.msg import PoseStamped
from nav2_msgs.action import NavigateToPose
from rclpy.action import ActionClient
from rclpy.action.client import ClientGoalHandle
from rclpy.executors import SingleThreadedExecutor
from unique_identifier_msgs.msg import UUID

from outrider.core.language.actions import Motion
from outrider.core.values import Odometry, Pose2D, RangeScan, Velocity, wrap_angle
from outrider.navigation.limits import SETTLED_MPS, SETTLED_RPS, Footprint, MotionLimits
from outrider.navigation.motion.controller import STUCK_AFTER_S, Command, measurement_fault
from outrider.navigation.sensing.coverage import blind_fault, coverage
from outrider.nodes.base.base_command import TwistCommand
from outrider.nodes.common import convert
from outrider.nodes.common.node import OutriderNode

PLANNING_S = 10.0
MIN_SHARE = 0.5
# How far nav2 may go beyond a motion to bypass obstacles.
DETOUR_M, DETOUR_RAD = 0.5, math.radians(45.0)
# The period of repeated cancellations; how long `close` waits for them; and how long a goal holds the base
# if nav2 does not know it or is gone. A goal that nav2 has not answered is cancelled less and less often,
# down to once a second: its answer may be lost. When the answer comes, it is cancelled at once.
REPEAT_S, CLOSE_TIMEOUT_S, UNKNOWN_S = 0.1, 2.0, 3.0
CALLBACKS = 6


class Nav2Command:
    """Sends one goal at a time. While none drives, velocities (a joystick's, and zeros) go to `cmd_vel`."""

    refused = overdue = 0
    is_ready = True

    def __init__(self, node: OutriderNode, twist: TwistCommand, limits: MotionLimits) -> None:
        self._node, self._twist, self._limits = node, twist, limits
        self._wire = _Wire(node)
        node.keep(self._wire, lambda wire: wire.close())
        self._goal: _Goal | None = None
        self._unwanted: list[_Goal] = []

    @property
    def is_idle(self) -> bool:
        """Whether no goal is running, and none that may drive is being cancelled."""
        return self._goal is None and not self._holds_base

    @property
    def _holds_base(self) -> bool:
        """Whether a goal that is no longer wanted may still drive."""
        now_s = time.monotonic()
        return any(goal.may_drive(now_s) for goal in self._unwanted)

    def make_executor(self, motion: Motion) -> Nav2Motion:
        """Returns the executor that carries out a motion as a goal of nav2."""
        return Nav2Motion(motion, self, self._limits)

    def start(self) -> None:
        """Does nothing: the base is always ready."""

    def tick(self, held: bool = False) -> None:
        """Take nav2's answers. Hold the base and cancel again while an unwanted goal may drive."""
        if self._goal is not None or self._unwanted:
            self._wire.take()
        self._enforce()
        if self._holds_base:
            self._twist.stop()

    def close(self) -> None:
        """Wait up to `CLOSE_TIMEOUT_S` until nav2 accepts the cancellation; otherwise the robot drives on."""
        deadline_s = time.monotonic() + CLOSE_TIMEOUT_S
        while any(not goal.is_ending for goal in self._unwanted) and time.monotonic() < deadline_s:
            self._wire.take(timeout_s=0.01)
            self._enforce()

    def trouble(self) -> str:
        """Returns an empty text: nav2 has no trouble of its own to report."""
        return ""

    def warning(self) -> str:
        """Returns why no goal can be sent now; empty if one can."""
        if not self._wire.client.server_is_ready():
            return "nobody serves navigate_to_pose: start nav2"
        return "nav2 has not ended a cancelled goal yet: the base is held" if self._holds_base else ""

    def send(self, velocity: Velocity) -> None:
        """Send a velocity, but not while nav2 drives: two sources would conflict."""
        if self.is_idle:
            self._twist.send(velocity)

    def stop(self) -> None:
        """Cancel the goal and send zero. This is never delayed or refused."""
        if self._goal is not None:
            self._unwanted.append(self._goal)
            self._goal = None
        self._enforce()
        self._twist.stop()

    def go_to(self, pose: Pose2D, frame_id: str) -> _Goal:
        """Start to drive to a pose in odometry's frame. Returns the goal."""
        self.stop()
        target = PoseStamped(header=convert.header(self._node.get_clock().now().to_msg(), frame_id))
        target.pose = convert.pose_message(pose)
        self._goal = _Goal(self._wire.client, NavigateToPose.Goal(pose=target))
        return self._goal

    def _enforce(self) -> None:
        now_s = time.monotonic()
        for goal in self._unwanted:
            goal.cancel(now_s)
        self._unwanted = [goal for goal in self._unwanted if not goal.has_ended(now_s)]


class _Wire:
    """The action's client on a node of its own, so that a callback can wait for its answers."""

    def __init__(self, node: OutriderNode) -> None:
        rename = ["--ros-args", "-r", f"__node:={node.get_name()}_nav2"]
        own: dict[str, Any] = {"context": node.context, "start_parameter_services": False}
        self._node = rclpy.create_node(
            "nav2", cli_args=rename, namespace=node.get_namespace(), enable_rosout=False, **own
        )
        self.client = ActionClient(self._node, NavigateToPose, "navigate_to_pose")
        self._executor = SingleThreadedExecutor(context=node.context)
        self._executor.add_node(self._node)

    def take(self, timeout_s: float = 0.0) -> None:
        """Handle answers that have come, or that come within `timeout_s`."""
        for index in range(CALLBACKS):
            self._executor.spin_once(timeout_sec=0.0 if index else timeout_s)

    def close(self) -> None:
        self._executor.shutdown(timeout_sec=0.0)
        self.client.destroy()
        self._node.destroy_node()


class _Goal:
    """A goal, from sending to its result; `outcome` is None until then.

    Its id is chosen here, so it can be cancelled before it is accepted.
    """

    def __init__(self, client: Any, goal: Any) -> None:
        self.outcome: int | None = None
        self.message = ""
        # Whether nav2 has accepted a cancellation of it, or it has ended.
        self.is_ending = False
        self._has_answer = self._is_unknown = False
        self._unwanted_s: float | None = None
        self._requested_s = -math.inf
        self._client = client
        identity = UUID(uuid=list(uuid.uuid4().bytes))
        self._handle = ClientGoalHandle(client, identity, None)
        client.send_goal_async(goal, goal_uuid=identity).add_done_callback(self._on_answer)

    def cancel(self, now_s: float) -> None:
        """Request cancellation, unless it was requested a moment ago."""
        self._unwanted_s = now_s if self._unwanted_s is None else self._unwanted_s
        is_lost = self._is_unknown and not self._has_answer
        waited_share = (now_s - self._unwanted_s) / UNKNOWN_S if is_lost else 0.0
        if self.outcome is None and now_s - self._requested_s >= REPEAT_S * min(10.0, max(1.0, waited_share)):
            self._requested_s = now_s
            request = self._handle.cancel_goal_async()
            request.add_done_callback(partial(self._on_cancel_answer, was_answered=self._has_answer))

    def may_drive(self, now_s: float) -> bool:
        """Whether it may still drive.

        It no longer may once it has a result, or if nav2 does not know it, or is gone, for UNKNOWN_S after
        it became unwanted.
        """
        waited_s = now_s - self._unwanted_s if self._unwanted_s is not None else 0.0
        is_lost = self._is_unknown or not self._client.server_is_ready()
        return self.outcome is None and not (waited_s > UNKNOWN_S and is_lost)

    def has_ended(self, now_s: float) -> bool:
        """Whether it will never drive again. A goal that nav2 may still accept has not ended."""
        may_come = not self._has_answer and self._client.server_is_ready()
        return not self.may_drive(now_s) and (self.outcome is not None or not may_come)

    def _on_answer(self, future: Any) -> None:
        self._has_answer, self._is_unknown = True, False
        if not future.result().accepted:
            self._end(GoalStatus.STATUS_ABORTED, "it rejected the goal")
            return
        self._handle.get_result_async().add_done_callback(self._on_result)

    def _on_cancel_answer(self, future: Any, was_answered: bool) -> None:
        code = future.result().return_code
        # A goal that has not arrived is unknown too: a request before its acceptance proves nothing.
        is_unknown = code == CancelGoal.Response.ERROR_UNKNOWN_GOAL_ID
        self._is_unknown = is_unknown and was_answered == self._has_answer
        self.is_ending = self.is_ending or code == CancelGoal.Response.ERROR_NONE
        if code == CancelGoal.Response.ERROR_GOAL_TERMINATED:
            self._end(GoalStatus.STATUS_CANCELED, "it had ended before it was cancelled")

    def _on_result(self, future: Any) -> None:
        answer = future.result()
        # In Humble a result has no code. Only some versions have a text.
        code, text = getattr(answer.result, "error_code", 0), getattr(answer.result, "error_msg", "")
        self._end(answer.status, text or f"error code {code}")

    def _end(self, outcome: int, message: str) -> None:
        """The first outcome counts."""
        if self.outcome is not None:
            return
        self.outcome, self.message, self.is_ending = outcome, message, True


class Nav2Motion:
    """Implements `anchoring.MotionExecutor`. Its commands have no velocity, only the goal's state."""

    odometry_froze = False

    def __init__(self, motion: Motion, nav2: Nav2Command, limits: MotionLimits) -> None:
        self._motion, self._nav2, self._limits = motion, nav2, limits
        self._arrived_s = math.inf

    def start(self, odometry: Odometry, now_s: float) -> None:
        """Send the motion's end pose as a goal, unless nav2 cannot take one."""
        self._start = odometry.pose
        nominal_s = abs(self._motion.forward_m) / self._limits.forward_mps
        nominal_s += abs(self._motion.turn_rad) / self._limits.yaw_rps
        self._deadline_s = now_s + PLANNING_S + nominal_s * self._limits.allowance_factor
        self._unusable = self._nav2.warning()
        if not self._unusable:
            self._goal = self._nav2.go_to(target_of(odometry.pose, self._motion), odometry.frame_id)

    def update(self, odometry: Odometry, scan: RangeScan | None, now_s: float) -> Command:
        """Returns whether the motion has ended, and how; a fault ends it."""
        fault = self._unusable or measurement_fault(odometry, scan, now_s, self._limits.stale_after_s)
        fault = fault or (blind_fault(self._motion, coverage(scan, Footprint())) if scan else "")
        if not fault and now_s > self._deadline_s:
            fault = "nav2 is out of its time allowance"
        fault = fault or beyond(self._start, odometry.pose, self._motion)
        if fault:
            return Command(done=True, error=fault)
        outcome = self._goal.outcome
        if outcome is None:
            return Command()
        if outcome != GoalStatus.STATUS_SUCCEEDED:
            return Command(done=True, blocked=True, note=f"nav2 gave up: {self._goal.message}")
        return self._arrived(odometry, now_s)

    def _arrived(self, odometry: Odometry, now_s: float) -> Command:
        """Returns the end once the base stands still, or after STUCK_AFTER_S: a base on legs may sway."""
        self._arrived_s = min(self._arrived_s, now_s)
        sways = odometry.velocity.exceeds(SETTLED_MPS, SETTLED_RPS)
        if sways and now_s - self._arrived_s <= STUCK_AFTER_S:
            return Command()
        share = covered_share(self._start, odometry.pose, self._motion)
        if share < MIN_SHARE:
            note = f"nav2 ended after {share:.0%} of the motion: lower the tolerances of its goal checker"
            return Command(done=True, blocked=True, note=note)
        return Command(done=True)


def target_of(start: Pose2D, motion: Motion) -> Pose2D:
    """Returns the end pose of a motion."""
    x = start.x + motion.forward_m * math.cos(start.yaw)
    y = start.y + motion.forward_m * math.sin(start.yaw)
    return Pose2D(x, y, wrap_angle(start.yaw + motion.turn_rad))


def beyond(start: Pose2D, now: Pose2D, motion: Motion) -> str:
    """Returns how nav2 went beyond a motion and its detour, or an empty text."""
    moved_m, turned_rad = start.distance_to(now.x, now.y), abs(wrap_angle(now.yaw - start.yaw))
    if moved_m > motion.forward_m + DETOUR_M:
        return f"nav2 moved {moved_m:.2f} m, {motion.forward_m:.2f} m asked for"
    if motion.turn_rad and turned_rad > abs(motion.turn_rad) + DETOUR_RAD:
        requested_deg = math.degrees(abs(motion.turn_rad))
        return f"nav2 turned {math.degrees(turned_rad):.0f} deg, {requested_deg:.0f} deg asked for"
    return ""


def covered_share(start: Pose2D, now: Pose2D, motion: Motion) -> float:
    """Returns the share of a motion that is done."""
    if motion.turn_rad:
        return wrap_angle(now.yaw - start.yaw) / motion.turn_rad
    ahead_m = (now.x - start.x) * math.cos(start.yaw) + (now.y - start.y) * math.sin(start.yaw)
    return ahead_m / motion.forward_m
