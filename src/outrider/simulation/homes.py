# SPDX-License-Identifier: Apache-2.0
"""Seeded homes: a floor plan, furniture along the walls, things on the floor, and look-alikes among them.

Everything is axis-aligned on the floor plane, in metres. The generator never looks at a renderer, so a home
is a pure function of its arguments.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from outrider.core.errors import SimulationError
from outrider.core.language.things import SIDES, SIZES
from outrider.core.sensors.camera import CAMERA_FORWARD_M
from outrider.core.values import Pose2D
from outrider.simulation.floor_plans import WALL_THICKNESS, Door, Rect, draw_plan
from outrider.simulation.vocabulary import (
    COLOURS,
    DOOR_KIND,
    FURNITURE_KINDS,
    SCALES,
    STANDING_KINDS,
    ObjectSpec,
    Wanted,
)

WALL_HEIGHT = 2.2
PLACEMENTS = ("in_view", "hidden", "other_room")
OBJECT_SIZE = {  # radius, height
    "ball": (0.17, 0.34),
    "bench": (0.45, 0.45),
    "bin": (0.18, 0.50),
    "bottle": (0.085, 0.48),
    "box": (0.21, 0.30),
    "bucket": (0.17, 0.42),
    "chair": (0.28, 0.85),
    "cone": (0.19, 0.46),
    "cup": (0.15, 0.24),
    "ladder": (0.26, 1.50),
    "lamp": (0.20, 1.15),
    "person": (0.24, 1.70),
    "plant": (0.24, 0.95),
    "screen": (0.36, 1.00),
    "stool": (0.19, 0.52),
    "suitcase": (0.25, 0.68),
    "table": (0.40, 0.44),
    "teddy": (0.22, 0.62),
    "vase": (0.14, 0.42),
}
FURNITURE_SIZE = {  # along the wall, away from it, height
    "bed": (1.7, 1.1, 0.45),
    "cabinet": (0.8, 0.45, 0.85),
    "fridge": (0.65, 0.6, 1.60),
    "shelf": (1.0, 0.35, 1.7),
    "sofa": (1.5, 0.75, 0.65),
}
COLOURED_FURNITURE = {"bed": 0.6, "sofa": 0.6, "fridge": 0.5, "cabinet": 0.3, "shelf": 0.2}
"""The share of each that has one of the COLOURS."""
BESIDE_M = 0.25
"""How far a piece of furniture counts as beyond its edge: one stands before it as before something small."""
PAIR_SHARE = 0.25
"""Of the homes: with two things alike but for their size."""
CLUTTERED_SHARE = 0.25
CORRIDOR_BELOW_M = 2.5
ATTEMPTS, TRIES_FOR_TARGET = 400, 8


@dataclass(frozen=True)
class Furniture:
    """A piece of furniture: what it is, its place on the floor, and its height in metres."""

    spec: ObjectSpec
    rect: Rect
    height: float

    @property
    def kind(self) -> str:
        """Returns its kind."""
        return self.spec.kind


@dataclass(frozen=True)
class HomeObject:
    """A thing to be found: what it is, its place, and its size, in metres and radians.

    `rect` is the outline of a piece of furniture, None of what stands free.
    """

    spec: ObjectSpec
    x: float
    y: float
    yaw: float
    radius: float
    height: float
    room: int
    rect: Rect | None = None

    def distance_m(self, x: float, y: float) -> float:
        """From (x, y) to its middle; of furniture to its edge and BESIDE_M further."""
        if self.rect is None:
            return math.hypot(self.x - x, self.y - y)
        near_x, near_y = self.rect.nearest(x, y)
        return math.hypot(near_x - x, near_y - y) + BESIDE_M


@dataclass(frozen=True)
class Home:
    """A furnished home with one target. `seed` also draws colours of walls, floors and light.

    `objects` are the things that stand free and then the furniture, whose outlines are `furniture`'s.
    """

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

    @property
    def extent(self) -> tuple[float, float]:
        """Returns width and depth in metres."""
        return max(room.x1 for room in self.rooms), max(room.y1 for room in self.rooms)

    @property
    def standing(self) -> tuple[HomeObject, ...]:
        """Returns what stands free on the floor."""
        return tuple(thing for thing in self.objects if thing.rect is None)

    def room_of(self, x: float, y: float) -> int | None:
        """Returns the index of the room that holds (x, y); None outside all rooms."""
        return next((i for i, room in enumerate(self.rooms) if room.holds(x, y)), None)

    def sees(self, ax: float, ay: float, bx: float, by: float) -> bool:
        """Whether walls and furniture taller than the camera leave a clear line."""
        blockers = [*self.walls, *(f.rect for f in self.furniture if f.height > 0.5)]
        return not any(rect.cuts(ax, ay, bx, by) for rect in blockers)

    def sees_thing(self, x: float, y: float, thing: HomeObject) -> bool:
        """Whether there is a clear line from (x, y) to a thing; its own outline does not hide it."""
        blockers = [*self.walls, *(f.rect for f in self.furniture if f.height > 0.5 and f.rect != thing.rect)]
        return not any(rect.cuts(x, y, thing.x, thing.y) for rect in blockers)


def generate_home(seed: int, target: ObjectSpec | None = None, placement: str = "in_view") -> Home:
    """A home whose target is in view of the start, hidden in the same room, or in another room.

    Raises SimulationError for an unknown placement, or for a target that no home holds.
    """
    if placement not in PLACEMENTS:
        raise SimulationError(f"placement '{placement}' is unknown; use one of {', '.join(PLACEMENTS)}")
    if target is not None and target.kind == DOOR_KIND:
        raise SimulationError("a door is part of every home; give another target")
    for attempt in range(ATTEMPTS):
        rng = np.random.default_rng([seed, attempt, PLACEMENTS.index(placement)])
        home = _try_home(rng, seed, target, placement)
        if home is not None:
            return home
    raise SimulationError(f"no home fits seed {seed} with placement '{placement}'; use another seed")


def _try_home(rng: np.random.Generator, seed: int, target: ObjectSpec | None, placement: str) -> Home | None:
    plan = draw_plan(rng)
    if plan is None or (placement == "other_room" and len(plan.rooms) == 1):
        return None
    spec = _with_colour(rng, target) if target else _draw_target(rng)
    rooms, doors = plan.rooms, plan.doors
    start_room = int(rng.integers(len(rooms)))
    others = [room for room in range(len(rooms)) if room != start_room]
    target_room = start_room if placement != "other_room" else int(rng.choice(others))
    furniture = _furniture(rng, rooms, doors, spec, target_room)
    standing = _objects(rng, spec, target_room, rooms, doors, furniture)
    if standing is None:
        return None
    objects = (*standing, *(_as_object(piece, rooms) for piece in furniture))
    index = next((i for i, o in enumerate(objects) if o.spec == spec and o.room == target_room), None)
    if index is None:
        return None
    bare = Home(seed, placement, rooms, plan.walls, doors, furniture, objects, index, Pose2D(0, 0, 0))
    start = _start(rng, bare, start_room)
    return None if start is None else replace(bare, start=start)


def _draw_target(rng: np.random.Generator) -> ObjectSpec:
    if rng.random() < len(FURNITURE_KINDS) / (len(FURNITURE_KINDS) + len(STANDING_KINDS)):
        return _furniture_spec(rng, str(rng.choice(FURNITURE_KINDS)))
    return ObjectSpec(str(rng.choice(STANDING_KINDS)), str(rng.choice(COLOURS)))


def _with_colour(rng: np.random.Generator, spec: ObjectSpec) -> ObjectSpec:
    """What stands free has a colour, whether or not it is asked for by one."""
    is_bare = spec.kind in STANDING_KINDS and not spec.colour
    return replace(spec, colour=str(rng.choice(COLOURS))) if is_bare else spec


def _furniture_spec(rng: np.random.Generator, kind: str) -> ObjectSpec:
    coloured = rng.random() < COLOURED_FURNITURE[kind]
    return ObjectSpec(kind, str(rng.choice(COLOURS)) if coloured else "")


def _as_object(piece: Furniture, rooms: Sequence[Rect]) -> HomeObject:
    x, y = piece.rect.centre
    room = next(i for i, one in enumerate(rooms) if one.holds(x, y))
    width, depth = piece.rect.x1 - piece.rect.x0, piece.rect.y1 - piece.rect.y0
    return HomeObject(piece.spec, x, y, 0.0, min(width, depth) / 2, piece.height, room, piece.rect)


def _furniture(
    rng: np.random.Generator,
    rooms: Sequence[Rect],
    doors: Sequence[Door],
    target: ObjectSpec,
    target_room: int,
) -> tuple[Furniture, ...]:
    """One or two pieces a room; a target that is furniture is one of its room's, and there only once."""
    placed: list[Furniture] = []
    if target.kind in FURNITURE_KINDS:
        for _ in range(TRIES_FOR_TARGET):
            _place_piece(rng, placed, rooms[target_room], doors, target)
    for room in rooms:
        for kind in rng.permutation(FURNITURE_KINDS)[: int(rng.integers(1, 3))]:
            _place_piece(rng, placed, room, doors, _furniture_spec(rng, str(kind)))
    return tuple(placed)


