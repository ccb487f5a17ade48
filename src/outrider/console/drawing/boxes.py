# SPDX-License-Identifier: Apache-2.0
"""Estimated boxes in the picture around what a text names, from its position and usual size."""

from __future__ import annotations

from dataclasses import dataclass

from outrider.core.language.words.things import Thing
from outrider.core.sensors.camera import CameraView

SIZES_M = {
    "ball": (0.35, 0.35),
    "bed": (1.4, 0.5),
    "bench": (0.6, 0.45),
    "bin": (0.35, 0.5),
    "bottle": (0.15, 0.5),
    "box": (0.3, 0.3),
    "bucket": (0.3, 0.4),
    "cabinet": (0.65, 0.85),
    "chair": (0.4, 0.85),
    "cone": (0.4, 0.45),
    "cup": (0.25, 0.25),
    "fridge": (0.65, 1.6),
    "ladder": (0.3, 1.5),
    "lamp": (0.4, 1.15),
    "person": (0.4, 1.7),
    "plant": (0.45, 0.95),
    "screen": (0.5, 1.0),
    "shelf": (0.7, 1.7),
    "sofa": (1.1, 0.65),
    "stool": (0.35, 0.5),
    "suitcase": (0.3, 0.65),
    "table": (0.6, 0.45),
    "teddy": (0.4, 0.6),
    "vase": (0.3, 0.4),
}
"""The usual width and height of each kind, in metres; the width is the mean over its sides."""


@dataclass(frozen=True)
class Box:
    """A rectangle in the picture, in fractions of its width and height, from the upper left corner."""

    what: str
    left: float
    top: float
    right: float
    bottom: float

    def holds(self, across: float, down: float) -> bool:
        """Whether a point of the picture lies inside."""
        return self.left <= across <= self.right and self.top <= down <= self.bottom


def box_of(what: str, x: float, y: float, view: CameraView) -> Box | None:
    """Return the box around a thing on the floor; None if its size is unknown or it is out of view."""
    size_m = SIZES_M.get(Thing.of(what).kind)
    foot, head = view.share_of(x, y, 0.0), view.share_of(x, y, size_m[1] if size_m else 0.0)
    if size_m is None or foot is None or head is None:
        return None
    across, bottom, ahead_m = foot
    half = size_m[0] / 2.0 * view.camera.focal_px / ahead_m / view.camera.width
    sides = (across - half, head[1], across + half, bottom)
    left, top, right, bottom = (round(min(1.0, max(0.0, side)), 4) for side in sides)
    return Box(what, left, top, right, bottom) if left < right and top < bottom else None
