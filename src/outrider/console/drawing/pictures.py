# SPDX-License-Identifier: Apache-2.0
"""Finds what is where in the newest pictures: boxes around what a text names, and the floor."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from outrider.console.drawing.boxes import Box, box_of
from outrider.core.language.plan import Go, sentence_to_find
from outrider.core.sensors.camera import CameraModel, CameraView
from outrider.core.values import Pose2D

KEPT = 64
FARTHEST_M = 6.0
"""Floor beyond this is only a few pixel rows below the horizon: too few to measure a position."""
Placed = tuple[str, float, float]


@dataclass(frozen=True)
class _Picture:
    view: CameraView
    boxes: tuple[Box, ...]


class Pictures:
    """Keeps the view of each of the newest pictures, while `lens` and the robot's pose are known."""

    def __init__(self) -> None:
        self.lens: CameraModel | None = None
        self._kept: OrderedDict[int, _Picture] = OrderedDict()

    def take(self, number: int, pose: Pose2D | None, things: Iterable[Placed]) -> tuple[Box, ...]:
        """Return the boxes on a new picture, taken at `pose`, and keep its view."""
        if self.lens is None or pose is None:
            return ()
        view = CameraView(self.lens, pose)
        boxes = tuple(filter(None, (box_of(*thing, view) for thing in things)))
        self._kept[number] = _Picture(view, boxes)
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return boxes

    def sentence(self, number: int, across: float, down: float) -> str:
        """Return the command for a point of a picture: to a thing, or to the floor; empty for neither."""
        picture = self._kept.get(number)
        if picture is None:
            return ""
        pointed = [box for box in picture.boxes if box.holds(across, down)]
        if pointed:
            nearest = max(pointed, key=lambda box: box.bottom)
            return sentence_to_find(nearest.what, room=False)
        floor = picture.view.floor_at(across, down)
        return sentence_to_go(*floor[:2]) if floor is not None and floor[2] <= FARTHEST_M else ""


def sentence_to_go(x: float, y: float) -> str:
    """Return the sentence to go to a point of the floor, rounded to the centimetre."""
    return Go(round(x, 2), round(y, 2)).words
