# SPDX-License-Identifier: Apache-2.0
"""Carries out one bounded motion in closed loop on odometry, around and short of what the scan shows.

Sans-IO: the owner calls `update` at 10 Hz or more with the newest measurements and applies the velocity.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from outrider.core.language.actions import Motion
from outrider.core.values import STANDSTILL, Odometry, Pose2D, RangeScan, Velocity, wrap_angle
from outrider.navigation.limits import SETTLED_MPS, SETTLED_RPS, Footprint, MotionLimits
from outrider.navigation.motion.motion_bounds import MotionBounds, speed_exceeded
from outrider.navigation.motion.safety import clamp
from outrider.navigation.sensing.clearance import (
    MAX_SIDE_STEP_M,
    Points,
    best_side_step,
    free_ahead,
    measures,
    push_away,
    safe_velocity,
    scan_points,
)
from outrider.navigation.sensing.coverage import EVERYWHERE, blind_fault, coverage, seen_part

NOTHING_SEEN = scan_points(RangeScan((), 0.0, 0.0, 0.0))
# How late a base follows. The value for moves is a little high: no move ahead is undone.
BASE_LAG_S, TURN_LAG_S = 0.28, 0.25
STUCK_AFTER_S = 1.0
PROGRESS_M, PROGRESS_RAD = 0.01, math.radians(1.0)
LOOK_PAST_M = 0.10
SIDE_STEP_GAIN = 2.0
HEADING_GAIN, HEADING_RPS = 2.0, 0.5
CREEP_MPS, CREEP_RPS = 0.04, 0.10
PUSH_MPS = 0.30
# The least speed by odometry that contradicts a pose that does not change; every base obeys such a command.
MOVING_MPS, MOVING_RPS = 0.10, 0.20
ALMOST, MIN_STEP_S = 0.05, 0.02


@dataclass(frozen=True)
class Command:
    """A command to the base until the next update. When `done`, the velocity is zero.

    `error` says why the motion was aborted. A motion that ended short of an obstacle is `blocked`, which is
    no error; `note` says how far it came.
    """

    velocity: Velocity = field(default_factory=Velocity)
    done: bool = False
    error: str | None = None
    blocked: bool = False
    note: str = ""


class OdometryRepeats:
    """Measures for how long odometry has repeated itself, across motions that follow each other.

    `is_odd`: it did so although a speed was commanded that every base obeys.
    """

    def __init__(self) -> None:
        self._first, self._since_s = Odometry(Pose2D(0.0, 0.0, 0.0), STANDSTILL, -math.inf), math.inf
        self.is_odd = False

    def exceed(
        self, odometry: Odometry, now_s: float, limit_s: float, commanded: Velocity, obeyed: bool
    ) -> bool:
        """Whether messages have repeated the same values for longer than `limit_s`.

        Repetitions do not count while the robot is commanded to stand. `obeyed`: every base obeys the
        command.
        """
        changed = (odometry.pose, odometry.velocity) != (self._first.pose, self._first.velocity)
        if changed or commanded == STANDSTILL or now_s < self._since_s:
            self._first, self._since_s, self.is_odd = odometry, now_s, False
        self.is_odd = self.is_odd or obeyed
        repeated_s = odometry.stamp_s - self._first.stamp_s
        return now_s - self._since_s > limit_s and repeated_s > limit_s / 2


class MotionController:
    """Carries out one motion from start to end. A stop never yields a velocity other than zero."""

    def __init__(
        self,
        motion: Motion,
        limits: MotionLimits | None = None,
        footprint: Footprint | None = None,
        period_s: float = 0.0,
        repeats: OdometryRepeats | None = None,
    ) -> None:
        """`period_s` is the time between updates: measurements that would be stale at the next one are
        stale now. `repeats` is shared by motions that follow each other.
        """
        self.motion = motion
        self.odometry_froze = False
        self._period_s = period_s
        self._repeats = repeats or OdometryRepeats()
        self.limits = limits or MotionLimits()
        self.footprint = footprint or Footprint()
        self._start: Pose2D | None = None
        self._end: Command | None = None

    def start(self, odometry: Odometry, now_s: float) -> None:
        """Begin from the robot's current pose, at its current speed. Call once, before the first update."""
        self._start = self._last_pose = odometry.pose
        self._turned_rad = 0.0
        self._updated_s = self._progress_s = now_s
        self._best = 0.0
        self._commanded = self._momentum(odometry.velocity)
        self._bounds = MotionBounds(self.motion, odometry.pose, now_s)
        self._deadline_s = now_s + self._allowance_s()

    def update(self, odometry: Odometry, scan: RangeScan | None, now_s: float) -> Command:
        """Returns the next command.

        `scan` is None only for a base without a range sensor, which then avoids nothing.
        """
        if self._start is None:
            raise RuntimeError("MotionController.update called before start")
        if self._end is None:
            self._end = self._fault(odometry, scan, now_s)
        if self._end is None:
            self._measure(odometry, now_s)
            self._end = self._out_of_bounds(odometry)
        if self._end is None:
            carry_on = self._advance if self.motion.forward_m else self._turn
            command = carry_on(odometry, NOTHING_SEEN if scan is None else scan_points(scan, self.footprint))
            self._commanded = command.velocity
            self._bounds.command(command.velocity)
            if not command.done:
                return command
            self._end = command
        return self._end

    def _momentum(self, velocity: Velocity) -> Velocity:
        """Returns the current speed in the sense of the motion, within the limits, to start the ramp from."""
        if self.motion.forward_m:
            return Velocity(vx=min(self.limits.forward_mps, max(0.0, velocity.vx)))
        sense = math.copysign(1.0, self.motion.turn_rad)
        return Velocity(wz=sense * min(self.limits.yaw_rps, max(0.0, sense * velocity.wz)))

    def _allowance_s(self) -> float:
        nominal_s = abs(self.motion.forward_m) / self.limits.forward_mps
        nominal_s += abs(self.motion.turn_rad) / self.limits.yaw_rps
        return nominal_s * self.limits.allowance_factor + self.limits.allowance_extra_s

    def _fault(self, odometry: Odometry, scan: RangeScan | None, now_s: float) -> Command | None:
        """Returns the command that ends the motion before anything moves, or None."""
        if self.motion.is_stop:
            return Command(done=True)
        unusable = measurement_fault(odometry, scan, now_s, self.limits.stale_after_s - self._period_s)
        if not unusable:
            self._coverage = coverage(scan, self.footprint) if scan else EVERYWHERE
            unusable = blind_fault(self.motion, self._coverage)
        if unusable:
            return Command(done=True, error=unusable)
        if self._is_frozen(odometry, now_s):
            self.odometry_froze = self._repeats.is_odd
            if odometry.velocity.exceeds(*self._moving):
                return Command(done=True, error="odometry moves but repeats its pose: check its source")
            return self._give_up()
        if now_s > self._deadline_s:
            return Command(done=True, error=f"out of its time allowance after {self._covered()}")
        return None

    def _out_of_bounds(self, odometry: Odometry) -> Command | None:
        """Returns the command that ends a motion which left its bounds, or None."""
        ahead_m, aside_m = self._along()
        exceeded = self._bounds.exceeded(ahead_m, aside_m, self._turned_rad)
        exceeded = exceeded or speed_exceeded(odometry.velocity, self.limits)
        if exceeded:
            return Command(done=True, error=f"{exceeded}: check odometry, and what moves the robot")
        if not self._bounds.is_behind(ahead_m, self._turned_rad):
            return None
        if self._bounds.lags(ahead_m, aside_m, self._turned_rad):
            return Command(done=True, error="odometry's pose lags behind its velocity: check its source")
        if odometry.velocity.exceeds(MOVING_MPS, MOVING_RPS):
            error = f"the base covers {self._covered()}, far less than commanded: check it, and odometry"
            return Command(done=True, error=error)
        return self._give_up()

    def _is_frozen(self, odometry: Odometry, now_s: float) -> bool:
        """Whether consecutive messages under way have been identical, bit for bit, for too long.

        A change is noticed up to one period late. A single message that grows old is no repetition.
        """
        limit_s = self.limits.stale_after_s - 2 * self._period_s
        obeyed = self._commanded.exceeds(*self._moving)
        return self._repeats.exceed(odometry, now_s, limit_s, self._commanded, obeyed)

    @property
    def _moving(self) -> tuple[float, float]:
        """The speeds, in m/s and rad/s, above which every base moves; half of the limits if those are low."""
        return min(MOVING_MPS, self.limits.forward_mps / 2), min(MOVING_RPS, self.limits.yaw_rps / 2)

    def _measure(self, odometry: Odometry, now_s: float) -> None:
        """Update the progress since the start, and the time of the last progress."""
        pose = odometry.pose
        self._turned_rad += wrap_angle(pose.yaw - self._last_pose.yaw)
        self._last_pose = pose
        self._bounds.advance(odometry.velocity, self._turned_rad, now_s)
        self._step_s = min(0.2, max(0.0, now_s - self._updated_s))
        self._updated_s = now_s
        along, aside = self._along()
        effort, threshold = self._progress(), PROGRESS_RAD
        if self.motion.forward_m:
            effort, threshold = along + abs(aside), PROGRESS_M  # a side step is progress too
        if effort > self._best + threshold:
            self._best, self._progress_s = effort, now_s

    def _progress(self) -> float:
        """Returns metres along the starting heading, or radians in the sense of the turn."""
        if self.motion.forward_m:
            return self._along()[0]
        return math.copysign(1.0, self.motion.turn_rad) * self._turned_rad

    def _along(self) -> tuple[float, float]:
        """Returns the pose's offset from the start, ahead and to the left of the starting heading."""
        assert self._start is not None
        dx, dy = self._last_pose.x - self._start.x, self._last_pose.y - self._start.y
        cos, sin = math.cos(self._start.yaw), math.sin(self._start.yaw)
        return dx * cos + dy * sin, -dx * sin + dy * cos

    def _covered(self) -> str:
        if self.motion.forward_m:
            return f"{round(self._progress(), 2) + 0.0:.2f} of {self.motion.forward_m:.2f} m"
        return f"{math.degrees(self._progress()):.0f} of {math.degrees(abs(self.motion.turn_rad)):.0f} deg"

    def _stuck(self) -> bool:
        return self._updated_s - self._progress_s > STUCK_AFTER_S

    def _give_up(self) -> Command:
        """Returns the end of a motion without progress: blocked, unless almost all of it is done."""
        total = self.motion.forward_m or abs(self.motion.turn_rad)
        if abs(total - self._progress()) < ALMOST * total:
            return Command(done=True)
        return Command(done=True, blocked=True, note=f"blocked after {self._covered()}")

    def _advance(self, odometry: Odometry, points: Points) -> Command:
        remaining_m = self.motion.forward_m - self._progress()
        # The speed does not depend on the frame of the odometry's twist.
        speed_mps = math.hypot(odometry.velocity.vx, odometry.velocity.vy)
        if remaining_m < self.limits.distance_tolerance_m:
            return self._settle(speed_mps, SETTLED_MPS)
        if self._stuck():
            return self._give_up()
        free_m = free_ahead(points, self.footprint)
        ahead_m = min(remaining_m, free_m) - BASE_LAG_S * speed_mps
        acceleration = self.limits.acceleration_mps2
        vx = self._braking_speed(ahead_m, acceleration, CREEP_MPS)
        vx = self._ramp(vx, self._commanded.vx, acceleration, self.limits.forward_mps)
        aside_m = self._along()[1]
        seen = self._coverage
        right_m = -MAX_SIDE_STEP_M - aside_m if seen.right else 0.0
        window = right_m, MAX_SIDE_STEP_M - aside_m if seen.left else 0.0
        side_step_m = best_side_step(points, self.footprint, remaining_m + LOOK_PAST_M, window)
        wz = max(-HEADING_RPS, min(HEADING_RPS, -HEADING_GAIN * self._turned_rad))
        return self._command(Velocity(vx if free_m > 0.0 else 0.0, SIDE_STEP_GAIN * side_step_m, wz), points)

    def _turn(self, odometry: Odometry, points: Points) -> Command:
        remaining_rad = abs(self.motion.turn_rad) - self._progress()
        if abs(remaining_rad) < self.limits.yaw_tolerance_rad:
            return self._settle(abs(odometry.velocity.wz), SETTLED_RPS)
        if self._stuck():
            return self._give_up()
        sense = math.copysign(1.0, self.motion.turn_rad * remaining_rad)
        ahead_rad = abs(remaining_rad) - TURN_LAG_S * abs(odometry.velocity.wz)
        acceleration = self.limits.yaw_acceleration_rps2
        rate = self._braking_speed(ahead_rad, acceleration, CREEP_RPS)
        rate = self._ramp(rate, sense * self._commanded.wz, acceleration, self.limits.yaw_rps)
        push_x, push_y = push_away(points, self.footprint)
        tightness = math.hypot(push_x, push_y)
        rate = sense * min(rate, self.limits.yaw_rps) * (1.0 - 0.7 * tightness)
        return self._command(Velocity(PUSH_MPS * push_x, PUSH_MPS * push_y, rate), points)

    def _settle(self, speed: float, settled: float) -> Command:
        """Returns a standstill until the motion counts as done, so that the next frame is sharp."""
        return Command(done=speed < settled or self._stuck())

    def _braking_speed(self, ahead: float, acceleration: float, creep: float) -> float:
        """Returns the speed that can be braked at half the acceleration limit; at least `creep`."""
        return max(creep, math.sqrt(max(0.0, ahead) * acceleration))

    def _ramp(self, wanted: float, last: float, acceleration: float, top: float) -> float:
        """Returns the next speed: up from the last command within the acceleration limit, down at once."""
        return min(wanted, top, max(0.0, last) + acceleration * max(self._step_s, MIN_STEP_S))

    def _command(self, wanted: Velocity, points: Points) -> Command:
        seen = seen_part(clamp(wanted, self.limits), self._coverage)
        return Command(safe_velocity(seen, points, self.footprint))


def measurement_fault(odometry: Odometry, scan: RangeScan | None, now_s: float, max_age_s: float) -> str:
    """Returns why these measurements do not allow motion, or an empty text."""
    if not odometry.is_finite:
        return "odometry is not a number: check the odometry source"
    if scan and not (measures(scan) and math.isfinite(scan.angle_min) and math.isfinite(scan.angle_step)):
        return "scan measures nothing, or its bearings are no numbers: check its source"
    for name, stamp_s in (("odometry", odometry.stamp_s), ("scan", scan.stamp_s if scan else now_s)):
        if now_s - stamp_s > max_age_s:
            return f"{name} is {now_s - stamp_s:.2f} s old: check its source"
    return ""
