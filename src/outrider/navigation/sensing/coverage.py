# SPDX-License-Identifier: Apache-2.0
"""Decides where a scan covers enough to move: no motion enters a sector without measurements. Pure.

A move ahead needs rays over the corridor that the body sweeps. A turn or a side step needs them from ahead
to abeam on its side, so a lidar that sees the half circle ahead suffices; nothing behind abeam is needed.
Moving backwards needs them behind. Bearings are relative to the base's axes, seen from the lidar, left
positive.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from outrider.core.language.actions import Motion
from outrider.core.values import RangeScan, Velocity
from outrider.navigation.limits import Footprint
from outrider.navigation.sensing.clearance import (
    FRONT_MARGIN_M,
    SIDE_MARGIN_M,
    Points,
    hit_points,
    is_own,
)

# The largest gap between two valid rays: MAX_GAP_RAD, or MAX_STEPS steps of a coarser scan.
MAX_GAP_RAD, MAX_STEPS = math.radians(7.0), 1.5
# The least that may be missing at the edge of the lidar's field of view.
EDGE_RAD = math.radians(2.0)
ABEAM_RAD = math.pi / 2
# A lidar at the very nose sees its own corridor from at least this far behind it.
MIN_AHEAD_M = 0.05


@dataclass(frozen=True)
class Coverage:
    """The directions in which the scan lets the base move."""

    ahead: bool = True
    behind: bool = True
    left: bool = True
    right: bool = True


EVERYWHERE = Coverage()


def coverage(scan: RangeScan, body: Footprint) -> Coverage:
    """Returns the directions in which the scan has rays that hit something or are free."""
    bearings = telling_bearings(scan, body)
    least_rad = MAX_STEPS * abs(scan.angle_step)
    gap_rad, edge_rad = max(MAX_GAP_RAD, least_rad), max(EDGE_RAD, least_rad)

    def covers(low_rad: float, high_rad: float) -> bool:
        return _covers(bearings, low_rad, high_rad, gap_rad, edge_rad)

    return Coverage(
        ahead=covers(*_corridor(scan, body, 1.0)),
        behind=covers(*_corridor(scan, body, -1.0)),
        left=covers(0.0, ABEAM_RAD),
        right=covers(-ABEAM_RAD, 0.0),
    )


def telling_bearings(scan: RangeScan, body: Footprint) -> Points:
    """Returns bearings (N,) of the rays that hit something outside the body, or nothing within reach."""
    ranges = np.asarray(scan.ranges, dtype=float)
    points, hits = hit_points(scan)
    # A range of -inf is too near to measure, and does not count.
    measured = hits[~is_own(points, body) & np.isfinite(ranges[hits])]
    telling = np.concatenate([measured, np.flatnonzero(np.isposinf(ranges))])
    return np.asarray(scan.mount.yaw + scan.angle_min + telling * scan.angle_step)


def blind_fault(motion: Motion, covered: Coverage) -> str:
    """Returns why the scan does not let a motion go on, or an empty text."""
    if motion.forward_m:
        return "" if covered.ahead else _blind("ahead")
    if motion.turn_rad:
        return _side_fault(covered, motion.turn_rad)
    return ""


def seen_part(velocity: Velocity, covered: Coverage) -> Velocity:
    """Returns the velocity without its components into sectors that the scan does not cover."""
    return Velocity(
        _where(velocity.vx, covered.ahead, covered.behind),
        _where(velocity.vy, covered.left, covered.right),
        _where(velocity.wz, covered.left, covered.right),
    )


def _side_fault(covered: Coverage, turn_rad: float) -> str:
    if turn_rad > 0.0:
        return "" if covered.left else _blind("ahead to the left")
    return "" if covered.right else _blind("ahead to the right")


def _blind(where: str) -> str:
    return f"the scan says nothing about what is {where} (no rays, or 0, NaN or too near): check the lidar"


def _where(speed: float, positive: bool, negative: bool) -> float:
    return speed if (positive if speed > 0.0 else negative) else 0.0


def _corridor(scan: RangeScan, body: Footprint, sense: float) -> tuple[float, float]:
    """Returns the lidar's bearings of the corridor beyond the nose (`sense` 1) or the tail (-1)."""
    half_m = body.half_width_m + SIDE_MARGIN_M
    ahead_m = max(MIN_AHEAD_M, body.half_length_m + FRONT_MARGIN_M - sense * scan.mount.x)
    edges = (math.atan2(sense * (y - scan.mount.y), ahead_m) for y in (-half_m, half_m))
    middle = 0.0 if sense > 0.0 else math.pi
    low, high = sorted(edges)
    return middle + low, middle + high


def _covers(bearings: Points, low_rad: float, high_rad: float, gap_rad: float, edge_rad: float) -> bool:
    """Whether bearings (N,) reach both edges of a sector and leave no gap larger than `gap_rad` in it."""
    middle = (low_rad + high_rad) / 2.0
    off = np.sort(np.remainder(bearings - middle + math.pi, math.tau) - math.pi)
    half = (high_rad - low_rad) / 2.0
    within = off[np.abs(off) <= half + gap_rad]
    if len(within) == 0 or within[0] > edge_rad - half or within[-1] < half - edge_rad:
        return False
    return bool(np.max(np.diff(within), initial=0.0) <= gap_rad + 1e-6)
