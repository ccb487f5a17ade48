# SPDX-License-Identifier: Apache-2.0
"""Seeded homes: a floor plan, furniture along the walls, things on the floor, and look-alikes.

Everything is axis-aligned on the floor plane, in metres. The generator never uses a renderer, so a home is
a pure function of its arguments.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from outrider.core.errors import SimulationError
from outrider.core.language.words.things import SIDES
from outrider.core.sensors.camera import CAMERA_FORWARD_M
from outrider.core.values import Pose2D
from outrider.simulation.homes.floor_plans import Door, Rect, draw_plan
from outrider.simulation.homes.furnishing import (
    HomeObject,
    draw_target,
    place_furniture,
    place_standing,
    with_colour,
)
from outrider.simulation.homes.vocabulary import DOOR_KIND, ObjectSpec, Wanted

WALL_HEIGHT = 2.2
OVERLOOKED_M = 0.5
"""Furniture up to this height does not hide what is behind it."""
PLACEMENTS = ("in_view", "hidden", "other_room")
ATTEMPTS = 400


@dataclass(frozen=True)
class Home:
    """A furnished home with one target. `seed` also determines colours of walls, floors and light.

    `objects` are the free-standing things, followed by the furniture.
    """

    seed: int
    placement: str
    rooms: tuple[Rect, ...]
    walls: tuple[Rect, ...]
    doors: tuple[Door, ...]
    objects: tuple[HomeObject, ...]
    target_index: int
    start: Pose2D

    @property
    def target(self) -> HomeObject:
        """Returns the object that the robot should find."""
        return self.objects[self.target_index]

    @property
    def extent(self) -> tuple[float, float]:
        """Returns width and depth in metres."""
        return max(room.x1 for room in self.rooms), max(room.y1 for room in self.rooms)

    @property
    def standing(self) -> tuple[HomeObject, ...]:
        """Returns the free-standing things."""
        return tuple(thing for thing in self.objects if thing.rect is None)

    @property
    def furniture(self) -> tuple[tuple[HomeObject, Rect], ...]:
        """Returns the furniture along the walls, with its outlines."""
        return tuple((thing, thing.rect) for thing in self.objects if thing.rect is not None)

    def room_of(self, x: float, y: float) -> int | None:
        """Returns the index of the room that contains (x, y); None outside all rooms."""
        return next((i for i, room in enumerate(self.rooms) if room.holds(x, y)), None)

    def sees(self, ax: float, ay: float, bx: float, by: float) -> bool:
        """Whether the line between two points is clear of walls and tall furniture."""
        return not any(rect.cuts(ax, ay, bx, by) for rect in (*self.walls, *self._tall()))

    def sees_thing(self, x: float, y: float, thing: HomeObject) -> bool:
        """Whether there is a clear line from (x, y) to a thing; its own outline does not hide it."""
        other_rects = (rect for rect in self._tall() if rect != thing.rect)
        return not any(rect.cuts(x, y, thing.x, thing.y) for rect in (*self.walls, *other_rects))

    def _tall(self) -> list[Rect]:
        """Returns the outlines of furniture that the camera cannot look over."""
        return [rect for thing, rect in self.furniture if thing.height > OVERLOOKED_M]


def generate_home(seed: int, target: ObjectSpec | None = None, placement: str = "in_view") -> Home:
    """Returns a home whose target is in view of the start, hidden in the same room, or in another room.

    Raises SimulationError for an unknown placement, and for a door, which every home has.
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
    spec = with_colour(rng, target) if target else draw_target(rng)
    rooms, doors = plan.rooms, plan.doors
    start_room = int(rng.integers(len(rooms)))
    other_rooms = [room for room in range(len(rooms)) if room != start_room]
    target_room = start_room if placement != "other_room" else int(rng.choice(other_rooms))
    furniture = place_furniture(rng, rooms, doors, spec, target_room)
    standing = place_standing(rng, spec, target_room, rooms, doors, furniture)
    if standing is None:
        return None
    objects = (*standing, *furniture)
    index = next((i for i, o in enumerate(objects) if o.spec == spec and o.room == target_room), None)
    if index is None:
        return None
    bare = Home(seed, placement, rooms, plan.walls, doors, objects, index, Pose2D(0, 0, 0))
    start = _start(rng, bare, start_room)
    return None if start is None else replace(bare, start=start)


def _start(rng: np.random.Generator, home: Home, room_index: int) -> Pose2D | None:
    room, target = home.rooms[room_index], home.target
    for _ in range(60):
        x, y = (
            float(rng.uniform(room.x0 + 0.7, room.x1 - 0.7)),
            float(rng.uniform(room.y0 + 0.7, room.y1 - 0.7)),
        )
        pose = Pose2D(x, y, float(rng.uniform(-math.pi, math.pi)))
        if any(piece.is_within(0.55, x, y) for piece in home.objects):
            continue
        if any(pose.distance_to(o.x, o.y) < o.radius + 0.75 for o in home.standing):
            continue
        if target.distance_m(x, y) >= 1.5 and _suits(home, pose):
            return pose
    return None


def _suits(home: Home, pose: Pose2D) -> bool:
    """Whether the target agrees with the home's placement, for a robot that starts at `pose`."""
    target = home.target
    in_view = sees_in_camera(home, pose, target)
    if home.placement == "in_view":
        return in_view
    if home.placement == "other_room":
        return not in_view
    is_aside = abs(pose.bearing_to(target.x, target.y)) > math.radians(50)
    return is_aside and home.sees_thing(pose.x, pose.y, target)


def camera_pose(pose: Pose2D) -> Pose2D:
    """Returns the camera's pose for a robot at `pose`."""
    x = pose.x + CAMERA_FORWARD_M * math.cos(pose.yaw)
    y = pose.y + CAMERA_FORWARD_M * math.sin(pose.yaw)
    return Pose2D(x, y, pose.yaw)


def in_camera_view(
    home: Home, pose: Pose2D, x: float, y: float, half_view_rad: float = math.radians(32)
) -> bool:
    """Whether a point on the floor is in front of the camera with a clear line to it."""
    camera = camera_pose(pose)
    return abs(camera.bearing_to(x, y)) <= half_view_rad and home.sees(camera.x, camera.y, x, y)


def sees_in_camera(
    home: Home, pose: Pose2D, thing: HomeObject, half_view_rad: float = math.radians(32)
) -> bool:
    """Whether a thing's middle is in front of the camera with a clear line to it."""
    camera = camera_pose(pose)
    in_front = abs(camera.bearing_to(thing.x, thing.y)) <= half_view_rad
    return in_front and home.sees_thing(camera.x, camera.y, thing)


def meant(home: Home, wanted: Wanted) -> tuple[HomeObject, ...]:
    """Returns the things that an instruction means; by side, the outermost of those in view of the start."""
    fitting = [thing for thing in home.objects if wanted.fits(thing.spec)]
    if not wanted.thing.side:
        return tuple(fitting)
    seen = [thing for thing in fitting if sees_in_camera(home, home.start, thing)]
    bearings = [home.start.bearing_to(thing.x, thing.y) for thing in seen]
    return (seen[outermost(bearings, wanted.thing.side)],) if seen else ()


def outermost(bearings: Sequence[float], side: str) -> int:
    """Returns the index of the bearing (left positive) that is furthest to a side."""
    pick = max if side == SIDES[0] else min
    return pick(range(len(bearings)), key=lambda index: bearings[index])
