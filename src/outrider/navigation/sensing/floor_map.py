# SPDX-License-Identifier: Apache-2.0
"""Maps the free floor from scans and odometry, and plans paths over it.

It is for places that are known already; the models search for others. Cells never seen count as free but
expensive. So a path is always tried, and a wall that appears on it is bypassed (the freespace assumption of
Koenig and Likhachev, "D* Lite", AAAI 2002; here A* simply runs again on a small grid).
"""

from __future__ import annotations

import heapq
import math
import threading
from collections.abc import Callable, Sequence
from typing import Any

import cv2
import numpy as np

from outrider.core.values import Pose2D, RangeScan
from outrider.navigation.sensing.clearance import NEAREST_M

CELL_M = 0.1
HALF_EXTENT_M = 16.0
MAX_RANGE_M = 6.0
MAX_EVIDENCE = 6
BODY_RADIUS_M = 0.30
COMFORT_M = 0.55
CROWDED_COST, UNKNOWN_COST = 3.0, 1.0
SIGHT_M = 4.0
"""How far away the camera's picture still shows what a thing is."""
OUT_OF_SIGHT_M = (0.8, 0.3)
"""How far a place must be beyond what was in sight.

The second value applies if none is as far as the first.
"""
# The most that a base driven by texts moves from scan to scan.
FASTEST_MPS, FASTEST_RPS, SLACK_M, SLACK_RAD = 0.8, 1.2, 0.25, math.radians(15.0)
_CELLS = round(2 * HALF_EXTENT_M / CELL_M)
_STEPS_M = np.arange(0.0, MAX_RANGE_M, CELL_M * 0.7)
_MOVES = tuple((dx, dy, math.hypot(dx, dy)) for dx in (-1, 0, 1) for dy in (-1, 0, 1) if dx or dy)
Point = tuple[float, float]
Cell = tuple[int, int]


