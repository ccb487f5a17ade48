# SPDX-License-Identifier: Apache-2.0
"""What can be seen from where the robot stands: the expert's eyes and the labels for the vision tower.

Objects count by their pixels in the models' own image, so the expert knows nothing a model could not see.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import mujoco
import numpy as np

from outrider.core.values import Pose2D, RangeScan, wrap_angle
from outrider.simulation.homes import Door, Home, in_camera_view
from outrider.simulation.simulator import Simulator
from outrider.simulation.vocabulary import COLOURS, KINDS, ObjectSpec

MIN_PIXELS = 24
MAX_DOOR_DISTANCE_M = 5.5
FREE_WAYS_DEG = (30.0, 0.0, -30.0)
FREE_WIDTH_RAD = math.radians(3.0)
MAX_FREE_M = 9.9
CELL = 28
BACKGROUNDS = ("other", "door", "furniture", "floor", "wall")
OBJECT, DOOR, FURNITURE, FLOOR, WALL = 0, 1, 2, 3, 4


@dataclass(frozen=True)
class SeenObject:
    """An object in the image; bearing and distance from the base centre to its middle."""

    spec: ObjectSpec
    bearing_rad: float
    distance_m: float
    pixels: int


@dataclass(frozen=True)
class SeenDoor:
    """The middle of a door in view; `slant_rad` is between the way to it and straight through it."""

    bearing_rad: float
    distance_m: float
    slant_rad: float


@dataclass(frozen=True)
class View:
    """Everything in view, nearest first; `free_m`: how far the way is free left, ahead and right."""

    objects: tuple[SeenObject, ...]
    doors: tuple[SeenDoor, ...]
    free_m: tuple[float, float, float]

    def find(self, spec: ObjectSpec) -> SeenObject | None:
        """Returns the object in view of this kind and colour; None if there is none."""
        return next((o for o in self.objects if o.spec == spec), None)


class Eyes:
    """Reads a simulator's segmentation image; geom names are resolved once."""

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
            SeenObject(o.spec, pose.bearing_to(o.x, o.y), pose.distance_to(o.x, o.y), int(n))
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
        """Per merged vision token: (5, 9, 3) int16 of kind, colour (0 = none) and distance in decimetres."""
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
    """By geom id: background class and object index (-1 for none); the last entry serves id -1."""
    classes = np.full(model.ngeom + 1, WALL, dtype=np.int64)
    objects = np.full(model.ngeom + 1, -1, dtype=np.int64)
    for geom in range(model.ngeom):
        group, *rest = model.geom(geom).name.split("/")
        classes[geom] = {"object": OBJECT, "door": DOOR, "furniture": FURNITURE, "floor": FLOOR}.get(
            group, WALL
        )
        if group == "object":
            objects[geom] = int(rest[0])
    return classes, objects


def _cell_label(
    classes: np.ndarray, objects: np.ndarray, cell: np.ndarray, home: Home, pose: Pose2D
) -> tuple[int, int, int]:
    indices = objects[cell]
    seen = indices[indices >= 0]
    if len(seen) >= MIN_PIXELS // 2:
        thing = home.objects[int(np.argmax(np.bincount(seen)))]
        decimetres = round(pose.distance_to(thing.x, thing.y) * 10)
        kind = len(BACKGROUNDS) + KINDS.index(thing.spec.kind)
        return kind, 1 + COLOURS.index(thing.spec.colour), decimetres
    shares = np.bincount(classes[cell], minlength=len(BACKGROUNDS))
    if shares[DOOR] >= 40:
        return DOOR, 0, 0
    return int(np.argmax(shares)), 0, 0


def _free_way(scan: RangeScan) -> tuple[float, float, float]:
    """The nearest range within a few degrees of each of the three bearings."""
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
