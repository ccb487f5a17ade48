# SPDX-License-Identifier: Apache-2.0
"""Checks that a scan turns and moves as the robot does. Sans-IO.

If a lidar hangs upside down and tf does not say so, its scan turns the other way, and left and right are
swapped. If tf has a wrong yaw for the lidar, obstacles ahead seem to approach from the side or from behind.
"""

from __future__ import annotations

import math
from collections import deque

import numpy as np

from outrider.core.values import Pose2D, RangeScan, wrap_angle
from outrider.navigation.sensing.clearance import Points, hit_points

MIRRORED = (
    "the scan is mirrored: turning left shows as turning right; give the lidar's mounting in tf, upside down "
    "too, or check odometry, then give the goal again"
)
TURNED = (
    "the scan is turned: it moves another way than the robot goes; give the lidar's yaw in tf, or check "
    "odometry, then give the goal again"
)
# Turns and steps between two compared scans, and the least number of rays with a measurement in both.
TURN_RAD, TURN_STEPS, STEP_M = (math.radians(8.0), math.radians(25.0)), 2.0, 0.08
MIN_RAYS = 30
# Medians in metres: matching scans differ by less than ALIKE_M, others by more than UNLIKE times as much
# plus UNLIKE_M.
ALIKE_M, UNLIKE, UNLIKE_M = 0.08, 3.0, 0.06
VOTES, NEEDED = 12, 4
# The length and straightness of the way between two compared scans, how much of a motion a scan must show,
# and the number of votes against its yaw.
WAY_M, STRAIGHT_RAD, UNMOVED_M, WAYS_NEEDED = (0.2, 1.0), math.radians(15.0), 0.02, 3
# The yaws that are compared with tf's, and the most points that are compared.
YAWS_RAD, MAX_POINTS = np.radians(np.arange(0.0, 360.0, 15.0)), 720


class MirroredScan:
    """Compares scans before and after a turn on the spot, and counts votes for and against the scan.

    A turn votes only if the one before had the same sense: a late scan shows what was before it.
    """

    def __init__(self) -> None:
        self._then: tuple[RangeScan, Pose2D] | None = None
        self._turned_rad = 0.0
        self._votes: deque[int] = deque(maxlen=VOTES)

    @property
    def is_mirrored(self) -> bool:
        """Whether the votes show that the scan is mirrored."""
        return -sum(self._votes) >= NEEDED

    def see(self, scan: RangeScan, pose: Pose2D) -> None:
        """Take a scan and its pose."""
        if self._then is None or len(self._then[0].ranges) != len(scan.ranges):
            self._then, self._turned_rad = (scan, pose), 0.0
            return
        before, start = self._then
        turned_rad = wrap_angle(pose.yaw - start.yaw)
        is_elsewhere = start.is_beyond(pose, STEP_M, TURN_RAD[1])
        if not is_elsewhere and abs(turned_rad) < max(TURN_RAD[0], TURN_STEPS * abs(scan.angle_step)):
            return
        if not is_elsewhere and turned_rad * self._turned_rad > 0.0:
            self._vote(before, scan, turned_rad)
        self._then, self._turned_rad = (scan, pose), 0.0 if is_elsewhere else turned_rad

    def _vote(self, before: RangeScan, now: RangeScan, turned_rad: float) -> None:
        steps = round(turned_rad / now.angle_step)
        right_m, mirrored_m = _difference_m(before, now, steps), _difference_m(before, now, -steps)
        least_m = min(right_m, mirrored_m)
        if least_m < ALIKE_M and max(right_m, mirrored_m) > UNLIKE * least_m + UNLIKE_M:
            self._votes.append(1 if right_m < mirrored_m else -1)


def _difference_m(before: RangeScan, now: RangeScan, steps: int) -> float:
    """Returns the median difference between a scan and the one before, shifted by `steps`; NaN if few."""
    first, last = max(0, -steps), len(now.ranges) - max(0, steps)
    with np.errstate(invalid="ignore"):
        off_m = np.abs(np.subtract(now.ranges[first:last], before.ranges[first + steps : last + steps]))
    off_m = off_m[np.isfinite(off_m)]
    return float(np.median(off_m)) if len(off_m) >= MIN_RAYS else math.nan


class TurnedScan:
    """Compares scans before and after a straight way, and votes for or against the lidar's yaw in tf."""

    def __init__(self) -> None:
        self._then: tuple[RangeScan, Pose2D] | None = None
        self._votes: deque[int] = deque(maxlen=VOTES)

    @property
    def is_turned(self) -> bool:
        """Whether the votes show that the scan is turned."""
        return -sum(self._votes) >= WAYS_NEEDED

    def see(self, scan: RangeScan, pose: Pose2D) -> None:
        """Take a scan and its pose."""
        if self._then is None or self._then[1].is_beyond(pose, WAY_M[1], STRAIGHT_RAD):
            self._then = scan, pose
        elif self._then[1].is_beyond(pose, WAY_M[0], math.inf):
            self._vote(scan, pose, *self._then)
            self._then = scan, pose

    def _vote(self, now: RangeScan, pose: Pose2D, before: RangeScan, start: Pose2D) -> None:
        points = hit_points(before)[0][:: 1 + len(before.ranges) // MAX_POINTS]
        turned_rad, way_m = wrap_angle(pose.yaw - start.yaw), start.distance_to(pose.x, pose.y)
        ways_rad = start.bearing_to(pose.x, pose.y) - YAWS_RAD
        ways_m = way_m * np.stack([np.cos(ways_rad), np.sin(ways_rad)], axis=1)
        offs_m = [_off_m(_turned(points - way, -turned_rad), now) for way in ways_m]
        unmoved_m, least_m = _off_m(_turned(points, -turned_rad), now), min(offs_m)
        if np.isnan([unmoved_m, *offs_m]).any() or unmoved_m < least_m + UNMOVED_M:
            return  # the robot slips, or moves along walls
        if least_m < ALIKE_M and offs_m[0] > UNLIKE * least_m + UNLIKE_M:
            self._votes.append(-1)
        elif offs_m[0] < ALIKE_M and max(offs_m) > UNLIKE * offs_m[0] + UNLIKE_M:
            self._votes.append(1)


def _turned(points: Points, radians: float) -> Points:
    cos, sin = math.cos(radians), math.sin(radians)
    return points @ np.array([[cos, sin], [-sin, cos]])


def _off_m(points: Points, scan: RangeScan) -> float:
    """Returns the median difference between a scan's ranges and points (N, 2) on the base; NaN if few."""
    x, y = _turned(points - (scan.mount.x, scan.mount.y), -scan.mount.yaw).T
    rays = np.round((np.arctan2(y, x) - scan.angle_min) / scan.angle_step).astype(int)
    rays %= round(math.tau / abs(scan.angle_step))  # some scans hold a whole circle and one more ray
    seen = rays < len(scan.ranges)
    with np.errstate(invalid="ignore"):
        off_m = np.abs(np.hypot(x, y)[seen] - np.asarray(scan.ranges)[rays[seen]])
    off_m = off_m[np.isfinite(off_m)]
    return float(np.median(off_m)) if len(off_m) >= MIN_RAYS else math.nan