class FloorMap:
    """A square map of 32 m around the first pose, in odometry's frame. Thread-safe.

    Evidence per cell: positive is occupied, negative is free, zero is unknown.
    """

    def __init__(self) -> None:
        self._evidence = np.zeros((_CELLS, _CELLS), dtype=np.int8)
        self._origin: Point | None = None
        self._lock = threading.Lock()
        self._last: tuple[Pose2D, float] | None = None
        self.num_breaks = 0
        """How often odometry has jumped. Places known before a jump are not places of this map."""

    def see(self, pose: Pose2D, scan: RangeScan) -> None:
        """Add a scan made at a pose of the base. A range of -inf is too near (REP 117), not free.

        If the robot cannot have come from the last pose, the map starts again.
        """
        self._begin_anew_after_a_break(pose, scan.stamp_s)
        ranges, lidar = np.asarray(scan.ranges, dtype=float), pose.compose(scan.mount)
        angles = lidar.yaw + scan.angle_min + np.arange(len(ranges)) * scan.angle_step
        rays = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        here = np.array([lidar.x, lidar.y])
        is_measured = ranges > NEAREST_M
        hit = is_measured & (ranges < MAX_RANGE_M)
        reach = np.where(is_measured, np.minimum(ranges - CELL_M, MAX_RANGE_M), 0.0)
        ray, step = np.nonzero(_STEPS_M[None, :] < reach[:, None])
        with self._lock:
            self._origin = self._origin or (pose.x - HALF_EXTENT_M, pose.y - HALF_EXTENT_M)
            seen = np.zeros_like(self._evidence)
            self._mark(seen, here + rays[ray] * _STEPS_M[step, None], -1)
            self._mark(seen, here + rays[hit] * ranges[hit, None], 2)
            self._evidence = np.clip(self._evidence + seen, -MAX_EVIDENCE, MAX_EVIDENCE)

    def _begin_anew_after_a_break(self, pose: Pose2D, stamp_s: float) -> None:
        last, self._last = self._last, (pose, stamp_s)
        if last is None:
            return
        before, before_s = last
        elapsed_s = max(0.0, stamp_s - before_s)
        if before.is_beyond(pose, FASTEST_MPS * elapsed_s + SLACK_M, FASTEST_RPS * elapsed_s + SLACK_RAD):
            with self._lock:
                self._evidence[:], self._origin = 0, None
                self.num_breaks += 1

    def way(self, start: Pose2D, goal: Point, reach_m: float) -> list[Point] | None:
        """Returns the cheapest path, without `start`, to within `reach_m` of a goal; None if blocked.

        It ends where a straight line leads on to the goal.
        """
        with self._lock:
            evidence, origin = self._evidence.copy(), self._origin
        if origin is None:
            return [goal]
        first, last = _cell(origin, (start.x, start.y)), _cell(origin, goal)
        if not (_inside(first) and _inside(last)):
            return None
        costs = _costs(evidence, first)
        occupied, reach = evidence > 0, reach_m / CELL_M

        def is_reached(cell: Cell) -> bool:
            return math.dist(cell, last) <= reach and _sees(occupied, cell, last)

        cells = _search(costs, first, is_reached, lambda cell: max(0.0, math.dist(cell, last) - reach))
        return None if cells is None else [_point(origin, cell) for cell in cells]

    def point_out_of_sight(self, start: Pose2D, looked_from: Sequence[Point]) -> Point | None:
        """Returns the place with the shortest path on known floor that no `looked_from` point sees.

        The robot has looked all around from each of these points. None if all known floor was in sight.
        """
        with self._lock:
            evidence, origin = self._evidence.copy(), self._origin
        if origin is None:
            return None
        occupied, in_sight = evidence > 0, np.zeros(evidence.shape, dtype=bool)
        for cell in (_cell(origin, point) for point in looked_from):
            if _inside(cell):
                in_sight |= _in_sight(occupied, cell)
        beyond_m = cv2.distanceTransform((~in_sight).astype(np.uint8), cv2.DIST_L2, 3) * CELL_M
        first = _cell(origin, (start.x, start.y))
        known = _closed(evidence < 0) & ~occupied  # the rays leave gaps at a distance
        costs = np.where(known, _costs(evidence, first), np.inf)
        for least_m in OUT_OF_SIGHT_M:
            unseen = np.isfinite(costs) & (beyond_m >= least_m)
            cells = _search(costs, first, unseen.item, lambda _: 0.0) if unseen.any() else None
            if cells is not None:
                return _point(origin, cells[-1])
        return None

    def evidence_at(self, point: Point) -> int:
        """Returns the evidence of a point's cell; 0 outside the map."""
        with self._lock:
            if self._origin is None or not all(map(math.isfinite, point)):
                return 0
            cell = _cell(self._origin, point)
            return int(self._evidence[cell]) if _inside(cell) else 0

    def is_clear(self, start: Point, end: Point) -> bool:
        """Whether the body can go straight from one point to another, as far as the map shows.

        It is true for unseen floor, so a moving robot must check the scan too.
        """
        with self._lock:
            evidence, origin = self._evidence.copy(), self._origin
        if origin is None:
            return True
        first, last = _cell(origin, start), _cell(origin, end)
        blocked = np.isinf(_costs(evidence, first))
        return not any(_inside(cell) and blocked[cell] for cell in _line(first, last))

    def _mark(self, cells: np.ndarray[Any, Any], points: np.ndarray[Any, Any], value: int) -> None:
        assert self._origin is not None
        index = np.floor((points - np.array(self._origin)) / CELL_M).astype(int)
        index = index[((index >= 0) & (index < _CELLS)).all(axis=1)]
        cells[index[:, 0], index[:, 1]] = value


def _costs(evidence: np.ndarray[Any, Any], start: Cell) -> np.ndarray[Any, Any]:
    """Returns the cost of crossing each cell: 1 if free and roomy, infinite if the body does not fit."""
    free = (evidence <= 0).astype(np.uint8)
    room_m = cv2.distanceTransform(free, cv2.DIST_L2, 3) * CELL_M
    costs = 1.0 + UNKNOWN_COST * (evidence == 0) + CROWDED_COST * np.clip(1.0 - room_m / COMFORT_M, 0.0, 1.0)
    costs[room_m < BODY_RADIUS_M] = np.inf
    # The robot fits at its own position, whatever the scan shows there.
    x, y = start
    nook = costs[max(0, x - 2) : x + 3, max(0, y - 2) : y + 3]
    nook[np.isinf(nook)] = 1.0 + CROWDED_COST
    return costs


