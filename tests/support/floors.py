"""Floors with rectangular blocks, and their planar scans."""

from __future__ import annotations

import math
from dataclasses import dataclass

from outrider.core.values import Pose2D, RangeScan

RAYS = 180
RANGE_M = 8.0
STEP_M = 0.02


@dataclass(frozen=True)
class Floor:
    """A floor with blocks (x0, y0, x1, y1)."""

    blocks: list[tuple[float, float, float, float]]

    def scan(self, pose: Pose2D) -> RangeScan:
        step = math.tau / RAYS
        ranges = tuple(self._range(pose, -math.pi + i * step + pose.yaw) for i in range(RAYS))
        return RangeScan(ranges, -math.pi, step, 0.0)

    def free_m(self, pose: Pose2D) -> float:
        """Returns the distance of the nearest block from a point."""
        gaps = [
            math.hypot(max(x0 - pose.x, 0.0, pose.x - x1), max(y0 - pose.y, 0.0, pose.y - y1))
            for x0, y0, x1, y1 in self.blocks
        ]
        return min(gaps, default=math.inf)

    def _range(self, pose: Pose2D, heading: float) -> float:
        """Returns a ray's range. Each step along the ray is as long as the distance to the nearest block."""
        reached = 0.0
        while reached < RANGE_M:
            x, y = pose.x + reached * math.cos(heading), pose.y + reached * math.sin(heading)
            free = self.free_m(Pose2D(x, y, 0.0))
            if free < STEP_M:
                return reached
            reached += free
        return math.inf
