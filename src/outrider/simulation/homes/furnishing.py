# SPDX-License-Identifier: Apache-2.0
"""The things of a home and their places: furniture along the walls, the others free on the floor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from outrider.core.language.words.things import SIZES
from outrider.simulation.homes.floor_plans import WALL_THICKNESS, Door, Rect
from outrider.simulation.homes.vocabulary import COLOURS, FURNITURE_KINDS, SCALES, STANDING_KINDS, ObjectSpec

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
"""The share of each kind that has one of the COLOURS."""
BESIDE_M = 0.25
"""Added to the distance from furniture's edge, so that it compares with that of a small thing."""
PAIR_SHARE = 0.25
"""The share of homes that have two things which differ only in size."""
CLUTTERED_SHARE = 0.25
CORRIDOR_BELOW_M = 2.5
TRIES_FOR_TARGET = 8


@dataclass(frozen=True)
class HomeObject:
    """A thing that can be searched for: its kind, its place, and its size, in metres and radians.

    `rect` is the outline of a piece of furniture, None for a free-standing thing.
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
        """Returns metres from (x, y) to its middle; for furniture, to its edge plus BESIDE_M."""
        if self.rect is None:
            return math.hypot(self.x - x, self.y - y)
        near_x, near_y = self.rect.nearest(x, y)
        return math.hypot(near_x - x, near_y - y) + BESIDE_M

    def is_within(self, margin: float, x: float, y: float) -> bool:
        """Whether (x, y) is on a piece of furniture, or less than `margin` from it on both axes."""
        return self.rect is not None and self.rect.grown(margin).holds(x, y)


def draw_target(rng: np.random.Generator) -> ObjectSpec:
    """Returns a target; furniture is as frequent as any other kind."""
    if rng.random() < len(FURNITURE_KINDS) / (len(FURNITURE_KINDS) + len(STANDING_KINDS)):
        return _furniture_spec(rng, str(rng.choice(FURNITURE_KINDS)))
    return ObjectSpec(str(rng.choice(STANDING_KINDS)), str(rng.choice(COLOURS)))


def with_colour(rng: np.random.Generator, spec: ObjectSpec) -> ObjectSpec:
    """Returns the spec with a colour if it is free-standing: those things always have one."""
    is_bare = spec.kind in STANDING_KINDS and not spec.colour
    return replace(spec, colour=str(rng.choice(COLOURS))) if is_bare else spec


def _furniture_spec(rng: np.random.Generator, kind: str) -> ObjectSpec:
    coloured = rng.random() < COLOURED_FURNITURE[kind]
    return ObjectSpec(kind, str(rng.choice(COLOURS)) if coloured else "")


def place_furniture(
    rng: np.random.Generator,
    rooms: Sequence[Rect],
    doors: Sequence[Door],
    target: ObjectSpec,
    target_room: int,
) -> tuple[HomeObject, ...]:
    """Returns one or two pieces a room. A target that is furniture is in its room, and only there."""
    placed: list[HomeObject] = []
    if target.kind in FURNITURE_KINDS:
        for _ in range(TRIES_FOR_TARGET):
            _place_piece(rng, placed, rooms, target_room, doors, target)
    for room in range(len(rooms)):
        for kind in rng.permutation(FURNITURE_KINDS)[: int(rng.integers(1, 3))]:
            _place_piece(rng, placed, rooms, room, doors, _furniture_spec(rng, str(kind)))
    return tuple(placed)


def is_corridor(room: Rect) -> bool:
    """Whether a room is too narrow for things."""
    return min(room.x1 - room.x0, room.y1 - room.y0) < CORRIDOR_BELOW_M


def _place_piece(
    rng: np.random.Generator,
    placed: list[HomeObject],
    rooms: Sequence[Rect],
    room: int,
    doors: Sequence[Door],
    spec: ObjectSpec,
) -> None:
    along, away, height = FURNITURE_SIZE[spec.kind]
    if is_corridor(rooms[room]) or any(piece.spec == spec for piece in placed):
        return
    rect = _against_wall(rng, rooms[room], along, away)
    clear = all(not rect.grown(1.15).holds(d.x, d.y) for d in doors)
    if clear and not any(rect.grown(0.7).overlaps(piece.rect) for piece in placed if piece.rect is not None):
        placed.append(HomeObject(spec, *rect.centre, 0.0, away / 2, height, room, rect))


def _against_wall(rng: np.random.Generator, room: Rect, along: float, away: float) -> Rect:
    gap = WALL_THICKNESS / 2 + 0.01
    side = int(rng.integers(4))
    if side < 2:
        x = float(rng.uniform(room.x0 + gap, room.x1 - gap - along))
        y = room.y0 + gap if side == 0 else room.y1 - gap - away
        return Rect(x, y, x + along, y + away)
    y = float(rng.uniform(room.y0 + gap, room.y1 - gap - along))
    x = room.x0 + gap if side == 2 else room.x1 - gap - away
    return Rect(x, y, x + away, y + along)


def place_standing(
    rng: np.random.Generator,
    target: ObjectSpec,
    target_room: int,
    rooms: Sequence[Rect],
    doors: Sequence[Door],
    furniture: Sequence[HomeObject],
) -> tuple[HomeObject, ...] | None:
    """Returns the free-standing things, the target first; None if there is no room for the target."""
    number = int(rng.integers(3, 6)) + len(rooms)
    if rng.random() < CLUTTERED_SHARE:
        number += int(rng.integers(3, 6)) + len(rooms)
    wanted = [target] if target.kind in STANDING_KINDS else []
    distractors = _distractors(rng, target, number)
    plan = [(target, target_room)] * len(wanted)
    plan += [
        (spec, target_room if i == 0 else int(rng.integers(len(rooms)))) for i, spec in enumerate(distractors)
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
    rng: np.random.Generator, excluded: Sequence[ObjectSpec], room: int
) -> list[tuple[ObjectSpec, int]]:
    """Returns a small and a large thing of one kind and colour, in one room."""
    spec = ObjectSpec(str(rng.choice(STANDING_KINDS)), str(rng.choice(COLOURS)))
    if spec in excluded:
        return []
    return [(replace(spec, size=size), room) for size in (SIZES[0], SIZES[1])]


def _other_size(size: str) -> str:
    return SIZES[1 - SIZES.index(size)]


def _distractors(rng: np.random.Generator, target: ObjectSpec, number: int) -> list[ObjectSpec]:
    """Returns look-alikes (the colour in another kind, the kind in another colour), then other things."""
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
    furniture: Sequence[HomeObject],
    placed: Sequence[HomeObject],
) -> tuple[float, float] | None:
    radius = OBJECT_SIZE[spec.kind][0] * SCALES[spec.size]
    inset = radius + 0.25
    if is_corridor(room):
        return None
    for _ in range(40):
        x = float(rng.uniform(room.x0 + inset, room.x1 - inset))
        y = float(rng.uniform(room.y0 + inset, room.y1 - inset))
        if any(piece.is_within(radius + 0.55, x, y) for piece in furniture):
            continue
        if any(math.hypot(x - d.x, y - d.y) < 1.35 + radius for d in doors):
            continue
        if any(math.hypot(x - o.x, y - o.y) < radius + o.radius + 0.85 for o in placed):
            continue
        return x, y
    return None
