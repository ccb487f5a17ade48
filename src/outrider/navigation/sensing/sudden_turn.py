# SPDX-License-Identifier: Apache-2.0
"""Checks that a scan does not turn at once by more than a robot can turn. Sans-IO.

A lidar that has slipped in its mount, or whose driver has lost its zero angle, shows obstacles where there
are none. Its scans still have the same angles, and each by itself is valid.
"""

from __future__ import annotations

import math

import numpy as np

from outrider.navigation.sensing.transforms import Matrix

# How far a scan may turn from one to the next: by JUMP_RAD, and as fast as a robot or a lidar turns.
JUMP_RAD, MAX_PAN_RPS = math.radians(15.0), 3.0
# Two scans match if a share MOST of their rays differs by less than ALIKE_M. They do not if the median
# difference is more than UNLIKE times as much plus UNLIKE_M. They are compared at turns SHIFT_RAD apart.
MOST, ALIKE_M, UNLIKE, UNLIKE_M, SHIFT_RAD = 0.75, 0.12, 3.0, 0.2, math.radians(1.0)
# The least number of rays with a measurement in both scans. Of a scan that is no whole circle, at most
# PART_SHARE of the rays may be without a counterpart: somebody near may hide the others.
LEAST_RAYS, PART_SHARE, WHOLE_RAD = 30, 0.3, math.tau - 0.2
TURNED_AT_ONCE = "the scan turned at once by {:.0f} deg: fasten the lidar, and restart its driver"


class SuddenTurn:
    """Compares each scan with the last one that had not turned at once.

    The fault lasts until a scan matches that one again: the robot stands meanwhile.
    """

    def __init__(self) -> None:
        self._before: tuple[Matrix, float] | None = None
        self._turned_rad = 0.0

    def fault(self, ranges: Matrix, step_rad: float, made_s: float) -> str:
        """Returns why a scan cannot follow the last one, or an empty text.

        `ranges` (N,) are in `RangeScan`'s convention, `step_rad` is their angle increment. `made_s`
        is by the scan's stamp, since scans may arrive in bursts. The scans have the same angles.
        """
        if self._before is None or len(self._before[0]) != len(ranges):
            self._before, self._turned_rad = (ranges, made_s), 0.0
            return ""
        before, before_s = self._before
        within_rad = JUMP_RAD
        if not self._turned_rad:
            within_rad += MAX_PAN_RPS * max(0.0, made_s - before_s)
            self._turned_rad = _turn_rad(before, ranges, step_rad, within_rad)
        elif _near_m(before, ranges, step_rad, within_rad) <= UNLIKE_M:
            self._turned_rad = 0.0
        if self._turned_rad:
            return TURNED_AT_ONCE.format(math.degrees(self._turned_rad))
        self._before = ranges, made_s
        return ""


def _turn_rad(before: Matrix, now: Matrix, step_rad: float, within_rad: float) -> float:
    """Returns by how much a scan has turned, if by more than `within_rad`; else 0."""
    if not UNLIKE_M < _off_m(before, now, 0, step_rad)[0] < math.inf:
        return 0.0
    near_m = _near_m(before, now, step_rad, within_rad)
    shifts = _shifts(len(now), step_rad, within_rad, math.pi)
    offs = [(_off_m(before, now, shift, step_rad)[1], abs(shift * step_rad)) for shift in shifts]
    far_m, turned_rad = min(offs, default=(math.inf, 0.0))
    return turned_rad if far_m < ALIKE_M and near_m > UNLIKE * far_m + UNLIKE_M else 0.0


def _near_m(before: Matrix, now: Matrix, step_rad: float, within_rad: float) -> float:
    """Returns the least median difference for a turn within an angle."""
    shifts = _shifts(len(now), step_rad, 0.0, within_rad)
    return min(_off_m(before, now, shift, step_rad)[0] for shift in shifts)


def _shifts(number: int, step_rad: float, least_rad: float, most_rad: float) -> list[int]:
    """Returns the numbers of rays, either way, by which a scan shifts when it turns by such an angle."""
    is_whole = number * abs(step_rad) > WHOLE_RAD
    last = min(int(most_rad / abs(step_rad)), number - 1 if is_whole else int(PART_SHARE * number))
    counts = range(math.ceil(least_rad / abs(step_rad)), last + 1, max(1, round(SHIFT_RAD / abs(step_rad))))
    return [*counts, *(-count for count in counts if count)]


def _off_m(before: Matrix, now: Matrix, shift: int, step_rad: float) -> tuple[float, float]:
    """Returns the median difference between the ranges (N,) of two scans, and what MOST differ by at most.

    The scan before is shifted by a number of rays. Both are infinite if too few rays are common.
    """
    shifted = np.roll(before, -shift)
    if len(now) * abs(step_rad) <= WHOLE_RAD and shift:
        shifted[slice(-shift, None) if shift > 0 else slice(0, -shift)] = math.nan
    with np.errstate(invalid="ignore"):
        off_m = np.abs(now - shifted)
    off_m = off_m[np.isfinite(off_m)]
    if len(off_m) < LEAST_RAYS:
        return math.inf, math.inf
    median_m, most_m = np.quantile(off_m, (0.5, MOST))
    return float(median_m), float(most_m)
