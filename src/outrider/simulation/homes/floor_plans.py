# SPDX-License-Identifier: Apache-2.0
"""Floor plans: one to eight rooms in rows, with or without a corridor, walls between them, and doors.

Everything is axis-aligned on the floor plane, in metres, from (0, 0) up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations, pairwise

import numpy as np

WALL_THICKNESS = 0.12
DOOR_WIDTHS_M = (1.15, 1.5)
DOOR_MARGIN_M = 0.75
"""From a door's edge to the end of its wall."""
SECOND_WAY_SHARE = 0.5
"""The share of walls between rooms already joined that get a door too."""
CORRIDOR_M = (1.6, 2.1)
ROOM_M = (3.6, 5.0)
_SHAPES: tuple[tuple[tuple[int, ...], float], ...] = (
    ((2, 2), 0.44),
    ((1,), 0.05),
    ((2,), 0.07),
    ((3,), 0.05),
    ((3, 2), 0.06),
    ((3, 3), 0.03),
    ((4, 4), 0.03),
    ((1, 0, 2), 0.07),
    ((2, 0, 2), 0.1),
    ((2, 0, 3), 0.05),
    ((3, 0, 3), 0.05),
)
"""The number of rooms in each row from south to north (0 is a corridor), and the share of such homes."""


@dataclass(frozen=True)
class Rect:
    """An axis-aligned rectangle on the floor."""

    x0: float
    y0: float
    x1: float
    y1: float

    @property
    def centre(self) -> tuple[float, float]:
        """Returns the centre (x, y) in metres."""
        return (self.x0 + self.x1) / 2, (self.y0 + self.y1) / 2

    def grown(self, margin: float) -> Rect:
        """Returns the rectangle extended by `margin` metres on every side."""
        return Rect(self.x0 - margin, self.y0 - margin, self.x1 + margin, self.y1 + margin)

    def holds(self, x: float, y: float) -> bool:
        """Whether the point (x, y) lies inside or on the edge."""
        return self.x0 <= x <= self.x1 and self.y0 <= y <= self.y1

    def nearest(self, x: float, y: float) -> tuple[float, float]:
        """Returns the point of the rectangle that is nearest to (x, y)."""
        return min(max(x, self.x0), self.x1), min(max(y, self.y0), self.y1)

    def overlaps(self, other: Rect) -> bool:
        """Whether the two rectangles share an area."""
        return self.x0 < other.x1 and other.x0 < self.x1 and self.y0 < other.y1 and other.y0 < self.y1

    def cuts(self, ax: float, ay: float, bx: float, by: float) -> bool:
        """Whether the segment a-b passes through it (slab test)."""
        low, high = 0.0, 1.0
        for start, delta, lo, hi in ((ax, bx - ax, self.x0, self.x1), (ay, by - ay, self.y0, self.y1)):
            if abs(delta) < 1e-12:
                if not lo <= start <= hi:
                    return False
                continue
            near, far = sorted(((lo - start) / delta, (hi - start) / delta))
            low, high = max(low, near), min(high, far)
            if low > high:
                return False
        return True


@dataclass(frozen=True)
class Door:
    """An opening between two rooms. `along_x`: its wall runs along x."""

    x: float
    y: float
    width: float
    along_x: bool
    rooms: tuple[int, int]


@dataclass(frozen=True)
class FloorPlan:
    """Rooms that tile a rectangle, the walls around them, and doors that connect them all."""

    rooms: tuple[Rect, ...]
    walls: tuple[Rect, ...]
    doors: tuple[Door, ...]


@dataclass(frozen=True)
class _Shared:
    """The wall between two rooms: at `position`, from `low` to `high` along the other axis."""

    rooms: tuple[int, int]
    along_x: bool
    position: float
    low: float
    high: float

    def rect(self, low: float, high: float) -> Rect:
        """Returns the wall over a part of it."""
        half = WALL_THICKNESS / 2
        if self.along_x:
            return Rect(low, self.position - half, high, self.position + half)
        return Rect(self.position - half, low, self.position + half, high)


