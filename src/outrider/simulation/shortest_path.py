# SPDX-License-Identifier: Apache-2.0
"""The shortest path of a robot through a home: Dijkstra on a grid, then straightened."""

from __future__ import annotations

import heapq
import itertools
import math

import numpy as np

from outrider.core.values import Pose2D
from outrider.simulation.homes.floor_plans import Rect
from outrider.simulation.homes.home import Home

CELL_M = 0.1
BODY_M = 0.25
"""The path's distance from walls and things: half the robot's width, and some room."""
REACH_M = 1.0
"""A path ends within this distance of the target, where the robot should stop."""
WIDEST_M = 1.0
"""From the middle of the largest thing to its corner."""

Point = tuple[float, float]
_Cell = tuple[int, int]
_MOVES = [move for move in itertools.product((-1, 0, 1), repeat=2) if move != (0, 0)]


def shortest_path(home: Home, start: Pose2D) -> list[Point]:
    """Returns corners (x, y) of the path until the target is in reach and in sight; empty if none."""
    blocked = _blocked(home)
    cells = _dijkstra(blocked, _cell(start.x, start.y), _goals(home, blocked.shape))
    points = [(start.x, start.y), *((column * CELL_M, row * CELL_M) for column, row in cells[1:])]
    return _straightened(points, blocked) if cells else []


def path_m(points: list[Point]) -> float:
    """Returns the length in metres."""
    return sum(math.dist(before, after) for before, after in itertools.pairwise(points))


def _cell(x: float, y: float) -> _Cell:
    return round(x / CELL_M), round(y / CELL_M)


def _blocked(home: Home) -> np.ndarray:
    """Returns where the robot's centre may not be, bool (columns, rows)."""
    columns, rows = _cell(*home.extent)
    blocked = np.zeros((columns + 1, rows + 1), bool)
    for rect in (*home.walls, *(rect for _, rect in home.furniture)):
        _fill(blocked, rect.grown(BODY_M))
    x, y = np.meshgrid(np.arange(columns + 1) * CELL_M, np.arange(rows + 1) * CELL_M, indexing="ij")
    for thing in home.standing:
        blocked |= np.hypot(x - thing.x, y - thing.y) < thing.radius + BODY_M
    return blocked


def _fill(blocked: np.ndarray, rect: Rect) -> None:
    low = [max(0, math.ceil(edge / CELL_M)) for edge in (rect.x0, rect.y0)]
    high = [math.floor(edge / CELL_M) + 1 for edge in (rect.x1, rect.y1)]
    blocked[low[0] : max(0, high[0]), low[1] : max(0, high[1])] = True


def _goals(home: Home, shape: tuple[int, ...]) -> set[_Cell]:
    target = home.target
    around = round((REACH_M + WIDEST_M) / CELL_M)
    column, row = _cell(target.x, target.y)
    near = itertools.product(
        range(column - around, column + around + 1), range(row - around, row + around + 1)
    )
    return {
        (a, b)
        for a, b in near
        if _is_within((a, b), shape)
        and target.distance_m(a * CELL_M, b * CELL_M) <= REACH_M
        and home.sees_thing(a * CELL_M, b * CELL_M, target)
    }


def _dijkstra(blocked: np.ndarray, start: _Cell, goals: set[_Cell]) -> list[_Cell]:
    """Returns the cells from start to the nearest goal.

    A robot that starts too near to a wall may leave it.
    """
    queue: list[tuple[float, _Cell, _Cell]] = [(0.0, start, start)]
    before: dict[_Cell, _Cell] = {}
    while queue:
        cost, cell, origin = heapq.heappop(queue)
        if cell in before:
            continue
        before[cell] = origin
        if cell in goals:
            return _back(before, cell)
        for step in _MOVES:
            after = cell[0] + step[0], cell[1] + step[1]
            if after in before or not _is_within(after, blocked.shape):
                continue
            if not blocked[after] or blocked[cell]:
                heapq.heappush(queue, (cost + math.hypot(*step), after, cell))
    return []


def _is_within(cell: _Cell, shape: tuple[int, ...]) -> bool:
    return 0 <= cell[0] < shape[0] and 0 <= cell[1] < shape[1]


def _back(before: dict[_Cell, _Cell], cell: _Cell) -> list[_Cell]:
    cells = [cell]
    while before[cells[-1]] != cells[-1]:
        cells.append(before[cells[-1]])
    return cells[::-1]


def _straightened(points: list[Point], blocked: np.ndarray) -> list[Point]:
    """Returns the points without the corners that a straight line can skip."""
    corners, index = [points[0]], 0
    while index < len(points) - 1:
        index = max(
            (far for far in range(index + 1, len(points)) if _is_free(points[index], points[far], blocked)),
            default=index + 1,
        )
        corners.append(points[index])
    return corners


def _is_free(start: Point, end: Point, blocked: np.ndarray) -> bool:
    steps = max(2, math.ceil(2 * math.dist(start, end) / CELL_M))
    line = np.linspace(start, end, steps)
    cells = np.rint(line / CELL_M).astype(int)
    return not blocked[cells[:, 0], cells[:, 1]].any()
