# SPDX-License-Identifier: Apache-2.0
"""Free room around a rectangular body in a planar scan. Pure functions, body frame, metres.

Points are float arrays (N, 2): x ahead, y to the left, from the body's middle.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from outrider.core.values import RangeScan, Velocity
from outrider.navigation.limits import Footprint

Points = np.ndarray[Any, Any]

SIDE_MARGIN_M = 0.06
FRONT_MARGIN_M = 0.12
CONTACT_MARGIN_M = 0.04
COMFORT_M = 0.25
MAX_SIDE_STEP_M = 0.40
_FRONT_SHARE = 0.8
_OFFSETS_M = np.round(np.arange(-MAX_SIDE_STEP_M, MAX_SIDE_STEP_M + 0.01, 0.04), 3)
_HORIZONS_S = (0.1, 0.3)
_SCALES = (1.0, 0.5, 0.2)


NEAREST_M = 0.05
"""A smaller range is no measurement."""


def measures(scan: RangeScan) -> bool:
    """Whether any ray measured something: a hit, or infinity (REP 117), which means nothing within reach."""
    return any(range_m > NEAREST_M for range_m in scan.ranges)


def hit_points(scan: RangeScan, reach_m: float = math.inf) -> tuple[Points, Points]:
    """Returns a scan's hits (N, 2) within reach, in the base frame, and the indices (N,) of their rays.

    A range of -inf (too near to measure) counts as `range_min`. Infinite and invalid ranges give no points.
    """
    ranges = np.asarray(scan.ranges, dtype=float)
    ranges = np.where(np.isneginf(ranges), scan.range_min, ranges)
    hits = np.flatnonzero(np.isfinite(ranges) & (ranges > NEAREST_M) & (ranges < reach_m))
    angles = scan.mount.yaw + scan.angle_min + hits * scan.angle_step
    x, y = scan.mount.x + ranges[hits] * np.cos(angles), scan.mount.y + ranges[hits] * np.sin(angles)
    return np.stack([x, y], axis=1), hits


def is_own(points: Points, body: Footprint) -> Points:
    """Returns which points (N,) are the body's own, such as its legs; nose and tail excepted."""
    inside = np.abs(points) < (_FRONT_SHARE * body.half_length_m, body.half_width_m)
    return np.asarray(inside.all(axis=1))


def scan_points(scan: RangeScan, body: Footprint | None = None, reach_m: float = 2.5) -> Points:
    """Returns the obstacles (N, 2) that a scan shows within reach, without the body's own parts."""
    points, _ = hit_points(scan, reach_m)
    return points[~is_own(points, body or Footprint())]


def free_ahead(points: Points, body: Footprint) -> float:
    """Returns how far the body can go straight ahead with its margins; infinite if the way is free."""
    reach = body.half_width_m + SIDE_MARGIN_M
    ahead = (points[:, 0] > body.half_length_m * _FRONT_SHARE) & (np.abs(points[:, 1]) < reach)
    nearest = float(np.min(points[ahead, 0], initial=math.inf))
    return max(0.0, nearest - body.half_length_m - FRONT_MARGIN_M)


def side_room(points: Points, body: Footprint) -> tuple[float, float]:
    """Returns how far the body can shift right (negative) and left, at most MAX_SIDE_STEP_M."""
    beside = np.abs(points[:, 0]) < body.half_length_m + SIDE_MARGIN_M
    y = points[beside, 1]
    edge = body.half_width_m + SIDE_MARGIN_M
    left = float(np.min(y[y > 0.0], initial=math.inf)) - edge
    right = -float(np.max(y[y <= 0.0], initial=-math.inf)) - edge
    return -min(MAX_SIDE_STEP_M, max(0.0, right)), min(MAX_SIDE_STEP_M, max(0.0, left))


