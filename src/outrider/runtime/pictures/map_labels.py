# SPDX-License-Identifier: Apache-2.0
"""Places names on the map: next to their things, and clear of walls, things, paths and each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Box = tuple[int, int, int, int]
"""Left, top, right and bottom, in pixels."""


@dataclass(frozen=True)
class Label:
    """A name with its width and height in pixels, and the box of its thing."""

    text: str
    width: int
    height: int
    of: Box


def place_labels(labels: Sequence[Label], occupied: Sequence[Box], width: int, height: int) -> list[Box]:
    """Returns the box of each label within a picture of this size.

    A label is placed below, above, right or left of its thing, or below or above to one side: the first of
    these that covers least of `occupied` and of earlier labels.
    """
    placed: list[Box] = []
    for label in labels:
        obstacles = [*occupied, *placed]
        choices = [_within(box, width, height) for box in _around(label)]
        placed.append(min(choices, key=lambda box: sum(overlap(box, other) for other in obstacles)))
    return placed


def overlap(first: Box, second: Box) -> int:
    """Returns the number of pixels that two boxes share."""
    across = min(first[2], second[2]) - max(first[0], second[0])
    down = min(first[3], second[3]) - max(first[1], second[1])
    return max(0, across) * max(0, down)


def _around(label: Label) -> list[Box]:
    left, top, right, bottom = label.of
    x, y = (left + right - label.width) // 2, (top + bottom - label.height) // 2
    gap = max(2, label.height // 4)
    below, above = bottom + gap, top - gap - label.height
    corners = [(x, below), (x, above), (right + gap, y), (left - gap - label.width, y)]
    corners += [(at, level) for level in (below, above) for at in (left, right - label.width)]
    return [(a, b, a + label.width, b + label.height) for a, b in corners]


def _within(box: Box, width: int, height: int) -> Box:
    """Returns the box, moved as far as necessary to stay in the picture."""
    left, top, right, bottom = box
    dx = max(2 - left, min(0, width - 2 - right))
    dy = max(2 - top, min(0, height - 2 - bottom))
    return left + dx, top + dy, right + dx, bottom + dy