def draw_plan(rng: np.random.Generator) -> FloorPlan | None:
    """Returns a floor plan; None if some of its rooms cannot be connected."""
    rooms = _tiles(rng)
    shared = [found for a, b in combinations(range(len(rooms)), 2) if (found := _between(rooms, a, b))]
    doors = _doors(rng, len(rooms), shared)
    if doors is None:
        return None
    walls = _outer_walls(rooms)
    for stretch in shared:
        walls += [stretch.rect(low, high) for low, high in _solid_parts(stretch, doors)]
    return FloorPlan(rooms, tuple(walls), doors)


def _tiles(rng: np.random.Generator) -> tuple[Rect, ...]:
    rows = _SHAPES[int(rng.choice(len(_SHAPES), p=[share for _, share in _SHAPES]))][0]
    width = float(rng.uniform(*ROOM_M)) * max(rows)
    depths = [float(rng.uniform(*(ROOM_M if count else CORRIDOR_M))) for count in rows]
    tiles: list[Rect] = []
    for count, (south, north) in zip(rows, pairwise(accumulate(depths, initial=0.0)), strict=True):
        shares = rng.uniform(0.85, 1.15, max(count, 1))
        edges = accumulate(width * shares / shares.sum(), initial=0.0)
        tiles += [Rect(float(west), south, float(east), north) for west, east in pairwise(edges)]
    return tuple(tiles)


def _between(rooms: Sequence[Rect], a: int, b: int) -> _Shared | None:
    first, second = rooms[a], rooms[b]
    low, high = max(first.x0, second.x0), min(first.x1, second.x1)
    if abs(first.y1 - second.y0) < 1e-9 and high - low > 1e-9:
        return _Shared((a, b), True, first.y1, low, high)
    low, high = max(first.y0, second.y0), min(first.y1, second.y1)
    if abs(first.x1 - second.x0) < 1e-9 and high - low > 1e-9:
        return _Shared((a, b), False, first.x1, low, high)
    return None


def _doors(rng: np.random.Generator, num_rooms: int, shared: Sequence[_Shared]) -> tuple[Door, ...] | None:
    """Returns a door wherever it connects separate rooms, and in some other walls; None if any stay apart."""
    group = list(range(num_rooms))
    doors = []
    for index in rng.permutation(len(shared)):
        stretch = shared[index]
        a, b = stretch.rooms
        width = float(rng.uniform(*DOOR_WIDTHS_M))
        slack = stretch.high - stretch.low - width - 2 * DOOR_MARGIN_M
        joined = group[a] == group[b]
        if slack < 0 or (joined and rng.random() >= SECOND_WAY_SHARE):
            continue
        group = [group[a] if number == group[b] else number for number in group]
        along = stretch.low + DOOR_MARGIN_M + width / 2 + float(rng.uniform(0.0, slack))
        x, y = (along, stretch.position) if stretch.along_x else (stretch.position, along)
        doors.append(Door(x, y, width, stretch.along_x, stretch.rooms))
    return tuple(doors) if len(set(group)) == 1 else None


def _solid_parts(stretch: _Shared, doors: Sequence[Door]) -> list[tuple[float, float]]:
    """Returns the solid parts of a wall: all of it but its door."""
    door = next((door for door in doors if door.rooms == stretch.rooms), None)
    if door is None:
        return [(stretch.low, stretch.high)]
    middle = door.x if stretch.along_x else door.y
    return [(stretch.low, middle - door.width / 2), (middle + door.width / 2, stretch.high)]


def _outer_walls(rooms: Sequence[Rect]) -> list[Rect]:
    half = WALL_THICKNESS / 2
    width, depth = max(room.x1 for room in rooms), max(room.y1 for room in rooms)
    return [
        Rect(-half, -half, width + half, half),
        Rect(-half, depth - half, width + half, depth + half),
        Rect(-half, half, half, depth - half),
        Rect(width - half, half, width + half, depth - half),
    ]
