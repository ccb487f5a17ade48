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
# Two scans match if a share MATCH_SHARE of their rays differs by less than MATCH_M. They do not match if the
# median difference is more than MISMATCH_FACTOR times as much plus MISMATCH_M.
MATCH_SHARE, MATCH_M, MISMATCH_FACTOR, MISMATCH_M = 0.75, 0.12, 3.0, 0.2
# Scans are compared at turns SHIFT_RAD apart, in about NUM_RAYS rays: the check runs in the thread that also
# handles stops.
SHIFT_RAD, NUM_RAYS = math.radians(1.0), 120
# The least number, and the least share, of the compared rays with a measurement in both scans: two people
# in the open are no surroundings. Of a scan that is no whole circle, at most PART_SHARE of the rays may be
# without a counterpart: somebody near may hide the others.
MIN_RAYS, MIN_SHARE, PART_SHARE, WHOLE_RAD = 30, 0.25, 0.3, math.tau - 0.2
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
        is by the scan's stamp, since scans may arrive in bursts. The scans have the same angles, but some
        drivers send a ray more or less.
        """
        if self._before is None:
            self._before = ranges, made_s
            return ""
        before, before_s = self._before
        within_rad = JUMP_RAD
        if not self._turned_rad:
            within_rad += MAX_PAN_RPS * max(0.0, made_s - before_s)
            self._turned_rad = _turn_rad(before, ranges, step_rad, within_rad)
        elif _near_m(before, ranges, step_rad, within_rad) <= MISMATCH_M:
            self._turned_rad = 0.0
        if self._turned_rad:
            return TURNED_AT_ONCE.format(math.degrees(self._turned_rad))
        self._before = ranges, made_s
        return ""


def _turn_rad(before: Matrix, now: Matrix, step_rad: float, within_rad: float) -> float:
    """Returns by how much a scan has turned, if by more than `within_rad`; else 0."""
    (unturned_m,), _ = _differences(before, now, np.zeros(1, int), step_rad)
    if not MISMATCH_M < unturned_m < math.inf:
        return 0.0
    near_m = _near_m(before, now, step_rad, within_rad)
    shifts = _shifts(len(now), step_rad, within_rad, math.pi)
    if near_m <= MISMATCH_M or not len(shifts):
        return 0.0
    _, match_m = _differences(before, now, shifts, step_rad)
    best = int(np.argmin(match_m))
    is_turned = match_m[best] < MATCH_M and near_m > MISMATCH_FACTOR * match_m[best] + MISMATCH_M
    return abs(float(shifts[best]) * step_rad) if is_turned else 0.0


def _near_m(before: Matrix, now: Matrix, step_rad: float, within_rad: float) -> float:
    """Returns the least median difference for a turn within an angle."""
    return float(_differences(before, now, _shifts(len(now), step_rad, 0.0, within_rad), step_rad)[0].min())


def _shifts(number: int, step_rad: float, least_rad: float, most_rad: float) -> Matrix:
    """Returns the numbers of rays, either way, by which a scan shifts when it turns by such an angle."""
    is_whole = number * abs(step_rad) > WHOLE_RAD
    last = min(int(most_rad / abs(step_rad)), number - 1 if is_whole else int(PART_SHARE * number))
    counts = range(math.ceil(least_rad / abs(step_rad)), last + 1, max(1, round(SHIFT_RAD / abs(step_rad))))
    return np.array([*counts, *(-count for count in counts if count)], int)


def _differences(before: Matrix, now: Matrix, shifts: Matrix, step_rad: float) -> tuple[Matrix, Matrix]:
    """Returns two differences (S,) of the scans at each shift: the median, and that of the share MATCH_SHARE.

    `shifts` (S,) are the numbers of rays by which the scan before is shifted. Both differences are infinite
    if too few rays have a measurement in both scans.
    """
    number = min(len(before), len(now))
    rays = np.arange(0, number, max(1, number // NUM_RAYS))
    shifted = rays + shifts[:, None]
    counterparts = before[shifted % number]
    if number * abs(step_rad) <= WHOLE_RAD:
        counterparts[(shifted < 0) | (shifted >= number)] = math.nan
    with np.errstate(invalid="ignore"):
        sorted_m = np.abs(now[rays] - counterparts)
    sorted_m[np.isnan(sorted_m)] = math.inf
    sorted_m.sort(axis=1)
    counts = np.isfinite(sorted_m).sum(axis=1)
    enough = counts >= max(MIN_RAYS, MIN_SHARE * len(rays))
    at_share = (
        sorted_m[np.arange(len(shifts)), (share * (counts - 1)).astype(int)] for share in (0.5, MATCH_SHARE)
    )
    median_m, match_m = (np.where(enough, value, math.inf) for value in at_share)
    return median_m, match_m
