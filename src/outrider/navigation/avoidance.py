"""Which way a body that keeps its heading can slide towards where it was told to go. Pure geometry on a scan.

A base that can step sideways need not turn to get past a chair or through a door it meets off its middle:
it slides along the free direction nearest to straight ahead, and the next look at the camera re-aims it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from outrider.core.values import RangeScan
from outrider.navigation.limits import Footprint

BODY = Footprint()
FRONT_MARGIN_M, SIDE_MARGIN_M = 0.12, 0.09
CANDIDATES_RAD = tuple(
    math.radians(sign * a) for a in range(0, 101, 5) for sign in ((1,) if a == 0 else (1, -1))
)


@dataclass(frozen=True)
class FreeWay:
    """A direction in the body frame (left positive) and how far the body can move along it."""

    direction_rad: float
    free_m: float


def scan_points(scan: RangeScan) -> np.ndarray:
    """The scan's hits as (N, 2) points in the body frame."""
    ranges = np.asarray(scan.ranges)
    angles = scan.angle_min + np.arange(len(ranges)) * scan.angle_step
    hit = np.isfinite(ranges)
    return np.stack([ranges[hit] * np.cos(angles[hit]), ranges[hit] * np.sin(angles[hit])], axis=1)


def free_distance(points: np.ndarray, direction_rad: float) -> float:
    """How far the body, its heading kept, moves along a direction before it touches a point (inf if never).

    A point already within the margins counts with as much of the margin as it leaves.
    """
    if len(points) == 0:
        return math.inf
    half = _half_extents(points)
    step = np.array([math.cos(direction_rad), math.sin(direction_rad)])
    step = np.where(np.abs(step) < 1e-9, 1e-9, step)
    low, high = (points - half) / step, (points + half) / step
    enter, leave = np.minimum(low, high).max(axis=1), np.maximum(low, high).min(axis=1)
    hit = (enter < leave - 1e-9) & (leave > 0.0) & (enter > -1e-6)
    return float(np.maximum(enter[hit], 0.0).min()) if hit.any() else math.inf


def _half_extents(points: np.ndarray) -> np.ndarray:
    """Half sizes (N, 2) of the body with its margins, shrunk where a point is nearer than those."""
    body = np.array([BODY.half_length_m, BODY.half_width_m])
    half = np.tile(body + np.array([FRONT_MARGIN_M, SIDE_MARGIN_M]), (len(points), 1))
    inside = (np.abs(points) < half).all(axis=1)
    outer_axis = np.argmax(np.abs(points) - body, axis=1)
    rows = np.flatnonzero(inside)
    half[rows, outer_axis[rows]] = np.abs(points[rows, outer_axis[rows]])
    return half


def free_way(scan: RangeScan, wanted_m: float, side: float = 0.0) -> FreeWay:
    """The direction nearest to straight ahead that is free for the wanted distance.

    `side` (+1 left, -1 right) keeps to the side a slide has begun on, unless that side is blocked.
    `free_m` is 0 where the body can go nowhere.
    """
    points = scan_points(scan)
    kept = [d for d in CANDIDATES_RAD if d * side >= 0.0]
    for direction in (*kept, *(d for d in CANDIDATES_RAD if d * side < 0.0)):
        if free_distance(points, direction) >= wanted_m:
            return FreeWay(direction, wanted_m)
    return FreeWay(0.0, 0.0)
