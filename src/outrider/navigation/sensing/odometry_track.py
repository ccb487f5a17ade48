# SPDX-License-Identifier: Apache-2.0
"""Where the robot was: odometry of the last while, to be asked for the moment of a picture."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque

from outrider.core.values import Odometry, Pose2D, wrap_angle

KEPT = 4000
PERIOD_S = 0.01
# Between two measurements no farther apart the robot moves evenly; past the last it has not moved far.
GAP_S, BEYOND_S = 0.5, 0.1


class OdometryTrack:
    """The last KEPT measurements, thinned out to one for each PERIOD_S. Times are the owner's."""

    def __init__(self) -> None:
        self._track: deque[Odometry] = deque(maxlen=KEPT)

    def take(self, odometry: Odometry) -> None:
        """A new measurement. One after a gap begins a new track, for its source may have begun anew, and so
        does one from before the last: the clock went back.
        """
        if self._track and abs(odometry.stamp_s - self._track[-1].stamp_s) > GAP_S:
            self._track.clear()
        if not self._track or odometry.stamp_s >= self._track[-1].stamp_s + PERIOD_S:
            self._track.append(odometry)

    @property
    def newest(self) -> Pose2D | None:
        """The last pose; None where there is none yet."""
        return self._track[-1].pose if self._track else None

    def pose_at(self, time_s: float) -> Pose2D | None:
        """The pose at a time, between the measurements before and after it; None where nothing tells it."""
        index = bisect_left(self._track, time_s, key=lambda odometry: odometry.stamp_s)
        before = self._track[index - 1] if index > 0 else None
        after = self._track[index] if index < len(self._track) else None
        if before is not None and after is not None and after.stamp_s - before.stamp_s <= GAP_S:
            return _between(before, after, time_s)
        near = [one for one in (before, after) if one is not None and abs(one.stamp_s - time_s) <= BEYOND_S]
        return min(near, key=lambda one: abs(one.stamp_s - time_s)).pose if near else None


def _between(before: Odometry, after: Odometry, time_s: float) -> Pose2D:
    share = (time_s - before.stamp_s) / (after.stamp_s - before.stamp_s)
    start, end = before.pose, after.pose
    yaw = start.yaw + share * wrap_angle(end.yaw - start.yaw)
    return Pose2D(start.x + share * (end.x - start.x), start.y + share * (end.y - start.y), wrap_angle(yaw))
