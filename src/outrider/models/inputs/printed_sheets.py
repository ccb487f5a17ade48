# SPDX-License-Identifier: Apache-2.0
"""Takes printed sheets out of a picture, for models that cannot read: to them a sheet hides what it hangs on.

A sheet is pale, flat, convex, and has several fine dark strokes that lie wholly within it. It gets the colour
that is most frequent along its edge.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

STROKE_PX = 13
"""Strokes are narrower than this."""
LEAST_CONTRAST = 28
"""Grey levels by which a stroke is darker than its paper."""
LEAST_BRIGHTNESS, MOST_CHROMA = 110, 0.17
"""Of paper: its brightest channel, and how far its channels lie apart, as a share of that."""
PAPER_BAND = 16
"""Levels by which each channel of a sheet's paper may differ from where it was found."""
LEAST_AREA_PX, MOST_AREA = 50, 0.4
"""Of a sheet: pixels, and a share of the picture."""
LEAST_BESIDE_PX = 8
"""Of pale pixels in one piece beside strokes."""
LEAST_STROKES, LEAST_STROKE_SHARE, LEAST_SPREAD, LEAST_WITHIN = 3, 0.03, 0.15, 0.9
"""Of print: strokes side by side, the shares of a sheet that are ink and that print spreads over, and the
share of a stroke that lies within the sheet."""
LEAST_ON_PAPER = 0.5
"""Of what lies around strokes: the share that is the sheet's own paper."""
MOST_INK = (0.5, 0.72)
"""Brightness of the darkest tenth of the strokes and of their half, as shares of the paper's."""
LEAST_FILLED = 0.85
"""Share of a sheet's convex hull that is its paper or strokes."""
EDGE_PX = 2
"""Pixels of a sheet's edge that have something of its paper in them."""


