# SPDX-License-Identifier: Apache-2.0
"""What is visible from the robot's pose: the expert's view, and the labels for the vision tower.

Objects count by their pixels in the models' own image, so the expert sees nothing that a model could not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from outrider.core.values import Pose2D, RangeScan, wrap_angle
from outrider.simulation.homes.floor_plans import Door
from outrider.simulation.homes.home import Home, in_camera_view, outermost
from outrider.simulation.homes.vocabulary import COLOURS, KINDS, ObjectSpec, Wanted
from outrider.simulation.looks.engine import mujoco
from outrider.simulation.simulator import Simulator

MIN_PIXELS = 24
MAX_DOOR_DISTANCE_M = 6.5
FREE_WAYS_DEG = (30.0, 0.0, -30.0)
FREE_WIDTH_RAD = math.radians(3.0)
MAX_FREE_M = 9.9
CELL = 28
INSIDE_M = 0.3
"""How far beyond its doors a robot must be to count as in a room."""
BACKGROUNDS = ("other", "door", "floor", "wall")
OBJECT, DOOR, FLOOR, WALL = range(len(BACKGROUNDS))


@dataclass(frozen=True)
class SeenObject:
    """An object in the image: bearing from the base centre to its middle, `HomeObject.distance_m`.

    `same_room`: the robot is in the object's room.
    """

    spec: ObjectSpec
    bearing_rad: float
    distance_m: float
    pixels: int
    same_room: bool = True


@dataclass(frozen=True)
class SeenDoor:
    """The middle of a door in view.

    `slant_rad` is the angle between the way to it and straight through it.
    """

    bearing_rad: float
    distance_m: float
    slant_rad: float


@dataclass(frozen=True)
class View:
    """Everything in view, nearest first.

    `free_m` is the free distance to the left, ahead and to the right.
    """

    objects: tuple[SeenObject, ...]
    doors: tuple[SeenDoor, ...]
    free_m: tuple[float, float, float]

    def find(self, wanted: Wanted) -> SeenObject | None:
        """Returns the wanted object in view: by side the outermost, else the nearest; None without one."""
        fitting = [o for o in self.objects if wanted.fits(o.spec)]
        if fitting and wanted.thing.side:
            return fitting[outermost([o.bearing_rad for o in fitting], wanted.thing.side)]
        return fitting[0] if fitting else None


THINGS = ("object", "furniture")
_CLASSES = {**dict.fromkeys(THINGS, OBJECT), "door": DOOR, "floor": FLOOR}


class Eyes:
    """Interprets a simulator's segmentation image. Geom names are resolved once."""

    def __init__(self, simulator: Simulator):
        self._simulator = simulator
        self._classes, self._objects = _geom_tables(simulator.model)

    def look(self, segments: np.ndarray | None = None) -> View:
        """Returns what is in view, from `segments` or a new segmentation image."""
        segments = self._simulator.segment_camera() if segments is None else segments
        counts = np.bincount(
            self._objects[segments].ravel() + 1, minlength=len(self._simulator.home.objects) + 1
        )[1:]
        pose, home = self._simulator.truth(), self._simulator.home
        objects = [
            SeenObject(
                o.spec,
                pose.bearing_to(o.x, o.y),
                o.distance_m(pose.x, pose.y),
                int(n),
                home.rooms[o.room].grown(-INSIDE_M).holds(pose.x, pose.y),
            )
            for o, n in zip(home.objects, counts, strict=True)
            if n >= MIN_PIXELS
        ]
        doors = [seen for door in home.doors if (seen := _see_door(home, pose, door)) is not None]
        return View(
            tuple(sorted(objects, key=lambda o: o.distance_m)),
            tuple(sorted(doors, key=lambda d: d.distance_m)),
            _free_way(self._simulator.scan()),
        )

    def cell_labels(self, segments: np.ndarray) -> np.ndarray:
        """Returns labels per merged vision token: int16 (5, 9, 3) of kind, colour and distance in dm.

        The colour is 0 if there is no object, and one beyond the COLOURS for plain furniture.
        """
        home, pose = self._simulator.home, self._simulator.truth()
        rows, columns = segments.shape[0] // CELL, segments.shape[1] // CELL
        cells = segments.reshape(rows, CELL, columns, CELL).swapaxes(1, 2).reshape(rows, columns, -1)
        labels = np.zeros((rows, columns, 3), dtype=np.int16)
        for row in range(rows):
            for column in range(columns):
                labels[row, column] = _cell_label(
                    self._classes, self._objects, cells[row, column], home, pose
                )
        return labels


def _geom_tables(model: mujoco.MjModel) -> tuple[np.ndarray, np.ndarray]:
    """Returns background class and object index (-1: none) by geom id; the last entry is for id -1."""
    classes = np.full(model.ngeom + 1, WALL, dtype=np.int64)
    objects = np.full(model.ngeom + 1, -1, dtype=np.int64)
    for geom in range(model.ngeom):
        group, *rest = model.geom(geom).name.split("/")
        classes[geom] = _CLASSES.get(group, WALL)
        if group in THINGS:
            objects[geom] = int(rest[0])
    return classes, objects


def _cell_label(
    classes: np.ndarray, objects: np.ndarray, cell: np.ndarray, home: Home, pose: Pose2D
) -> tuple[int, int, int]:
    indices = objects[cell]
    seen = indices[indices >= 0]
    if len(seen) >= MIN_PIXELS // 2:
        thing = home.objects[int(np.argmax(np.bincount(seen)))]
        decimetres = round(thing.distance_m(pose.x, pose.y) * 10)
        kind = len(BACKGROUNDS) + KINDS.index(thing.spec.kind)
        return kind, 1 + (*COLOURS, "").index(thing.spec.colour), decimetres
    shares = np.bincount(classes[cell], minlength=len(BACKGROUNDS))
    if shares[DOOR] >= 40:
        return DOOR, 0, 0
    return int(np.argmax(shares)), 0, 0


def _free_way(scan: RangeScan) -> tuple[float, float, float]:
    """Returns the nearest range within a few degrees of each of the three bearings."""
    ranges = np.minimum(scan.ranges, MAX_FREE_M)
    bearings = scan.angle_min + scan.angle_step * np.arange(len(ranges))
    left, ahead, right = (
        float(ranges[np.abs(bearings - math.radians(way)) <= FREE_WIDTH_RAD].min()) for way in FREE_WAYS_DEG
    )
    return left, ahead, right


def _see_door(home: Home, pose: Pose2D, door: Door) -> SeenDoor | None:
    distance = pose.distance_to(door.x, door.y)
    if distance > MAX_DOOR_DISTANCE_M or not in_camera_view(home, pose, door.x, door.y):
        return None
    normal = math.pi / 2 if door.along_x else 0.0
    heading = math.atan2(door.y - pose.y, door.x - pose.x)
    if abs(wrap_angle(heading - normal)) > math.pi / 2:
        normal = wrap_angle(normal + math.pi)
    return SeenDoor(pose.bearing_to(door.x, door.y), distance, wrap_angle(heading - normal))
