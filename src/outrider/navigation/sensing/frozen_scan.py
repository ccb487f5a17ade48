# SPDX-License-Identifier: Apache-2.0
"""Checks that a scan follows the robot's motion: it is not frozen, mirrored or turned. Sans-IO."""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from outrider.core.values import Odometry, Pose2D, RangeScan, wrap_angle
from outrider.navigation.sensing.clearance import Points, hit_points
from outrider.navigation.sensing.mirrored_scan import MIRRORED, TURNED, MirroredScan, TurnedScan
from outrider.navigation.sensing.odometry_track import OdometryTrack

# A repeated scan is frozen if MOVED_POINTS points must have moved by MOVED_M across their surface.
MOVED_M, MOVED_POINTS, NEIGHBOURS_M = 0.01, 3, 0.5
# A part is frozen if, of PART_POINTS moved rays, more than PART_SHARE are the same, bit for bit.
PART_MOVED_M, PART_POINTS, PART_SHARE = 0.05, 20, 0.2
# How long a part counts as frozen before a new comparison: the robot may have slipped on the spot.
PART_S = 3.0
# Some drivers send each sweep twice.
REPEATED_S = 0.1
FROZEN = "the scan repeats itself while the robot moves: restart the lidar's driver"


class FrozenScan:
    """Detects a scan that repeats itself, bit for bit, although the robot's motion must have changed it.

    Walls along the way and free space do not change, so they are no evidence. Nor is odometry that is newer
    than the scan: the robot may have moved since. The pose of a newer scan is known once odometry has
    caught up. A scan between two measurements of odometry may be from any pose between theirs: the robot
    may have just started or stopped.
    """

    def __init__(self) -> None:
        self._first: RangeScan | None = None
        self._before: tuple[Pose2D, ...] = ()
        self._track = OdometryTrack()
        self._part, self._mirrored, self._turned = _FrozenPart(), MirroredScan(), TurnedScan()
        self._unjudged: RangeScan | None = None

    def begin_goal(self) -> None:
        """Drop the votes against the lidar's mounting: it may have been corrected."""
        self._mirrored, self._turned = MirroredScan(), TurnedScan()

    def fault(self, scan: RangeScan, odometry: Odometry) -> str:
        """Returns why nothing may move by this scan, or an empty text. Call it at every use of a scan."""
        if self.sees(scan, odometry):
            return FROZEN
        if self._mirrored.is_mirrored:
            return MIRRORED
        return TURNED if self._turned.is_turned else ""

    def sees(self, scan: RangeScan, odometry: Odometry) -> bool:
        """Whether this scan is frozen. Call it at every use of a scan."""
        self._track.take(odometry)
        if self._first is None or not _is_same(self._first, scan):
            self._first, self._before = scan, ()
        if not self._before and self._first.stamp_s <= odometry.stamp_s:
            self._before = self._track.poses_around(self._first.stamp_s) or (odometry.pose,)
        self._judge_part(scan, odometry)
        if self._part.is_frozen:
            return True
        if scan.stamp_s - self._first.stamp_s <= REPEATED_S:
            return False
        poses = self._track.poses_around(scan.stamp_s)
        return len(_moved_rays(scan, self._before, poses, MOVED_M)) >= MOVED_POINTS

    def _judge_part(self, scan: RangeScan, odometry: Odometry) -> None:
        """Check a scan for the other faults, once odometry has caught up: its pose must be known well."""
        self._unjudged = self._unjudged or scan
        if self._unjudged.stamp_s <= odometry.stamp_s:
            pose = self._track.pose_at(self._unjudged.stamp_s)
            if pose is not None:
                self._part.see(self._unjudged, self._track.poses_around(self._unjudged.stamp_s))
                self._mirrored.see(self._unjudged, pose)
                self._turned.see(self._unjudged, pose)
            self._unjudged = None


class _FrozenPart:
    """Compares scans with an earlier one, once the robot has moved far enough since.

    A driver that merges scans may keep the part of a lidar that has died.
    """

    def __init__(self) -> None:
        self._then: tuple[RangeScan, tuple[Pose2D, ...]] | None = None
        self._since_s: float | None = None

    @property
    def is_frozen(self) -> bool:
        """Whether a part of the last scan repeated an earlier one."""
        return self._since_s is not None

    def see(self, scan: RangeScan, poses: tuple[Pose2D, ...]) -> None:
        """Take a scan and the poses between which it was taken."""
        then = self._then
        if self._since_s is not None and not 0.0 <= scan.stamp_s - self._since_s <= PART_S:
            then = None
        if then is None or len(then[0].ranges) != len(scan.ranges):
            self._then, self._since_s = (scan, poses), None
            return
        rays = _moved_rays(*then, poses, PART_MOVED_M)
        if len(rays) >= PART_POINTS:
            same = np.asarray(scan.ranges)[rays] == np.asarray(then[0].ranges)[rays]
            if np.mean(same) > PART_SHARE:
                self._since_s = scan.stamp_s if self._since_s is None else self._since_s
            else:
                self._then, self._since_s = (scan, poses), None


def _is_same(first: RangeScan, scan: RangeScan) -> bool:
    if first.ranges is scan.ranges:
        return True
    return np.array_equal(np.array(first.ranges), np.array(scan.ranges), equal_nan=True)


def _moved_rays(
    scan: RangeScan, starts: tuple[Pose2D, ...], nows: tuple[Pose2D, ...], least_m: float
) -> Points:
    """Returns the rays (N,) whose points move by more than `least_m` across their surface.

    They do whichever of `starts` and `nows` the robot was at. Without a known pose no ray counts.
    """
    points, rays = hit_points(scan)
    if len(points) < 2 or not starts or not nows:
        return rays[:0]
    along = np.diff(points, axis=0)
    length = np.hypot(along[:, 0], along[:, 1])
    surface = (np.diff(rays) == 1) & (length < NEIGHBOURS_M) & (length > 0.0)
    across = np.full(int(surface.sum()), math.inf)
    for start, now in product(starts, nows):
        moves = _moves(points[:-1][surface], start, now)
        cross = along[surface, 0] * moves[:, 1] - along[surface, 1] * moves[:, 0]
        across = np.minimum(across, np.abs(cross) / length[surface])
    return rays[:-1][surface][across > least_m]


def _moves(points: Points, before: Pose2D, now: Pose2D) -> Points:
    """Returns by how much points (N, 2) on the base move against it as the base moves."""
    ahead_m, left_m = now.x - before.x, now.y - before.y
    cos, sin = math.cos(before.yaw), math.sin(before.yaw)
    moved = np.array([ahead_m * cos + left_m * sin, left_m * cos - ahead_m * sin])
    turned = wrap_angle(now.yaw - before.yaw)
    return moved + turned * np.stack([-points[:, 1], points[:, 0]], axis=1)