def without_sheets(rgb: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The picture, uint8 (H, W, 3) RGB, with printed sheets filled from around them; itself without any."""
    sheets = sheets_in(rgb)
    if not sheets:
        return rgb
    filled = rgb.copy()
    inner, outer = _square(2 * EDGE_PX + 1), _square(2 * EDGE_PX + 3)
    taken = cv2.dilate(np.maximum.reduce(sheets), inner)
    for sheet in sheets:
        edge = cv2.dilate(sheet, outer) > taken
        if edge.any():
            filled[cv2.dilate(sheet, inner) > 0] = _most_frequent(rgb[edge])
    return filled


def sheets_in(rgb: NDArray[np.uint8]) -> list[NDArray[np.uint8]]:
    """A mask, uint8 (H, W) of 0 and 1, for each printed sheet in a picture, uint8 (H, W, 3) RGB."""
    view = _View.of(rgb)
    beside = cv2.dilate(view.strokes, _square(5)) & view.pale & (1 - view.strokes)
    places, labels, stats, _ = cv2.connectedComponentsWithStats(beside, connectivity=4)
    sheets: list[NDArray[np.uint8]] = []
    seen = np.zeros((rgb.shape[0] + 2, rgb.shape[1] + 2), np.uint8)
    for place in range(1, places):
        left, top, width, height, area = stats[place]
        part = np.s_[top : top + height, left : left + width]
        here = (labels[part] == place) & (seen[1:-1, 1:-1][part] == 0)
        if area < LEAST_BESIDE_PX or not here.any():
            continue
        y, x = _brightest_but_a_few(view.grey[part], here)
        sheet = view.sheet_of(_paper_around(rgb, seen, (int(left) + x, int(top) + y)))
        if sheet is not None:
            sheets.append(sheet)
            seen[1:-1, 1:-1] |= sheet
    return sheets


def _square(side: int) -> NDArray[np.uint8]:
    return np.ones((side, side), np.uint8)


def _brightest_but_a_few(grey: NDArray[np.uint8], here: NDArray[np.bool_]) -> tuple[int, int]:
    """Row and column of a pixel as bright as the brightest fifth of those here begins."""
    distance = np.where(here, np.abs(grey - np.percentile(grey[here], 80)), np.inf)
    y, x = np.unravel_index(distance.argmin(), distance.shape)
    return int(y), int(x)


def _paper_around(
    rgb: NDArray[np.uint8], seen: NDArray[np.uint8], place: tuple[int, int]
) -> NDArray[np.uint8]:
    """A mask of what has the colour of a place, in one piece with it and not seen before; it is seen now."""
    before, band = seen.copy(), (PAPER_BAND,) * 3
    how = 4 | cv2.FLOODFILL_MASK_ONLY | cv2.FLOODFILL_FIXED_RANGE | (1 << 8)
    cv2.floodFill(rgb, seen, place, 0, band, band, how)
    return (seen - before)[1:-1, 1:-1]


@dataclass(frozen=True)
class _View:
    """A picture's grey levels, masks of its pale parts and of its dark strokes, and the strokes' numbers and
    areas.
    """

    grey: NDArray[np.uint8]
    pale: NDArray[np.uint8]
    strokes: NDArray[np.uint8]
    numbers: NDArray[np.int32]
    areas: NDArray[np.int32]

    @classmethod
    def of(cls, rgb: NDArray[np.uint8]) -> _View:
        grey = cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY)
        dark = cv2.morphologyEx(grey, cv2.MORPH_BLACKHAT, _square(STROKE_PX)) >= LEAST_CONTRAST
        strokes = dark.astype(np.uint8)
        most, least = rgb.max(axis=2), rgb.min(axis=2)
        pale = (most >= LEAST_BRIGHTNESS) & (most - least <= MOST_CHROMA * most)
        count, numbers, stats, _ = cv2.connectedComponentsWithStats(strokes, connectivity=8)
        return cls(grey, pale.astype(np.uint8), strokes, numbers, stats[:count, cv2.CC_STAT_AREA])

    def sheet_of(self, paper: NDArray[np.uint8]) -> NDArray[np.uint8] | None:
        """The sheet of a piece of paper; None where it is none."""
        if not LEAST_AREA_PX / 2 <= int(paper.sum()) <= MOST_AREA * paper.size:
            return None
        points = cv2.findNonZero(cv2.morphologyEx(paper, cv2.MORPH_OPEN, _square(2)))
        if points is None:
            return None
        hull = np.zeros_like(paper)
        cv2.fillConvexPoly(hull, cv2.convexHull(points), 1)
        size, filled = int(hull.sum()), int((hull & (self.pale | self.strokes)).sum())
        if not LEAST_AREA_PX <= size <= MOST_AREA * hull.size or filled < LEAST_FILLED * size:
            return None
        left, top, width, height = cv2.boundingRect(hull)
        part = np.s_[top : top + height, left : left + width]
        ink = self._ink_within(hull)[part]
        if not ink.any() or not _lies_on(ink, paper[part]):
            return None
        levels = np.percentile(self.grey[part][ink], (10, 50))
        is_dark = bool((levels <= np.array(MOST_INK) * np.median(self.grey[paper > 0])).all())
        return hull if is_dark and _is_print(ink, size) else None

    def _ink_within(self, hull: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """A mask of the strokes that lie wholly within a hull, or nearly."""
        inside = np.bincount(self.numbers[hull > 0], minlength=len(self.areas))
        whole = (inside >= LEAST_WITHIN * self.areas) & (self.areas > 1)
        whole[0] = False
        return whole[self.numbers] & (hull > 0)


def _lies_on(ink: NDArray[np.bool_], paper: NDArray[np.uint8]) -> bool:
    """Whether strokes have this paper around them, and not that of another sheet within it."""
    mask = ink.astype(np.uint8)
    around = (cv2.dilate(mask, _square(5)) > 0) & ~ink
    return int((around & (cv2.dilate(paper, _square(3)) > 0)).sum()) >= LEAST_ON_PAPER * int(around.sum())


def _is_print(ink: NDArray[np.bool_], size: int) -> bool:
    """Whether strokes are many, side by side, and all over a sheet of so many pixels."""
    pixels = cv2.findNonZero(ink.astype(np.uint8))
    if len(pixels) < LEAST_STROKE_SHARE * size:
        return False
    starts = np.diff(ink.astype(np.int8), axis=1, prepend=0) == 1
    is_many = int((starts.sum(axis=1) >= LEAST_STROKES).sum()) >= 2
    return is_many and cv2.contourArea(cv2.convexHull(pixels)) >= LEAST_SPREAD * size


def _most_frequent(colours: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Of colours (N, 3): the median of those in the fullest step of 16 levels."""
    steps = (colours >> 4).astype(np.int32)
    keys = (steps[:, 0] << 8) | (steps[:, 1] << 4) | steps[:, 2]
    values, counts = np.unique(keys, return_counts=True)
    return np.median(colours[keys == values[counts.argmax()]], axis=0).astype(np.uint8)
