# SPDX-License-Identifier: Apache-2.0
"""Whether a scan turns as the robot does. Where a lidar hangs upside down and tf does not say so, it turns
the other way, and all that is on its left is on the right. Sans-IO.
"""

from __future__ import annotations

import math
from collections import deque

import numpy as np

from outrider.core.values import Pose2D, RangeScan, wrap_angle

MIRRORED = (
    "the scan is mirrored: turning left shows as turning right; give the lidar's mounting in tf, upside down "
    "too, or check odometry, then give the goal again"
)
# Turns and steps between two scans that are compared, at least so many rays of which measured something.
TURN_RAD, TURN_STEPS, STEP_M = (math.radians(8.0), math.radians(25.0)), 2.0, 0.08
LEAST_RAYS = 30
# How much scans of the same surroundings differ, and others more than that, in metres.
ALIKE_M, UNLIKE, UNLIKE_M = 0.08, 3.0, 0.06
VOTES, NEEDED = 12, 4


class MirroredScan:
    """Compares scans before and after a turn on the spot, and counts votes for the scan and against it.

    A turn votes only as it goes on in one sense: a scan that comes late shows what was before it.
    """

    def __init__(self) -> None:
        self._then: tuple[RangeScan, Pose2D] | None = None
        self._turned_rad = 0.0
        self._votes: deque[int] = deque(maxlen=VOTES)

    @property
    def is_mirrored(self) -> bool:
        """Whether enough votes say that the scan is mirrored."""
        return -sum(self._votes) >= NEEDED

    def see(self, scan: RangeScan, pose: Pose2D) -> None:
        """Take a scan and the pose that it was made at."""
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
    """The median difference of a scan's ranges from those so many rays on in the one before; NaN of few."""
    first, last = max(0, -steps), len(now.ranges) - max(0, steps)
    with np.errstate(invalid="ignore"):
        off_m = np.abs(np.subtract(now.ranges[first:last], before.ranges[first + steps : last + steps]))
    off_m = off_m[np.isfinite(off_m)]
    return float(np.median(off_m)) if len(off_m) >= LEAST_RAYS else math.nan
