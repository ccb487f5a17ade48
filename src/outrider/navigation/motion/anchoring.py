# SPDX-License-Identifier: Apache-2.0
"""A motion that is meant from where its frame was taken, for a robot that has moved on since. Sans-IO."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

from outrider.core.language.actions import Motion
from outrider.core.values import Odometry, Pose2D, RangeScan, Velocity, wrap_angle
from outrider.navigation.limits import MotionLimits
from outrider.navigation.motion.controller import Command

# What is not worth a motion of its own.
LEAST_M, LEAST_RAD = 0.03, math.radians(2.0)
# How far a move ahead may be off the heading that its frame was taken at, to be begun without a turn first.
ALIGNED_RAD = math.radians(6.0)
# How far odometry of a robot that stands may wander, and from where a frame says nothing any more.
SWAY_M = 0.10
ELSEWHERE_M, ELSEWHERE_RAD = 1.0, math.radians(90.0)
# The momentum of the motion before that the next one can take over, and how long it is waited for.
ROLLING_MPS, TURNING_RPS, CALM_S = 0.10, 0.20, 1.0
# History counts a motion as done from here on.
LEAST_SHARE = 0.5


class MotionExecutor(Protocol):
    """Carries out one motion: `MotionController`, or whatever has a planner of its own."""

    @property
    def odometry_froze(self) -> bool:
        """Whether the motion was ended because odometry repeats itself."""

    def start(self, odometry: Odometry, now_s: float) -> None:
        """Begin from where the robot is. Called once, before the first update."""

    def update(self, odometry: Odometry, scan: RangeScan | None, now_s: float) -> Command:
        """The next command."""


def rest_of(motion: Motion, anchor: Pose2D, pose: Pose2D) -> Motion:
    """What is left of a motion meant from `anchor`, for a robot at `pose`; a stop where nothing is.

    A robot that has turned further than meant turns back. A move ahead is never taken back.
    """
    if motion.turn_rad:
        rest_rad = wrap_angle(motion.turn_rad - wrap_angle(pose.yaw - anchor.yaw))
        return Motion(turn_rad=rest_rad) if abs(rest_rad) >= LEAST_RAD else Motion()
    dx, dy = pose.x - anchor.x, pose.y - anchor.y
    rest_m = motion.forward_m - (dx * math.cos(anchor.yaw) + dy * math.sin(anchor.yaw))
    return Motion(forward_m=min(rest_m, motion.forward_m)) if rest_m >= LEAST_M else Motion()


def seconds_left(motion: Motion, anchor: Pose2D, pose: Pose2D, limits: MotionLimits) -> float:
    """How long the rest takes at full speed; for ever before half of the motion is done."""
    rest = rest_of(motion, anchor, pose)
    part, whole = (rest.turn_rad, motion.turn_rad) if motion.turn_rad else (rest.forward_m, motion.forward_m)
    if abs(part) > (1.0 - LEAST_SHARE) * abs(whole):
        return math.inf
    return rest.forward_m / limits.forward_mps + abs(rest.turn_rad) / limits.yaw_rps


def executor_from(
    motion: Motion,
    anchor: Pose2D | None,
    pose: Pose2D | None,
    was_moving: bool,
    make: Callable[[Motion], MotionExecutor],
) -> MotionExecutor | str:
    """What carries out a motion meant from `anchor`, where its frame was taken, or why nothing does.

    `pose`: where the robot is. `was_moving`: by a motion, since the frame. One that stood and was moved by
    others goes where the frame showed too, unless it was taken elsewhere.
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
    """Implements `MotionExecutor`: the rest of a motion that is meant from `anchor`.

    A move ahead goes the way that the frame showed: a robot that has turned since first turns back. What is
    left is reckoned once the momentum of another kind of motion is gone, and carried out by an executor like
    any other motion, with all of its checks.
    """

    def __init__(self, motion: Motion, anchor: Pose2D, make: Callable[[Motion], MotionExecutor]) -> None:
        self._motion, self._anchor, self._make = motion, anchor, make
        self._running: MotionExecutor | None = None
        self._aligns = False

    @property
    def odometry_froze(self) -> bool:
        """Whether that ended it."""
        return self._running is not None and self._running.odometry_froze

    def start(self, odometry: Odometry, now_s: float) -> None:
        """Begin from where the robot is."""
        self._begun_s = now_s

    def update(self, odometry: Odometry, scan: RangeScan | None, now_s: float) -> Command:
        """The next command; a standstill while momentum is waited for."""
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
        # Once: what a turn has not mended, another would not.
        self._aligns = rest.forward_m > 0.0 and abs(askew_rad) > ALIGNED_RAD and not self._aligns
        return Motion(turn_rad=askew_rad) if self._aligns else rest


def _flows_into(motion: Motion, velocity: Velocity) -> bool:
    """Whether the robot's momentum is of the motion's own kind, or next to none."""
    if motion.turn_rad:
        return math.hypot(velocity.vx, velocity.vy) < ROLLING_MPS
    return abs(velocity.wz) < TURNING_RPS
