# SPDX-License-Identifier: Apache-2.0
"""Takes printed sheets out of a picture, for models that cannot read: to them a sheet hides what it hangs on.

A sheet is pale and not bluish, of one colour, nearly convex, and has fine dark strokes. It may be cut off by
the picture's edge or by something in front of it, which stays. It gets the colour that is most frequent along
its edge.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.uint8]
"""uint8 (H, W) of 0 and 1."""

STROKE_PX = 13
"""Strokes are narrower than this."""
LEAST_CONTRAST = 20
"""Grey levels by which a stroke is darker than its paper."""
LEAST_BRIGHTNESS, MOST_CHROMA, MOST_BLUE = 60, 0.14, 0.04
"""Of paper: its brightest channel, how far its channels lie apart, and how far blue lies above red, both as
shares of that. Bright metal is bluer."""
NEAR_INK = 1.2
"""Times as much colour as paper has may be in its pixels beside print, since a JPEG spreads colours."""
PAPER_BAND = 16
"""Levels by which each channel of a sheet's paper may differ from where it was found."""
ROUNDS = 3
"""Times that pale pixels beside strokes are looked at, as a piece of them may lie on two colours."""
LEAST_BESIDE_PX = 6
"""Of pale pixels in one piece beside strokes."""
LEAST_AREA_PX, MOST_AREA, LEAST_SOLID, LEAST_FILLED = 40, 0.4, 0.75, 0.6
"""Of a sheet: pixels, a share of the picture, the share of its convex hull that it fills, and the share of it
that is paper or ink."""
LINE_PX, LETTER_PX = 5, 13
"""Gaps of less than this: between parts of the same paper, and where print meets the edge of a sheet."""
MOST_CUT = 0.1
"""What the picture's edge cuts off is print where it has less than this share of a sheet's pixels."""
INK, MOST_INK = 0.8, 0.7
"""Brightness of print and of its median, as shares of the paper's."""
LINE_STROKES, LEAST_LINE_INK = 4, 0.03
DENSE_STROKES, LEAST_DENSE_INK, LEAST_LINES = 2, 0.08, 0.33
"""Of print: strokes side by side and the share of a sheet that is ink. The fewer strokes, the more ink; the
share of a sheet's columns with strokes below each other, in print that has none side by side."""
ALIKE, LEAST_ALIKE = 0.3, 0.25
"""Colours are alike that differ by less than this share of how far one is from the paper; a piece that is not
paper is in front of a sheet where this share of what lies beyond it is alike."""
SAME_COLOUR, MOST_SAMPLES = 12, 300
"""Of colours around a sheet: levels by which they may differ and be the same, and how many are looked at."""
MOST_AROUND = 0.97
"""Brightness of what is around a sheet, as a share of its paper's."""
EDGE_PX = 2
"""Pixels of a sheet's edge that have something of its paper in them."""


