# SPDX-License-Identifier: Apache-2.0
"""Whether a scan shows what the robot does: it is not frozen, not mirrored and not turned. Sans-IO."""

from __future__ import annotations

import math

import numpy as np

from outrider.core.values import Odometry, Pose2D, RangeScan, wrap_angle
from outrider.navigation.sensing.clearance import Points, hit_points
from outrider.navigation.sensing.mirrored_scan import MIRRORED, TURNED, MirroredScan, TurnedScan
from outrider.navigation.sensing.odometry_track import OdometryTrack

# How far, across their surface, points must have moved, and how many, for a repeated scan to be a frozen one.
MOVED_M, MOVED_POINTS, NEIGHBOURS_M = 0.01, 3, 0.5
# The same for a part of it: of so many rays, no such share reads the same, bit for bit, by chance.
PART_MOVED_M, PART_POINTS, PART_SHARE = 0.05, 20, 0.2
# How long a part counts as frozen before it is looked at anew: the robot may have slipped on the spot.
PART_S = 3.0
# Some drivers send each sweep twice.
REPEATED_S = 0.1
FROZEN = "the scan repeats itself while the robot moves: restart the lidar's driver"


class FrozenScan:
    """Tells a scan that repeats itself, bit for bit, though the robot's motion must have changed it.

    Walls along the way, and free space, stay as they are: they contradict nothing. Nor does odometry that is
    newer than the scan: the robot may have moved since. Where the scan is newer, its pose is known once
    odometry has caught up.
    """

    def __init__(self) -> None:
        self._first: RangeScan | None = None
        self._before: Pose2D | None = None
        self._track = OdometryTrack()
        self._part, self._mirrored, self._turned = _FrozenPart(), MirroredScan(), TurnedScan()
        self._unjudged: RangeScan | None = None

    def begin_goal(self) -> None:
        """What was held against the lidar's mounting may have been mended."""
        self._mirrored, self._turned = MirroredScan(), TurnedScan()

    def fault(self, scan: RangeScan, odometry: Odometry) -> str:
        """Why nothing may move by this scan, or an empty text. Asked at every use of a scan."""
        if self.sees(scan, odometry):
            return FROZEN
        if self._mirrored.is_mirrored:
            return MIRRORED
        return TURNED if self._turned.is_turned else ""

    def sees(self, scan: RangeScan, odometry: Odometry) -> bool:
        """Whether this scan is a frozen one. Asked at every use of a scan."""
        self._track.take(odometry)
        if self._first is None or not _is_same(self._first, scan):
            self._first, self._before = scan, None
        if self._before is None and self._first.stamp_s <= odometry.stamp_s:
            self._before = self._track.pose_at(self._first.stamp_s) or odometry.pose
        self._judge_part(scan, odometry)
        pose = self._track.pose_at(scan.stamp_s)
        if self._part.is_frozen or pose is None or self._before is None:
            return self._part.is_frozen
        if scan.stamp_s - self._first.stamp_s <= REPEATED_S:
            return False
        return len(_moved_rays(scan, self._before, pose, MOVED_M)) >= MOVED_POINTS

    def _judge_part(self, scan: RangeScan, odometry: Odometry) -> None:
        """Once odometry has caught up with a scan: where it was made must be known well."""
        self._unjudged = self._unjudged or scan
        if self._unjudged.stamp_s <= odometry.stamp_s:
            pose = self._track.pose_at(self._unjudged.stamp_s)
            if pose is not None:
                self._part.see(self._unjudged, pose)
                self._mirrored.see(self._unjudged, pose)
                self._turned.see(self._unjudged, pose)
            self._unjudged = None


class _FrozenPart:
    """Compares scans with an earlier one, as soon as the robot has moved far enough since.

    A driver that merges scans keeps the part of a lidar which has died.
    """

    def __init__(self) -> None:
        self._then: tuple[RangeScan, Pose2D] | None = None
        self._since_s: float | None = None

    @property
    def is_frozen(self) -> bool:
        """Whether a part of the last scan was of an earlier one."""
        return self._since_s is not None

    def see(self, scan: RangeScan, pose: Pose2D) -> None:
        """Take a scan and the pose that it was made at."""
        then = self._then
        if self._since_s is not None and not 0.0 <= scan.stamp_s - self._since_s <= PART_S:
            then = None
        if then is None or len(then[0].ranges) != len(scan.ranges):
            self._then, self._since_s = (scan, pose), None
            return
        rays = _moved_rays(*then, pose, PART_MOVED_M)
        if len(rays) >= PART_POINTS:
            same = np.asarray(scan.ranges)[rays] == np.asarray(then[0].ranges)[rays]
            if np.mean(same) > PART_SHARE:
                self._since_s = scan.stamp_s if self._since_s is None else self._since_s
            else:
                self._then, self._since_s = (scan, pose), None


def _is_same(first: RangeScan, scan: RangeScan) -> bool:
    if first.ranges is scan.ranges:
        return True
    return np.array_equal(np.array(first.ranges), np.array(scan.ranges), equal_nan=True)


def _moved_rays(scan: RangeScan, before: Pose2D, now: Pose2D, least_m: float) -> Points:
    """The rays (N,) whose points the robot's motion has moved by more than that across their surface."""
    points, rays = hit_points(scan)
    if len(points) < 2:
        return rays[:0]
    along = np.diff(points, axis=0)
    length = np.hypot(along[:, 0], along[:, 1])
    surface = (np.diff(rays) == 1) & (length < NEIGHBOURS_M) & (length > 0.0)
    ahead_m, left_m = now.x - before.x, now.y - before.y
    cos, sin = math.cos(before.yaw), math.sin(before.yaw)
    moved = np.array([ahead_m * cos + left_m * sin, left_m * cos - ahead_m * sin])
    turned = wrap_angle(now.yaw - before.yaw)
    moves = moved + turned * np.stack([-points[:-1, 1], points[:-1, 0]], axis=1)
    across = np.abs(along[:, 0] * moves[:, 1] - along[:, 1] * moves[:, 0])[surface] / length[surface]
    return rays[:-1][surface][across > least_m]