def is_corridor(room: Rect) -> bool:
    """Whether a room is too narrow for anything to stand in it."""
    return min(room.x1 - room.x0, room.y1 - room.y0) < CORRIDOR_BELOW_M


def _place_piece(
    rng: np.random.Generator, placed: list[Furniture], room: Rect, doors: Sequence[Door], spec: ObjectSpec
) -> None:
    size = FURNITURE_SIZE[spec.kind]
    if is_corridor(room) or any(one.spec == spec for one in placed):
        return
    rect = _against_wall(rng, room, size)
    clear = all(not rect.grown(1.15).holds(d.x, d.y) for d in doors)
    if clear and not any(rect.grown(0.7).overlaps(f.rect) for f in placed):
        placed.append(Furniture(spec, rect, size[2]))


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
    """What stands free, the target first; None where that finds no place."""
    number = int(rng.integers(3, 6)) + len(rooms)
    if rng.random() < CLUTTERED_SHARE:
        number += int(rng.integers(3, 6)) + len(rooms)
    wanted = [target] if target.kind in STANDING_KINDS else []
    others = _distractors(rng, target, number)
    plan = [(target, target_room)] * len(wanted)
    plan += [
        (spec, target_room if i == 0 else int(rng.integers(len(rooms)))) for i, spec in enumerate(others)
    ]
    if target.size:
        plan.append((replace(target, size=_other_size(target.size)), target_room))
    elif rng.random() < PAIR_SHARE:
        plan += _size_pair(rng, [spec for spec, _ in plan], int(rng.integers(len(rooms))))
    placed: list[HomeObject] = []
    for spec, room in plan:
        spot = _free_spot(rng, spec, rooms[room], doors, furniture, placed)
        if spot is not None:
            radius, height = (SCALES[spec.size] * part for part in OBJECT_SIZE[spec.kind])
            yaw = float(rng.uniform(-math.pi, math.pi))
            placed.append(HomeObject(spec, *spot, yaw, radius, height, room))
        elif spec == target:
            return None
    return tuple(placed) if len(placed) >= min(5, 2 + len(rooms)) else None