def without_sheets(rgb: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The picture, uint8 (H, W, 3) RGB, with printed sheets filled from around them; itself without any."""
    sheets = sheets_in(rgb)
    if not sheets:
        return rgb
    taken = cv2.dilate(np.maximum.reduce(sheets), _square(2 * EDGE_PX + 1))
    if taken.all():
        return rgb
    filled = _spread_over(rgb, taken)
    for sheet in sheets:
        edge = _edge_of(sheet) > taken
        if edge.any():
            filled[sheet > 0] = _most_frequent(rgb[edge])
    return filled


def sheets_in(rgb: NDArray[np.uint8]) -> list[Mask]:
    """A mask for each printed sheet in a picture, uint8 (H, W, 3) RGB, without what is in front of it."""
    view = _View.of(rgb)
    beside = cv2.dilate(view.strokes, _square(5)) & view.pale & (1 - view.strokes)
    sheets: list[Mask] = []
    seen, taken = np.zeros_like(view.grey), np.zeros_like(view.grey)
    for _ in range(ROUNDS):
        for place in _places(view.grey, beside & (1 - seen)):
            if seen[place]:
                continue
            like, piece = _paper_around(rgb, place)
            sheet = view.sheet_of(like & piece, piece, taken)
            seen |= like & piece
            if sheet is not None:
                sheets.append(sheet)
                taken |= sheet
                seen |= sheet
    return sheets


def _square(side: int) -> Mask:
    return np.ones((side, side), np.uint8)


def _edge_of(sheet: Mask) -> Mask:
    """A mask of what is around a sheet, beyond the pixels that have something of its paper in them."""
    inner, outer = (cv2.dilate(sheet, _square(2 * px + 1)) for px in (EDGE_PX, 2 * EDGE_PX))
    return outer - inner


def _spread_over(rgb: NDArray[np.uint8], taken: Mask) -> NDArray[np.uint8]:
    """The picture with each pixel that is taken as the nearest one that is not."""
    _, nearest = cv2.distanceTransformWithLabels(taken, cv2.DIST_L2, 3, labelType=cv2.DIST_LABEL_PIXEL)
    colours = np.zeros((int(nearest.max()) + 1, 3), np.uint8)
    colours[nearest[taken == 0]] = rgb[taken == 0]
    return colours[nearest]


def _places(grey: NDArray[np.uint8], beside: Mask) -> Iterator[tuple[int, int]]:
    """Row and column of a bright pixel of each pale piece beside strokes; the brightest first, as paper is
    brighter than what it hangs on.
    """
    count, labels, stats, _ = cv2.connectedComponentsWithStats(beside, connectivity=4)
    found: list[tuple[float, int, int]] = []
    for piece in range(1, count):
        left, top, width, height, area = stats[piece]
        if area < LEAST_BESIDE_PX:
            continue
        part = np.s_[top : top + height, left : left + width]
        here = labels[part] == piece
        level = float(np.percentile(grey[part][here], 92))
        distance = np.where(here, np.abs(grey[part] - level), np.inf)
        y, x = np.unravel_index(distance.argmin(), distance.shape)
        found.append((level, int(top + y), int(left + x)))
    return ((y, x) for _, y, x in sorted(found, reverse=True))


def _within(rgb: NDArray[np.uint8], colour: NDArray[np.float64], levels: float) -> Mask:
    """A mask of what has each channel within so many levels of a colour's."""
    low, high = (tuple((colour + sign * levels).tolist()) for sign in (-1, 1))
    return np.minimum(cv2.inRange(rgb, low, high), 1)


def _paper_around(rgb: NDArray[np.uint8], place: tuple[int, int]) -> tuple[Mask, Mask]:
    """Masks of all that has the colour of a place, and of the piece around it whose parts lie together."""
    like = _within(rgb, rgb[place].astype(float), PAPER_BAND)
    _, labels = cv2.connectedComponents(
        cv2.morphologyEx(like, cv2.MORPH_CLOSE, _square(LINE_PX)), connectivity=4
    )
    return like, (labels == labels[place]).astype(np.uint8)


@dataclass(frozen=True)
class _View:
    """A picture, its grey levels, and masks of its pale parts and of its dark strokes."""

    rgb: NDArray[np.uint8]
    grey: NDArray[np.uint8]
    pale: Mask
    strokes: Mask

    @classmethod
    def of(cls, rgb: NDArray[np.uint8]) -> _View:
        grey = cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY)
        strokes = cv2.morphologyEx(grey, cv2.MORPH_BLACKHAT, _square(STROKE_PX)) >= LEAST_CONTRAST
        return cls(rgb, grey, _is_pale(rgb, NEAR_INK).astype(np.uint8), strokes.astype(np.uint8))

    def sheet_of(self, paper: Mask, piece: Mask, taken: Mask) -> Mask | None:
        """The sheet of a piece of paper, without other sheets and what is in front; None where it is none."""
        if not LEAST_AREA_PX <= int(piece.sum()) <= MOST_AREA * piece.size:
            return None
        colour = np.median(self.rgb[paper > 0], axis=0)
        if not _is_pale(colour[None])[0]:
            return None
        body = _with_holes(cv2.morphologyEx(piece, cv2.MORPH_CLOSE, _square(LETTER_PX)))
        sheet = body & (1 - self._in_front(body, paper, colour)) & (1 - taken)
        brightness = float(np.median(self.grey[paper > 0]))
        ink = (sheet > 0) & (paper == 0) & (self.grey <= INK * brightness)
        if not ink.any() or np.median(self.grey[ink]) > MOST_INK * brightness:
            return None
        size = int(sheet.sum())
        is_full = int((ink | ((sheet & paper) > 0)).sum()) >= LEAST_FILLED * size
        is_solid = size >= LEAST_SOLID * cv2.contourArea(cv2.convexHull(cv2.findNonZero(sheet)))
        edge = _edge_of(sheet) > taken
        is_apart = edge.any() and np.median(self.grey[edge]) <= MOST_AROUND * brightness
        is_whole = is_full and is_solid and size >= LEAST_AREA_PX
        return sheet if is_whole and is_apart and _is_print(ink, sheet) else None

    def _in_front(self, body: Mask, paper: Mask, colour: NDArray[np.float64]) -> Mask:
        """A mask of the pieces of a sheet that are not its paper and go on beyond it."""
        _, labels = cv2.connectedComponents(body & (1 - paper), connectivity=8)
        at_edge = cv2.erode(body, _square(3), borderValue=1) == 0
        outside = cv2.dilate(body, _square(3)) == 0
        front = np.zeros_like(body)
        for piece in np.unique(labels[at_edge & (labels > 0)]):
            mask = labels == piece
            own = np.median(self.rgb[mask & at_edge], axis=0)
            is_like = _within(self.rgb, own, ALIKE * float(np.abs(colour - own).max())) > 0
            beyond = (cv2.dilate((mask & at_edge).astype(np.uint8), _square(7)) > 0) & outside
            if beyond.any() and is_like[beyond].mean() >= LEAST_ALIKE:
                front[mask & is_like] = 1
        return front


