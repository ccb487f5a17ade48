# SPDX-License-Identifier: Apache-2.0
"""Keeps recent odometry, for the pose at the moment of a picture, and computes velocities from poses."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque

from outrider.core.values import STANDSTILL, Odometry, Pose2D, Velocity, wrap_angle

KEPT = 4000
PERIOD_S = 0.01
# Poses are interpolated over gaps up to GAP_S, and taken as constant up to BEYOND_S outside the track.
GAP_S, BEYOND_S = 0.5, 0.1


class OdometryTrack:
    """Keeps the last KEPT measurements, at most one per PERIOD_S. Times are the owner's."""

    def __init__(self) -> None:
        self._track: deque[Odometry] = deque(maxlen=KEPT)

    def take(self, odometry: Odometry) -> None:
        """Add a measurement. After a gap, or if the clock went back, a new track begins.

        The source may have started anew.
        """
        if self._track and abs(odometry.stamp_s - self._track[-1].stamp_s) > GAP_S:
            self._track.clear()
        if not self._track or odometry.stamp_s >= self._track[-1].stamp_s + PERIOD_S:
            self._track.append(odometry)

    @property
    def newest(self) -> Pose2D | None:
        """The last pose; None before the first."""
        return self._track[-1].pose if self._track else None

    def pose_at(self, time_s: float) -> Pose2D | None:
        """Returns the pose at a time, interpolated between two measurements; None if it is not known."""
        near = self._around(time_s)
        return _between(*near, time_s) if len(near) == 2 else near[0].pose if near else None

    def poses_around(self, time_s: float) -> tuple[Pose2D, ...]:
        """Returns the measured poses before and after a time, or the only one near it; none if not known.

        The robot may have started or stopped in between: at that time it can have been at either.
        """
        return tuple(odometry.pose for odometry in self._around(time_s))

    def _around(self, time_s: float) -> tuple[Odometry, ...]:
        """Returns the measurements before and after a time; the nearest one at the track's ends."""
        index = bisect_left(self._track, time_s, key=lambda odometry: odometry.stamp_s)
        around = [self._track[i] for i in (index - 1, index) if 0 <= i < len(self._track)]
        if len(around) == 2 and around[1].stamp_s - around[0].stamp_s <= GAP_S:
            return (around[1],) if around[1].stamp_s == time_s else (around[0], around[1])
        near = [sample for sample in around if abs(sample.stamp_s - time_s) <= BEYOND_S]
        return (min(near, key=lambda sample: abs(sample.stamp_s - time_s)),) if near else ()


def _between(before: Odometry, after: Odometry, time_s: float) -> Pose2D:
    share = (time_s - before.stamp_s) / (after.stamp_s - before.stamp_s)
    start, end = before.pose, after.pose
    yaw = start.yaw + share * wrap_angle(end.yaw - start.yaw)
    return Pose2D(start.x + share * (end.x - start.x), start.y + share * (end.y - start.y), wrap_angle(yaw))


class Speedometer:
    """Computes the body's velocity from the poses of the last `window_s`.

    It is 0 after a gap, and while the poses span less than a quarter of the window.
    """

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._poses: deque[tuple[float, Pose2D]] = deque()

    def forget(self) -> None:
        """Drop all poses up to now."""
        self._poses.clear()

    def velocity(self, pose: Pose2D, time_s: float) -> Velocity:
        """Returns the velocity at a pose, in the robot's own frame.

        The first of several poses at one time counts.
        """
        poses = self._poses
        if poses and not 0.0 <= time_s - poses[-1][0] <= GAP_S:
            poses.clear()
        if not poses or time_s > poses[-1][0]:
            poses.append((time_s, pose))
        while len(poses) > 2 and time_s - poses[1][0] >= self._window_s:
            poses.popleft()
        then_s, then = poses[0]
        elapsed_s = time_s - then_s
        if elapsed_s < self._window_s / 4.0:
            return STANDSTILL
        speed_mps = then.distance_to(pose.x, pose.y) / elapsed_s
        turned_rad = wrap_angle(pose.yaw - then.yaw)
        way_rad = then.bearing_to(pose.x, pose.y) - turned_rad / 2.0
        return Velocity(speed_mps * math.cos(way_rad), speed_mps * math.sin(way_rad), turned_rad / elapsed_s)
