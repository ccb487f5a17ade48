# SPDX-License-Identifier: Apache-2.0
"""Bounds of one motion: by odometry, by the commands, and by comparing the two.

False odometry may stay within its bounds for ever; the commands integrated over time do not. Sans-IO.
"""

from __future__ import annotations

import math

from outrider.core.language.actions import Motion
from outrider.core.values import Pose2D, Velocity
from outrider.navigation.limits import MotionLimits

# How far the robot may go beyond the command, in any direction.
OVER_M, OVER_RAD = 0.12, math.radians(10.0)
ASIDE_M, HEADING_RAD = 0.20, math.radians(20.0)
# How much more may be commanded than covered: a base slips, lags, and starts from rest.
SLIP, LAG_M, LAG_RAD = 1.25, 0.15, math.radians(12.0)
# How much more may be covered than commanded so far: a base has momentum.
AHEAD_M, AHEAD_RAD = 0.25, math.radians(20.0)
# How much faster a base that sways on its legs may appear.
OVER_MPS, OVER_RPS = 0.05, 0.3
# How long a base obeys a command that is not repeated.
HELD_S = 0.3


class MotionBounds:
    """Follows one motion. Offsets are from its start, ahead and to the left of its starting heading."""

    def __init__(self, motion: Motion, start: Pose2D, now_s: float) -> None:
        self._motion, self._start = motion, start
        self._velocity, self._now_s = Velocity(), now_s
        self._ahead_m = self._aside_m = self._turned_rad = 0.0
        self._velocity_path_m = self._velocity_turn_rad = 0.0

    def advance(self, velocity: Velocity, turned_rad: float, now_s: float) -> None:
        """Integrate the command until now.

        `velocity` and `turned_rad` are odometry's velocity and the angle turned by its pose.
        """
        elapsed_s = min(HELD_S, max(0.0, now_s - self._now_s))
        self._now_s = now_s
        cos, sin = math.cos(turned_rad), math.sin(turned_rad)
        self._ahead_m += (self._velocity.vx * cos - self._velocity.vy * sin) * elapsed_s
        self._aside_m += (self._velocity.vx * sin + self._velocity.vy * cos) * elapsed_s
        self._turned_rad += self._velocity.wz * elapsed_s
        self._velocity_path_m += math.hypot(velocity.vx, velocity.vy) * elapsed_s
        self._velocity_turn_rad += abs(velocity.wz) * elapsed_s

    def command(self, velocity: Velocity) -> None:
        """Set the velocity that the base is commanded from now on."""
        self._velocity = velocity

    def exceeded(self, ahead_m: float, aside_m: float, turned_rad: float) -> str:
        """Returns the bound that the robot has exceeded by odometry, or an empty text."""
        if self._motion.turn_rad:
            return self._turn_exceeded(
                math.hypot(ahead_m - self._ahead_m, aside_m - self._aside_m), turned_rad
            )
        commanded_m = self._motion.forward_m
        if ahead_m > min(commanded_m + OVER_M, SLIP * self._ahead_m + AHEAD_M):
            return f"moved {ahead_m:.2f} m ahead, {min(commanded_m, self._ahead_m):.2f} m commanded"
        if ahead_m < -OVER_M:
            return f"moved {-ahead_m:.2f} m backwards"
        if abs(aside_m - self._aside_m) > ASIDE_M:
            return f"moved {abs(aside_m):.2f} m aside, {abs(self._aside_m):.2f} m commanded"
        return _heading_exceeded(turned_rad, self._turned_rad)

    def is_behind(self, ahead_m: float, turned_rad: float) -> bool:
        """Whether far more was commanded than odometry shows: the base is held, or odometry lags."""
        if self._motion.turn_rad:
            sense = math.copysign(1.0, self._motion.turn_rad)
            return sense * self._turned_rad > SLIP * max(0.0, sense * turned_rad) + LAG_RAD
        return self._ahead_m > SLIP * max(0.0, ahead_m) + LAG_M

    def lags(self, ahead_m: float, aside_m: float, turned_rad: float) -> bool:
        """Whether odometry's pose shows far less motion than its velocity does."""
        if self._motion.turn_rad:
            return self._velocity_turn_rad > SLIP * abs(turned_rad) + LAG_RAD
        return self._velocity_path_m > SLIP * math.hypot(ahead_m, aside_m) + LAG_M

    def _turn_exceeded(self, drift_m: float, turned_rad: float) -> str:
        sense = math.copysign(1.0, self._motion.turn_rad)
        turned, commanded = sense * turned_rad, abs(self._motion.turn_rad)
        if turned > min(commanded + OVER_RAD, SLIP * sense * self._turned_rad + AHEAD_RAD):
            least = math.degrees(min(commanded, sense * self._turned_rad))
            return f"turned {math.degrees(turned):.0f} deg, {least:.0f} deg commanded"
        if turned < -OVER_RAD:
            return f"turned {math.degrees(-turned):.0f} deg to the wrong side"
        return f"moved {drift_m:.2f} m while turning" if drift_m > ASIDE_M else ""


def speed_exceeded(velocity: Velocity, limits: MotionLimits) -> str:
    """Returns how the base is faster by odometry than any command, or an empty text."""
    mps = math.hypot(velocity.vx, velocity.vy)
    if mps > SLIP * math.hypot(limits.forward_mps, limits.lateral_mps) + OVER_MPS:
        return f"moves at {mps:.2f} m/s, at most {limits.forward_mps:.2f} commanded"
    if abs(velocity.wz) > SLIP * limits.yaw_rps + OVER_RPS:
        return f"turns at {abs(velocity.wz):.2f} rad/s, at most {limits.yaw_rps:.2f} commanded"
    return ""


def _heading_exceeded(turned_rad: float, commanded_rad: float) -> str:
    """Returns how a move ahead left its heading, by odometry or by the commands, or an empty text."""
    if abs(turned_rad) > HEADING_RAD:
        return f"turned {math.degrees(abs(turned_rad)):.0f} deg while moving ahead"
    if abs(commanded_rad) > HEADING_RAD + OVER_RAD:
        return f"was steered by {math.degrees(abs(commanded_rad)):.0f} deg while moving ahead"
    return ""
