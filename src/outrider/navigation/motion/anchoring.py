# SPDX-License-Identifier: Apache-2.0
"""Motions planned from where the frame was taken, for a robot that has moved since. Sans-IO."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

from outrider.core.language.actions import Motion
from outrider.core.values import Odometry, Pose2D, RangeScan, Velocity, wrap_angle
from outrider.navigation.limits import MotionLimits
from outrider.navigation.motion.controller import Command

# A smaller remainder is not worth a motion.
MIN_M, MIN_RAD = 0.03, math.radians(2.0)
# How far the heading may differ from the frame's for a move ahead to begin without a turn.
ALIGNED_RAD = math.radians(6.0)
# How far the odometry of a standing robot may wander (SWAY_M), and from where on a frame is useless.
SWAY_M = 0.10
ELSEWHERE_M, ELSEWHERE_RAD = 1.0, math.radians(90.0)
# The momentum that the next motion can take over, and how long to wait until a larger one has decayed.
ROLLING_MPS, TURNING_RPS, CALM_S = 0.10, 0.20, 1.0
# The history counts a motion as done from this share on.
MIN_SHARE = 0.5


class MotionExecutor(Protocol):
    """Carries out one motion: `MotionController`, or an executor with a planner of its own."""

    @property
    def odometry_froze(self) -> bool:
        """Whether the motion ended because odometry repeats itself."""

    def start(self, odometry: Odometry, now_s: float) -> None:
        """Begin from the robot's current pose. Called once, before the first update."""

    def update(self, odometry: Odometry, scan: RangeScan | None, now_s: float) -> Command:
        """Returns the next command."""


def rest_of(motion: Motion, anchor: Pose2D, pose: Pose2D) -> Motion:
    """Returns the rest of a motion planned from `anchor` for a robot at `pose`; a stop if there is none.

    A robot that has turned too far turns back. A move ahead is never undone.
    """
    if motion.turn_rad:
        rest_rad = wrap_angle(motion.turn_rad - wrap_angle(pose.yaw - anchor.yaw))
        return Motion(turn_rad=rest_rad) if abs(rest_rad) >= MIN_RAD else Motion()
    dx, dy = pose.x - anchor.x, pose.y - anchor.y
    rest_m = motion.forward_m - (dx * math.cos(anchor.yaw) + dy * math.sin(anchor.yaw))
    return Motion(forward_m=min(rest_m, motion.forward_m)) if rest_m >= MIN_M else Motion()


def seconds_left(motion: Motion, anchor: Pose2D, pose: Pose2D, limits: MotionLimits) -> float:
    """Returns how long the rest takes at full speed; infinite before half of the motion is done."""
    rest = rest_of(motion, anchor, pose)
    part, whole = (rest.turn_rad, motion.turn_rad) if motion.turn_rad else (rest.forward_m, motion.forward_m)
    if abs(part) > (1.0 - MIN_SHARE) * abs(whole):
        return math.inf
    return rest.forward_m / limits.forward_mps + abs(rest.turn_rad) / limits.yaw_rps


def executor_from(
    motion: Motion,
    anchor: Pose2D | None,
    pose: Pose2D | None,
    was_moving: bool,
    make: Callable[[Motion], MotionExecutor],
) -> MotionExecutor | str:
    """Returns the executor for a motion planned from `anchor` (the frame's pose), or why there is none.

    `pose` is the robot's. `was_moving`: a motion has moved the robot since the frame. A robot that stood
    and was moved by something else still goes where the frame showed, unless it is now far away.
    """
    if was_moving:
        if anchor is None:
            return "no odometry of the moment of its frame"
        return AnchoredMotion(motion, anchor, make)
    if anchor is None or pose is None or not anchor.is_beyond(pose, SWAY_M, ALIGNED_RAD):
        return make(motion)
    if anchor.is_beyond(pose, ELSEWHERE_M, ELSEWHERE_RAD):
        return "the robot was moved since its frame"
    return AnchoredMotion(motion, anchor, make)


class AnchoredMotion:
    """Implements `MotionExecutor`: the rest of a motion planned from `anchor`.

    A move ahead goes along the frame's heading: a robot that has turned since first turns back. The rest is
    computed once the momentum of another kind of motion has decayed. An executor carries it out like any
    other motion, with all of its checks.
    """

    def __init__(self, motion: Motion, anchor: Pose2D, make: Callable[[Motion], MotionExecutor]) -> None:
        self._motion, self._anchor, self._make = motion, anchor, make
        self._running: MotionExecutor | None = None
        self._aligns = False

    @property
    def odometry_froze(self) -> bool:
        """Whether the motion ended because odometry repeats itself."""
        return self._running is not None and self._running.odometry_froze

    def start(self, odometry: Odometry, now_s: float) -> None:
        """Begin from the robot's current pose."""
        self._begun_s = now_s

    def update(self, odometry: Odometry, scan: RangeScan | None, now_s: float) -> Command:
        """Returns the next command; a standstill while momentum decays."""
        if self._running is None:
            part = self._next_part(odometry.pose)
            if part.is_stop:
                return Command(done=True)
            if now_s - self._begun_s < CALM_S and not _flows_into(part, odometry.velocity):
                return Command()
            self._running = self._make(part)
            self._running.start(odometry, now_s)
        command = self._running.update(odometry, scan, now_s)
        if command.done and self._aligns and not (command.error or command.blocked):
            self._running, self._begun_s = None, now_s
            return Command()
        return command

    def _next_part(self, pose: Pose2D) -> Motion:
        rest = rest_of(self._motion, self._anchor, pose)
        askew_rad = wrap_angle(self._anchor.yaw - pose.yaw)
        # Turn once only: a second turn would not help where the first did not.
        self._aligns = rest.forward_m > 0.0 and abs(askew_rad) > ALIGNED_RAD and not self._aligns
        return Motion(turn_rad=askew_rad) if self._aligns else rest


def _flows_into(motion: Motion, velocity: Velocity) -> bool:
    """Whether the robot's momentum is of the motion's own kind, or negligible."""
    if motion.turn_rad:
        return math.hypot(velocity.vx, velocity.vy) < ROLLING_MPS
    return abs(velocity.wz) < TURNING_RPS