def _size_pair(
    rng: np.random.Generator, taken: Sequence[ObjectSpec], room: int
) -> list[tuple[ObjectSpec, int]]:
    """A small and a large thing of one kind and colour, in one room."""
    spec = ObjectSpec(str(rng.choice(STANDING_KINDS)), str(rng.choice(COLOURS)))
    if spec in taken:
        return []
    return [(replace(spec, size=size), room) for size in (SIZES[0], SIZES[1])]


def _other_size(size: str) -> str:
    return SIZES[1 - SIZES.index(size)]


def _distractors(rng: np.random.Generator, target: ObjectSpec, number: int) -> list[ObjectSpec]:
    """Look-alikes first (the colour in another kind, the kind in other colours), then anything else."""
    kinds = [k for k in rng.permutation(STANDING_KINDS) if k != target.kind]
    colours = [c for c in rng.permutation(COLOURS) if c != target.colour]
    alike = []
    if target.kind in STANDING_KINDS:
        alike.append(ObjectSpec(target.kind, str(colours[0])))
    if target.colour:
        alike.append(ObjectSpec(str(kinds[0]), target.colour))
    rng.shuffle(alike)
    chosen = alike
    while len(chosen) < number:
        spec = ObjectSpec(str(rng.choice(STANDING_KINDS)), str(rng.choice(COLOURS)))
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
    radius = OBJECT_SIZE[spec.kind][0] * SCALES[spec.size]
    inset = radius + 0.25
    if is_corridor(room):
        return None
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
        if any(pose.distance_to(o.x, o.y) < o.radius + 0.75 for o in home.standing):
            continue
        if target.distance_m(x, y) >= 1.5 and _suits(home, pose):
            return pose
    return None


