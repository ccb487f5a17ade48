"""Motions as goals of nav2's `NavigateToPose`, cancelled the moment anything stops the robot.

nav2 plans and commands the base; the pilot still decides what may move, and watches odometry and scan.
"""

from __future__ import annotations

import math
from typing import Any

from action_msgs.msg import GoalStatus
from geometry_msgs.msg import PoseStamped
from nav2_msgs.action import NavigateToPose
from rclpy.action import ActionClient

from outrider.core.actions import Motion
from outrider.core.values import Odometry, Pose2D, RangeScan, Velocity, wrap_angle
from outrider.navigation.controller import SETTLED_MPS, SETTLED_RPS, Command, measurement_fault
from outrider.navigation.limits import MotionLimits
from outrider.nodes import convert
from outrider.nodes.base import OutriderNode
from outrider.nodes.base_command import TwistCommand

FRAME = "odom"
PLANNING_S = 10.0
LEAST_SHARE = 0.5


class Nav2Command:
    """One goal at a time. While none is active, velocities (a joystick's, and zeros) go to `cmd_vel`."""

    refused = overdue = 0
    is_ready = True

    def __init__(self, node: OutriderNode, twist: TwistCommand, limits: MotionLimits) -> None:
        self._node, self._twist, self._limits = node, twist, limits
        self._client = ActionClient(node, NavigateToPose, "navigate_to_pose")
        node.keep(self._client, lambda client: client.destroy())
        self._goal: _Goal | None = None

    def make_executor(self, motion: Motion) -> Nav2Motion:
        return Nav2Motion(motion, self, self._limits)

    def start(self) -> None:
        """Ready as it is."""

    def tick(self) -> None:
        """Nothing is due."""

    def close(self) -> None:
        """Nothing was taken."""

    def warning(self) -> str:
        return "" if self._client.server_is_ready() else "nobody serves navigate_to_pose: start nav2"

    def send(self, velocity: Velocity) -> None:
        """Not while nav2 drives: two sources of velocities would fight."""
        if self._goal is None:
            self._twist.send(velocity)

    def stop(self) -> None:
        """Never gated: cancel, and zero beside it."""
        goal, self._goal = self._goal, None
        if goal is not None:
            goal.cancel()
        self._twist.stop()

    def go_to(self, pose: Pose2D) -> _Goal:
        """Begin to go to a pose in odometry's frame."""
        self.stop()
        target = PoseStamped(header=convert.header(self._node.get_clock().now().to_msg(), FRAME))
        target.pose = convert.pose_message(pose)
        self._goal = _Goal(self._client.send_goal_async(NavigateToPose.Goal(pose=target)))
        return self._goal


class _Goal:
    """A goal from sending to result; `outcome` is None until then. May be cancelled before it is accepted."""

    def __init__(self, answer: Any) -> None:
        self.outcome: int | None = None
        self.message = ""
        self._handle: Any = None
        self._unwanted = False
        answer.add_done_callback(self._on_answer)

    def cancel(self) -> None:
        self._unwanted = True
        if self._handle is not None and self.outcome is None:
            self._handle.cancel_goal_async()

    def _on_answer(self, future: Any) -> None:
        handle = future.result()
        if not handle.accepted:
            self.outcome, self.message = GoalStatus.STATUS_ABORTED, "it rejected the goal"
            return
        self._handle = handle
        handle.get_result_async().add_done_callback(self._on_result)
        if self._unwanted:
            self.cancel()

    def _on_result(self, future: Any) -> None:
        answer = future.result()
        # Humble's result has no code, and only some have a text.
        code, text = getattr(answer.result, "error_code", 0), getattr(answer.result, "error_msg", "")
        self.outcome, self.message = answer.status, text or f"error code {code}"


class Nav2Motion:
    """Implements `pilot.MotionExecutor`: its commands hold no velocity, only how the goal stands."""

    odometry_froze = False

    def __init__(self, motion: Motion, nav2: Nav2Command, limits: MotionLimits) -> None:
        self._motion, self._nav2, self._limits = motion, nav2, limits

    def start(self, odometry: Odometry, now_s: float) -> None:
        self._start = odometry.pose
        nominal_s = abs(self._motion.forward_m) / self._limits.forward_mps
        nominal_s += abs(self._motion.turn_rad) / self._limits.yaw_rps
        self._deadline_s = now_s + PLANNING_S + nominal_s * self._limits.allowance_factor
        self._unusable = self._nav2.warning()
        if not self._unusable:
            self._goal = self._nav2.go_to(target_of(odometry.pose, self._motion))

    def update(self, odometry: Odometry, scan: RangeScan | None, now_s: float) -> Command:
        fault = self._unusable or measurement_fault(odometry, scan, now_s, self._limits.stale_after_s)
        if not fault and now_s > self._deadline_s:
            fault = "nav2 is out of its time allowance"
        if fault:
            return Command(done=True, error=fault)
        outcome = self._goal.outcome
        if outcome is None:
            return Command()
        if outcome != GoalStatus.STATUS_SUCCEEDED:
            return Command(done=True, blocked=True, note=f"nav2 gave up: {self._goal.message}")
        return self._arrived(odometry)

    def _arrived(self, odometry: Odometry) -> Command:
        velocity = odometry.velocity
        if math.hypot(velocity.vx, velocity.vy) > SETTLED_MPS or abs(velocity.wz) > SETTLED_RPS:
            return Command()
        share = covered_share(self._start, odometry.pose, self._motion)
        if share < LEAST_SHARE:
            note = f"nav2 ended after {share:.0%} of the motion: lower the tolerances of its goal checker"
            return Command(done=True, blocked=True, note=note)
        return Command(done=True)


def target_of(start: Pose2D, motion: Motion) -> Pose2D:
    """Where a motion ends."""
    x = start.x + motion.forward_m * math.cos(start.yaw)
    y = start.y + motion.forward_m * math.sin(start.yaw)
    return Pose2D(x, y, wrap_angle(start.yaw + motion.turn_rad))


def covered_share(start: Pose2D, now: Pose2D, motion: Motion) -> float:
    """How much of a motion lies behind."""
    if motion.turn_rad:
        return wrap_angle(now.yaw - start.yaw) / motion.turn_rad
    ahead_m = (now.x - start.x) * math.cos(start.yaw) + (now.y - start.y) * math.sin(start.yaw)
    return ahead_m / motion.forward_m
