# SPDX-License-Identifier: Apache-2.0
"""Seeded homes: four rooms in a two-by-two plan, doors, furniture along the walls, objects and look-alikes.

Everything is axis-aligned on the floor plane, in metres. The generator never looks at a renderer, so a home
is a pure function of its arguments.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from outrider.core.errors import SimulationError
from outrider.core.sensors.camera import CAMERA_FORWARD_M
from outrider.core.values import Pose2D
from outrider.simulation.vocabulary import COLOURS, KINDS, ObjectSpec

WALL_THICKNESS = 0.12
WALL_HEIGHT = 2.2
PLACEMENTS = ("in_view", "hidden", "other_room")
OBJECT_SIZE = {  # radius, height
    "ball": (0.17, 0.34),
    "bin": (0.18, 0.50),
    "bottle": (0.085, 0.48),
    "box": (0.21, 0.30),
    "chair": (0.28, 0.85),
    "cone": (0.19, 0.46),
    "cup": (0.15, 0.24),
    "lamp": (0.20, 1.15),
    "table": (0.40, 0.44),
    "vase": (0.14, 0.42),
}
FURNITURE_SIZE = {  # along the wall, away from it, height
    "sofa": (1.5, 0.75, 0.65),
    "shelf": (1.0, 0.35, 1.7),
    "bed": (1.7, 1.1, 0.45),
    "cabinet": (0.8, 0.45, 0.85),
}
ATTEMPTS = 400


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

    def overlaps(self, other: Rect) -> bool:
        """Whether the two rectangles share an area."""
        return self.x0 < other.x1 and other.x0 < self.x1 and self.y0 < other.y1 and other.y0 < self.y1

    def cuts(self, ax: float, ay: float, bx: float, by: float) -> bool:
        """Whether the segment a-b passes through (slab test)."""
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
    """An opening between two rooms; `along_x` tells whether the wall it interrupts runs along x."""

    x: float
    y: float
    width: float
    along_x: bool
    rooms: tuple[int, int]


@dataclass(frozen=True)
class Furniture:
    """A piece of furniture: its kind, its place on the floor, and its height in metres."""

    kind: str
    rect: Rect
    height: float


@dataclass(frozen=True)
class HomeObject:
    """A thing to be found: what it is, its place, and its size, in metres and radians."""

    spec: ObjectSpec
    x: float
    y: float
    yaw: float
    radius: float
    height: float
    room: int


@dataclass(frozen=True)
class Home:
    """A furnished home with one target. `looks` seeds colours of walls, floors and light."""

    seed: int
    placement: str
    rooms: tuple[Rect, ...]
    walls: tuple[Rect, ...]
    doors: tuple[Door, ...]
    furniture: tuple[Furniture, ...]
    objects: tuple[HomeObject, ...]
    target_index: int
    start: Pose2D

    @property
    def target(self) -> HomeObject:
        """Returns the object that the robot is to find."""
        return self.objects[self.target_index]

    def room_of(self, x: float, y: float) -> int | None:
        """Returns the index of the room that holds (x, y); None outside all rooms."""
        return next((i for i, room in enumerate(self.rooms) if room.holds(x, y)), None)

    def sees(self, ax: float, ay: float, bx: float, by: float) -> bool:
        """Whether walls and furniture taller than the camera leave a clear line."""
        blockers = [*self.walls, *(f.rect for f in self.furniture if f.height > 0.5)]
        return not any(rect.cuts(ax, ay, bx, by) for rect in blockers)


def generate_home(seed: int, target: ObjectSpec | None = None, placement: str = "in_view") -> Home:
    """A home whose target is in view of the start, hidden in the same room, or in another room.

    Raises SimulationError for an unknown placement.
    """
    if placement not in PLACEMENTS:
        raise SimulationError(f"placement '{placement}' is unknown; use one of {', '.join(PLACEMENTS)}")
    for attempt in range(ATTEMPTS):
        rng = np.random.default_rng([seed, attempt, PLACEMENTS.index(placement)])
        home = _try_home(rng, seed, target, placement)
        if home is not None:
            return home
    raise SimulationError(f"no home fits seed {seed} with placement '{placement}'; use another seed")


def _try_home(rng: np.random.Generator, seed: int, target: ObjectSpec | None, placement: str) -> Home | None:
    spec = target or ObjectSpec(str(rng.choice(KINDS)), str(rng.choice(COLOURS)))
    rooms, splits = _rooms(rng)
    doors = _doors(rng, rooms, splits)
    walls = _walls(rooms, splits, doors)
    furniture = _furniture(rng, rooms, doors)
    start_room = int(rng.integers(4))
    target_room = start_room if placement != "other_room" else int(rng.choice(_others(start_room)))
    objects = _objects(rng, spec, target_room, rooms, doors, furniture)
    if objects is None:
        return None
    bare = Home(seed, placement, rooms, walls, doors, furniture, objects, 0, Pose2D(0, 0, 0))
    start = _start(rng, bare, start_room)
    if start is None:
        return None
    return Home(seed, placement, rooms, walls, doors, furniture, objects, 0, start)


def _others(room: int) -> list[int]:
    return [i for i in range(4) if i != room]


def _rooms(rng: np.random.Generator) -> tuple[tuple[Rect, ...], tuple[float, float, float, float]]:
    west, east, south, north = rng.uniform(4.0, 5.0, size=4)
    rooms = (
        Rect(0, 0, west, south),
        Rect(west, 0, west + east, south),
        Rect(0, south, west, south + north),
        Rect(west, south, west + east, south + north),
    )
    return rooms, (west, west + east, south, south + north)


def _doors(
    rng: np.random.Generator, rooms: Sequence[Rect], splits: tuple[float, float, float, float]
) -> tuple[Door, ...]:
    west, _, south, _ = splits
    pairs = [(0, 1), (2, 3), (0, 2), (1, 3)]
    if rng.random() < 0.5:
        pairs.pop(int(rng.integers(4)))  # any three of the four still join all rooms
    doors = []
    for a, b in pairs:
        along_x = b - a == 2
        room = rooms[a]
        low, high = (room.x0, room.x1) if along_x else (room.y0, room.y1)
        width = float(rng.uniform(1.25, 1.5))
        place = float(rng.uniform(low + 1.3, high - 1.3))
        x, y = (place, south) if along_x else (west, place)
        doors.append(Door(x, y, width, along_x, (a, b)))
    return tuple(doors)


def _walls(
    rooms: Sequence[Rect], splits: tuple[float, float, float, float], doors: Sequence[Door]
) -> tuple[Rect, ...]:
    west, width, south, depth = splits
    half = WALL_THICKNESS / 2
    outer = [
        Rect(-half, -half, width + half, half),
        Rect(-half, depth - half, width + half, depth + half),
        Rect(-half, half, half, depth - half),
        Rect(width - half, half, width + half, depth - half),
    ]
    gaps_y = sorted((d.y - d.width / 2, d.y + d.width / 2) for d in doors if not d.along_x)
    gaps_x = sorted((d.x - d.width / 2, d.x + d.width / 2) for d in doors if d.along_x)
    inner = [Rect(west - half, a, west + half, b) for a, b in _solid_parts(half, depth - half, gaps_y)]
    inner += [Rect(a, south - half, b, south + half) for a, b in _solid_parts(half, width - half, gaps_x)]
    return tuple(outer + inner)


def _solid_parts(low: float, high: float, gaps: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    parts, cursor = [], low
    for a, b in gaps:
        parts.append((cursor, a))
        cursor = b
    parts.append((cursor, high))
    return parts


def _furniture(
    rng: np.random.Generator, rooms: Sequence[Rect], doors: Sequence[Door]
) -> tuple[Furniture, ...]:
    placed: list[Furniture] = []
    for room in rooms:
        for kind in rng.permutation(list(FURNITURE_SIZE))[: int(rng.integers(1, 3))]:
            rect = _against_wall(rng, room, FURNITURE_SIZE[kind])
            clear = all(not rect.grown(1.15).holds(d.x, d.y) for d in doors)
            if clear and not any(rect.grown(0.7).overlaps(f.rect) for f in placed):
                placed.append(Furniture(str(kind), rect, FURNITURE_SIZE[kind][2]))
    return tuple(placed)


def _against_wall(rng: np.random.Generator, room: Rect, size: tuple[float, float, float]) -> Rect:
    along, away, _ = size
    gap = WALL_THICKNESS / 2 + 0.01
    side = int(rng.integers(4))
    if side < 2:
        x = float(rng.uniform(room.x0 + gap, room.x1 - gap - along))
        y = room.y0 + gap if side == 0 else room.y1 - gap - away
        return Rect(x, y, x + along, y + away)
    y = float(rng.uniform(room.y0 + gap, room.y1 - gap - along))
    x = room.x0 + gap if side == 2 else room.x1 - gap - away
    return Rect(x, y, x + away, y + along)


def _objects(
    rng: np.random.Generator,
    target: ObjectSpec,
    target_room: int,
    rooms: Sequence[Rect],
    doors: Sequence[Door],
    furniture: Sequence[Furniture],
) -> tuple[HomeObject, ...] | None:
    plan = [(target, target_room)]
    for number, spec in enumerate(_distractors(rng, target, int(rng.integers(5, 9)))):
        plan.append((spec, target_room if number == 0 else int(rng.integers(4))))
    placed: list[HomeObject] = []
    for spec, room_index in plan:
        spot = _free_spot(rng, spec, rooms[room_index], doors, furniture, placed)
        if spot is not None:
            radius, height = OBJECT_SIZE[spec.kind]
            yaw = float(rng.uniform(-math.pi, math.pi))
            placed.append(HomeObject(spec, *spot, yaw, radius, height, room_index))
        elif spec == target:
            return None
    return tuple(placed) if len(placed) >= 5 else None


def _distractors(rng: np.random.Generator, target: ObjectSpec, number: int) -> list[ObjectSpec]:
    """Look-alikes first (the colour in another kind, the kind in other colours), then anything else."""
    kinds = [k for k in rng.permutation(KINDS) if k != target.kind]
    colours = [c for c in rng.permutation(COLOURS) if c != target.colour]
    alike = [ObjectSpec(target.kind, str(colours[0])), ObjectSpec(str(kinds[0]), target.colour)]
    rng.shuffle(alike)
    chosen = alike
    while len(chosen) < number:
        spec = ObjectSpec(str(rng.choice(KINDS)), str(rng.choice(COLOURS)))
        if spec != target and spec not in chosen:
            chosen.append(spec)
    return chosen


def _free_spot(
    rng: np.random.Generator,
    spec: ObjectSpec,
    room: Rect,
    doors: Sequence[Door],
    furniture: Sequence[Furniture],
    placed: Sequence[HomeObject],
) -> tuple[float, float] | None:
    radius = OBJECT_SIZE[spec.kind][0]
    inset = radius + 0.25
    for _ in range(40):
        x = float(rng.uniform(room.x0 + inset, room.x1 - inset))
        y = float(rng.uniform(room.y0 + inset, room.y1 - inset))
        if any(f.rect.grown(radius + 0.55).holds(x, y) for f in furniture):
            continue
        if any(math.hypot(x - d.x, y - d.y) < 1.35 + radius for d in doors):
            continue
        if any(math.hypot(x - o.x, y - o.y) < radius + o.radius + 0.85 for o in placed):
            continue
        return x, y
    return None


def _start(rng: np.random.Generator, home: Home, room_index: int) -> Pose2D | None:
    room, target = home.rooms[room_index], home.target
    for _ in range(60):
        x, y = (
            float(rng.uniform(room.x0 + 0.7, room.x1 - 0.7)),
            float(rng.uniform(room.y0 + 0.7, room.y1 - 0.7)),
        )
        pose = Pose2D(x, y, float(rng.uniform(-math.pi, math.pi)))
        if any(f.rect.grown(0.55).holds(x, y) for f in home.furniture):
            continue
        if any(pose.distance_to(o.x, o.y) < o.radius + 0.75 for o in home.objects):
            continue
        if pose.distance_to(target.x, target.y) < 1.5:
            continue
        in_view = in_camera_view(home, pose, target.x, target.y)
        clear = home.sees(x, y, target.x, target.y)
        if home.placement == "in_view" and in_view:
            return pose
        if (
            home.placement == "hidden"
            and clear
            and abs(pose.bearing_to(target.x, target.y)) > math.radians(50)
        ):
            return pose
        if home.placement == "other_room" and not in_view:
            return pose
    return None


def in_camera_view(
    home: Home, pose: Pose2D, x: float, y: float, half_view_rad: float = math.radians(32)
) -> bool:
    """Whether a point on the floor lies in front of the camera with a clear line to it."""
    camera_x = pose.x + CAMERA_FORWARD_M * math.cos(pose.yaw)
    camera_y = pose.y + CAMERA_FORWARD_M * math.sin(pose.yaw)
    camera = Pose2D(camera_x, camera_y, pose.yaw)
    return abs(camera.bearing_to(x, y)) <= half_view_rad and home.sees(camera_x, camera_y, x, y)
