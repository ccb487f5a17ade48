# SPDX-License-Identifier: Apache-2.0
"""What is where on the newest pictures: boxes around what a text names, and the floor."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from outrider.console.drawn.boxes import Box, box_of
from outrider.core.language.plan import Go, sentence_to_find
from outrider.core.sensors.camera import CameraModel, CameraView
from outrider.core.values import Pose2D

KEPT = 64
FARTHEST_M = 6.0
"""Farther floor is a few rows of pixels below the horizon: a place there is no measurement."""
Placed = tuple[str, float, float]


@dataclass(frozen=True)
class _Picture:
    view: CameraView
    boxes: tuple[Box, ...]


class Pictures:
    """Knows from where the newest pictures were taken, as long as it has a `lens` and their poses."""

    def __init__(self) -> None:
        self.lens: CameraModel | None = None
        self._kept: OrderedDict[int, _Picture] = OrderedDict()

    def take(self, number: int, pose: Pose2D | None, things: Iterable[Placed]) -> tuple[Box, ...]:
        """The boxes on a new picture, which was taken at `pose`."""
        if self.lens is None or pose is None:
            return ()
        view = CameraView(self.lens, pose)
        boxes = tuple(filter(None, (box_of(*thing, view) for thing in things)))
        self._kept[number] = _Picture(view, boxes)
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return boxes

    def sentence(self, number: int, across: float, down: float) -> str:
        """What is asked for by pointing at a place in a picture: a thing, or the floor; empty for neither."""
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
    """The sentence to go to a point of the floor, to the centimetre."""
    return Go(round(x, 2), round(y, 2)).words