def _suits(home: Home, pose: Pose2D) -> bool:
    """Whether the target is where the home's placement says, for a robot that starts there."""
    target = home.target
    in_view = sees_in_camera(home, pose, target)
    if home.placement == "in_view":
        return in_view
    if home.placement == "other_room":
        return not in_view
    is_aside = abs(pose.bearing_to(target.x, target.y)) > math.radians(50)
    return is_aside and home.sees_thing(pose.x, pose.y, target)


def camera_pose(pose: Pose2D) -> Pose2D:
    """Where the camera of a robot at `pose` is."""
    x = pose.x + CAMERA_FORWARD_M * math.cos(pose.yaw)
    y = pose.y + CAMERA_FORWARD_M * math.sin(pose.yaw)
    return Pose2D(x, y, pose.yaw)


def in_camera_view(
    home: Home, pose: Pose2D, x: float, y: float, half_view_rad: float = math.radians(32)
) -> bool:
    """Whether a point on the floor lies in front of the camera with a clear line to it."""
    camera = camera_pose(pose)
    return abs(camera.bearing_to(x, y)) <= half_view_rad and home.sees(camera.x, camera.y, x, y)


def sees_in_camera(
    home: Home, pose: Pose2D, thing: HomeObject, half_view_rad: float = math.radians(32)
) -> bool:
    """Whether a thing's middle lies in front of the camera with a clear line to it."""
    camera = camera_pose(pose)
    in_front = abs(camera.bearing_to(thing.x, thing.y)) <= half_view_rad
    return in_front and home.sees_thing(camera.x, camera.y, thing)


def meant(home: Home, wanted: Wanted) -> tuple[HomeObject, ...]:
    """The things that an instruction means; by side, the outermost of those in view of the start."""
    fitting = [thing for thing in home.objects if wanted.fits(thing.spec)]
    if not wanted.thing.side:
        return tuple(fitting)
    seen = [thing for thing in fitting if sees_in_camera(home, home.start, thing)]
    bearings = [home.start.bearing_to(thing.x, thing.y) for thing in seen]
    return (seen[outermost(bearings, wanted.thing.side)],) if seen else ()


def outermost(bearings: Sequence[float], side: str) -> int:
    """Returns the index of the bearing (left positive) that lies furthest to a side."""
    pick = max if side == SIDES[0] else min
    return pick(range(len(bearings)), key=lambda index: bearings[index])