def _is_pale(colours: NDArray[np.uint8] | NDArray[np.float64], tinge: float = 1.0) -> NDArray[np.bool_]:
    """Which of the colours (..., 3) RGB paper may have, with so many times its most colour."""
    levels = colours.astype(np.float32)
    most, least = levels.max(axis=-1), levels.min(axis=-1)
    is_white: NDArray[np.bool_] = (most >= LEAST_BRIGHTNESS) & (most - least <= tinge * MOST_CHROMA * most)
    return is_white & (levels[..., 2] - levels[..., 0] <= tinge * MOST_BLUE * most)


def _with_holes(piece: Mask) -> Mask:
    """A piece with its holes, and with the little that the picture's edge cuts off."""
    _, labels, stats, _ = cv2.connectedComponentsWithStats(1 - piece, connectivity=8)
    left, top, width, height, area = stats.T
    is_inside = (left > 0) & (top > 0) & (left + width < piece.shape[1]) & (top + height < piece.shape[0])
    is_part = is_inside | (area <= MOST_CUT * piece.sum())
    is_part[0] = True
    return is_part[labels].astype(np.uint8)


def _is_print(ink: NDArray[np.bool_], sheet: Mask) -> bool:
    """Whether a sheet's strokes are many side by side, or some and dense, or in lines below each other."""
    across, down = (
        (np.diff(ink.astype(np.int8), axis=axis, prepend=0) == 1).sum(axis=axis) for axis in (1, 0)
    )
    share = float(ink.sum()) / int(sheet.sum())
    is_line = bool(across.max() >= LINE_STROKES) and share >= LEAST_LINE_INK
    in_lines = int((down >= DENSE_STROKES).sum()) >= LEAST_LINES * int(sheet.any(axis=0).sum())
    return is_line or (share >= LEAST_DENSE_INK and (in_lines or bool(across.max() >= DENSE_STROKES)))


def _most_frequent(colours: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Of colours (N, 3): the median of those that are about the same as the most others."""
    sample = colours[:: max(1, len(colours) // MOST_SAMPLES)].astype(np.int16)
    alike = np.abs(sample[:, None] - sample[None]).max(axis=2) <= SAME_COLOUR
    return np.median(sample[alike[alike.sum(axis=1).argmax()]], axis=0).astype(np.uint8)
