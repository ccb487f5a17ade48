# SPDX-License-Identifier: Apache-2.0
"""The data of the top view: the robot's trail, and where its scan has met something."""

from __future__ import annotations

import math

from outrider.core.values import Pose2D, RangeScan

CELL_M = 0.1
POINT_EVERY_M = 0.05
MAX_POINTS = 4000
MAX_CELLS = 20_000


class FloorSketch:
    """Grows with odometry and scans, up to a limit; each method returns what is new."""

    def __init__(self) -> None:
        self.points: list[tuple[float, float]] = []
        self.cells: set[tuple[int, int]] = set()

    def go(self, pose: Pose2D) -> tuple[tuple[float, float], ...]:
        """Return the point to add to the trail if the robot has moved. A full trail drops its oldest half."""
        point = (round(pose.x, 3), round(pose.y, 3))
        if self.points and pose.distance_to(*self.points[-1]) < POINT_EVERY_M:
            return ()
        if len(self.points) >= MAX_POINTS:
            del self.points[: MAX_POINTS // 2]
        self.points.append(point)
        return (point,)

    def see(self, pose: Pose2D, scan: RangeScan) -> tuple[tuple[int, int], ...]:
        """Return the cells in which this scan is the first to meet something; none beyond MAX_CELLS."""
        met, lidar = set(), pose.compose(scan.mount)
        for index, range_m in enumerate(scan.ranges):
            if math.isfinite(range_m):
                bearing = lidar.yaw + scan.angle_min + index * scan.angle_step
                x, y = lidar.x + range_m * math.cos(bearing), lidar.y + range_m * math.sin(bearing)
                met.add((math.floor(x / CELL_M), math.floor(y / CELL_M)))
        new = met - self.cells
        if len(self.cells) + len(new) > MAX_CELLS:
            return ()
        self.cells |= new
        return tuple(sorted(new))
