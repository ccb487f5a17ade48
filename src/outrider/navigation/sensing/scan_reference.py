# SPDX-License-Identifier: Apache-2.0
"""Checks that a scan is from the same lidar and surroundings as those before it. Sans-IO.

A lidar stays where it is mounted, and obstacles all around a robot do not vanish from one scan to the next.
A driver that reports this is broken, and its free space is not free.
"""

from __future__ import annotations

import math

import numpy as np

from outrider.navigation.sensing.sudden_turn import SuddenTurn
from outrider.navigation.sensing.transforms import Matrix

# Tolerances for drivers that round or vary their rays: of angles (besides one increment), and of the reach.
ANGLE_RAD, REACH_SHARE = 0.1, 0.1
# A scan is lost if at least SURROUNDED of its rays hit something and VANISHED of these turn free at once.
# Lidars that scatter their rays see less in some scans, so LOST_SCANS in a row make a fault.
SURROUNDED, VANISHED, LOST_SCANS = 0.25, 0.3, 2
# After a longer silence the lidar may have been restarted elsewhere.
RESTART_S = 2.0
Geometry = tuple[float, float, float, float]


class ScanReference:
    """The reference for scans: the geometry of the first, and the share of hits in the last good ones."""

    def __init__(self) -> None:
        self._geometry: Geometry | None = None
        self._hits, self._num_lost = 0.0, 0
        self._turn = SuddenTurn()
        self._taken_s = -math.inf

    def fault(self, geometry: Geometry, ranges: Matrix, received_s: float, made_s: float) -> str:
        """Returns why a scan does not match the last ones, or an empty text.

        The fault lasts until a scan matches again. `geometry` is first and last angle, increment and
        range_max. `ranges` (N,) are in `RangeScan`'s convention. `made_s` is by the scan's stamp.
        """
        if not 0.0 <= received_s - self._taken_s <= RESTART_S:
            self._geometry, self._hits, self._num_lost = geometry, 0.0, 0
            self._turn = SuddenTurn()
        self._taken_s = received_s
        assert self._geometry is not None
        if not _is_alike(self._geometry, geometry):
            return (
                f"the scan's angles or reach change from {_worded(self._geometry)} to {_worded(geometry)}: "
                "let one lidar alone publish it"
            )
        hits, free = (
            float(np.mean(np.isfinite(ranges) | np.isneginf(ranges))),
            float(np.mean(np.isposinf(ranges))),
        )
        lost = min(self._hits - hits, free)
        if self._hits < SURROUNDED or lost <= VANISHED * self._hits:
            self._hits, self._num_lost = (self._hits + hits) / 2.0 if self._hits else hits, 0
            return self._turn.fault(ranges, geometry[2], made_s)
        self._num_lost += 1
        if self._num_lost < LOST_SCANS:
            return ""
        return "the scan no longer sees what stood around the robot: restart the lidar's driver"


def _is_alike(first: Geometry, now: Geometry) -> bool:
    rounding_rad = ANGLE_RAD + max(abs(first[2]), abs(now[2]))
    angles = zip(first[:2], now[:2], strict=True)
    if any(abs(before - after) > rounding_rad for before, after in angles) or first[2] * now[2] < 0.0:
        return False
    return first[3] == now[3] or abs(first[3] - now[3]) <= REACH_SHARE * first[3]


def _worded(geometry: Geometry) -> str:
    first_rad, last_rad, _, reach_m = geometry
    return f"{first_rad:.2f} to {last_rad:.2f} rad and {reach_m:g} m"
