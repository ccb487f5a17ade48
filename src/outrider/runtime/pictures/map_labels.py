# SPDX-License-Identifier: Apache-2.0
"""Where names stand on the map: beside what they name, and clear of walls, things, ways and each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Box = tuple[int, int, int, int]
"""Left, top, right and bottom, in pixels."""


@dataclass(frozen=True)
class Label:
    """A name of this width and height in pixels, and the box of what it names."""

    text: str
    width: int
    height: int
    of: Box


def place_labels(labels: Sequence[Label], taken: Sequence[Box], width: int, height: int) -> list[Box]:
    """The box of each label within a picture of this size.

    A label stands below, above, right or left of its thing, or below or above to one side: the first of these
    that covers least of what is `taken` and of the labels before it.
    """
    placed: list[Box] = []
    for label in labels:
        others = [*taken, *placed]
        choices = [_within(box, width, height) for box in _around(label)]
        placed.append(min(choices, key=lambda box: sum(overlap(box, other) for other in others)))
    return placed


def overlap(one: Box, other: Box) -> int:
    """The pixels that two boxes share."""
    across = min(one[2], other[2]) - max(one[0], other[0])
    down = min(one[3], other[3]) - max(one[1], other[1])
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
    """A box moved as far as it takes to stay in a picture."""
    left, top, right, bottom = box
    dx = max(2 - left, min(0, width - 2 - right))
    dy = max(2 - top, min(0, height - 2 - bottom))
    return left + dx, top + dy, right + dx, bottom + dy