def _search(
    costs: np.ndarray[Any, Any],
    start: Cell,
    is_reached: Callable[[Cell], bool],
    least_rest: Callable[[Cell], float],
) -> list[Cell] | None:
    """Returns the cheapest path by A* to a cell for which `is_reached` is true.

    `least_rest` is the heuristic: it must never exceed the true cost from a cell.
    """
    queue: list[tuple[float, float, Cell]] = [(0.0, 0.0, start)]
    best: dict[Cell, float] = {start: 0.0}
    parents: dict[Cell, Cell] = {}
    while queue:
        _, so_far, cell = heapq.heappop(queue)
        if so_far > best[cell]:
            continue
        if is_reached(cell):
            return _trace(parents, cell)
        for dx, dy, length in _MOVES:
            there = (cell[0] + dx, cell[1] + dy)
            cost = so_far + length * float(costs[there]) if _inside(there) else math.inf
            if cost < best.get(there, math.inf):
                best[there], parents[there] = cost, cell
                heapq.heappush(queue, (cost + least_rest(there), cost, there))
    return None


def _in_sight(occupied: np.ndarray[Any, Any], cell: Cell) -> np.ndarray[Any, Any]:
    """Returns the cells that a straight line of at most `SIGHT_M` joins with this one."""
    angles = np.linspace(0.0, 2.0 * math.pi, 720, endpoint=False)
    steps = np.arange(0.0, SIGHT_M / CELL_M, 0.7)
    rays = np.stack([np.cos(angles), np.sin(angles)])[:, :, None] * steps
    x, y = np.clip(np.floor(np.array(cell)[:, None, None] + 0.5 + rays).astype(int), 0, _CELLS - 1)
    is_free = ~np.logical_or.accumulate(occupied[x, y], axis=1)
    in_sight = np.zeros(occupied.shape, dtype=bool)
    in_sight[x[is_free], y[is_free]] = True
    return _closed(in_sight)


def _closed(cells: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Returns the cells with gaps of one or two cells closed."""
    closed = cv2.morphologyEx(cells.astype(np.uint8), cv2.MORPH_CLOSE, np.ones((3, 3), np.uint8))
    return np.asarray(closed, dtype=bool)


def _trace(parents: dict[Cell, Cell], end: Cell) -> list[Cell]:
    cells = [end]
    while cells[-1] in parents:
        cells.append(parents[cells[-1]])
    return cells[-2::-1] or [end]


def _sees(occupied: np.ndarray[Any, Any], cell: Cell, goal: Cell) -> bool:
    """Whether the line is free.

    Obstacles within 0.5 m of the goal do not count: they are the goal or hold it.
    """
    return not any(occupied[c] and math.dist(c, goal) > 0.5 / CELL_M for c in _line(cell, goal))


def _line(start: Cell, end: Cell) -> list[Cell]:
    number = max(abs(end[0] - start[0]), abs(end[1] - start[1]), 1)
    return [
        (
            round(start[0] + (end[0] - start[0]) * i / number),
            round(start[1] + (end[1] - start[1]) * i / number),
        )
        for i in range(number + 1)
    ]


def _cell(origin: Point, point: Point) -> Cell:
    return math.floor((point[0] - origin[0]) / CELL_M), math.floor((point[1] - origin[1]) / CELL_M)


def _point(origin: Point, cell: Cell) -> Point:
    return origin[0] + (cell[0] + 0.5) * CELL_M, origin[1] + (cell[1] + 0.5) * CELL_M


def _inside(cell: Cell) -> bool:
    return 0 <= cell[0] < _CELLS and 0 <= cell[1] < _CELLS