def best_side_step(points: Points, body: Footprint, ahead_m: float, window: tuple[float, float]) -> float:
    """Returns the shift (left positive) from which `ahead_m` metres ahead are freest and most comfortable.

    `window` bounds the shift in addition to the room at the sides. A smaller shift wins between equals.
    """
    right, left = side_room(points, body)
    low, high = min(0.0, max(right, window[0])), max(0.0, min(left, window[1]))
    offsets = _OFFSETS_M[np.logical_and(low - 1e-9 < _OFFSETS_M, high + 1e-9 > _OFFSETS_M)]
    return float(offsets[int(np.argmin(_offset_costs(points, body, offsets, ahead_m)))])


def _offset_costs(points: Points, body: Footprint, offsets: Points, ahead_m: float) -> Points:
    """Returns the cost (K,) of going ahead from K offsets: missing metres, then comfort, then the shift."""
    aside = np.abs(points[None, :, 1] - offsets[:, None]) - body.half_width_m
    x = points[:, 0]
    in_way = (x > body.half_length_m * _FRONT_SHARE) & (aside < SIDE_MARGIN_M)
    nearest = np.min(np.where(in_way, x, math.inf), axis=1, initial=math.inf)
    missing = np.clip(ahead_m - (nearest - body.half_length_m - FRONT_MARGIN_M), 0.0, ahead_m)
    near = (x > -body.half_length_m) & (x < body.half_length_m + ahead_m)
    clearance = np.min(np.where(near, aside, math.inf), axis=1, initial=math.inf)
    return 10.0 * missing + 3.0 * np.clip(COMFORT_M - clearance, 0.0, COMFORT_M) + 0.5 * np.abs(offsets)


def gaps(points: Points, body: Footprint) -> Points:
    """Returns the distance (N,) of each point from the body's edge; 0 inside."""
    outside = np.maximum(np.abs(points) - (body.half_length_m, body.half_width_m), 0.0)
    return np.hypot(outside[:, 0], outside[:, 1])


def push_away(points: Points, body: Footprint) -> tuple[float, float]:
    """Returns the direction (x, y), of length 0 to 1, away from points that a turn in place would hit."""
    reach = body.radius_m + CONTACT_MARGIN_M
    distances = np.hypot(points[:, 0], points[:, 1])
    near = distances < reach
    if not near.any():
        return 0.0, 0.0
    weights = (reach - distances[near]) / (reach - body.half_width_m)
    push = -(points[near] / distances[near, None] * weights[:, None]).sum(axis=0) / weights.sum()
    strength = float(np.max(weights))
    return float(push[0]) * strength, float(push[1]) * strength


def safe_velocity(velocity: Velocity, points: Points, body: Footprint) -> Velocity:
    """Returns the velocity, or a part of it that brings the body within the contact margin of no point.

    It tries in this order: all of it scaled down, without the forward part, without the turn, the turn
    alone, and a stop.
    """
    if len(points) == 0:
        return velocity
    now = gaps(points, body)
    candidates = [
        Velocity(velocity.vx * scale, velocity.vy * scale, velocity.wz * scale) for scale in _SCALES
    ]
    candidates += [
        Velocity(0.0, velocity.vy, velocity.wz),
        Velocity(velocity.vx, velocity.vy, 0.0),
        Velocity(0.0, 0.0, velocity.wz),
    ]
    for candidate in candidates:
        if _keeps_clear(candidate, points, body, now):
            return candidate
    return Velocity()


def _keeps_clear(velocity: Velocity, points: Points, body: Footprint, now: Points) -> bool:
    """Whether no point comes within the contact margin, except those inside it that do not come nearer."""
    for horizon_s in _HORIZONS_S:
        yaw = velocity.wz * horizon_s
        shifted = points - (velocity.vx * horizon_s, velocity.vy * horizon_s)
        turn = np.array([[math.cos(yaw), -math.sin(yaw)], [math.sin(yaw), math.cos(yaw)]])
        after = gaps(shifted @ turn, body)
        if np.any((after < CONTACT_MARGIN_M) & (after < now - 1e-6)):
            return False
    return True
