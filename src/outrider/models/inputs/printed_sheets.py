# SPDX-License-Identifier: Apache-2.0
"""Removes printed sheets from a picture, for models that cannot read:
for them a sheet hides what is behind it.

A sheet is pale and not bluish, of one colour, nearly convex, and has fine dark strokes. The picture's edge
may cut it off, or something in front of it may, which is kept. It is filled with the most frequent colour
along its edge.
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
MIN_CONTRAST = 20
"""Grey levels by which a stroke is darker than its paper."""
MIN_BRIGHTNESS, MAX_CHROMA, MAX_BLUE = 60, 0.14, 0.04
"""For paper: the least brightness of its brightest channel; the most spread of its channels and the most
excess of blue over red, both as shares of that channel. Bright metal is bluer.
"""
NEAR_INK = 1.2
"""How many times as much colour as paper may have is allowed next to print, because JPEG spreads colours."""
PAPER_BAND = 16
"""Levels by which each channel of a sheet's paper may differ from its starting pixel."""
ROUNDS = 3
"""How often pale pixels next to strokes are examined, because one piece of them may span two colours."""
MIN_BESIDE_PX = 6
"""The least number of pale pixels in one piece next to strokes."""
MIN_AREA_PX, MAX_AREA, MIN_SOLID, MIN_FILLED = 40, 0.4, 0.75, 0.6
"""For a sheet: the least pixels, the most share of the picture, the least share of its convex hull that it
fills, and the least share of it that is paper or ink.
"""
LINE_PX, LETTER_PX = 5, 13
"""Gaps smaller than this are closed: between parts of the same paper,
and where print meets a sheet's edge.
"""
MAX_CUT = 0.1
"""A gap at the picture's edge counts as part of a sheet up to this share of the sheet's pixels."""
INK, MAX_INK = 0.8, 0.7
"""The most brightness of print and of its median, as shares of the paper's."""
LINE_STROKES, MIN_LINE_INK = 4, 0.03
DENSE_STROKES, MIN_DENSE_INK, MIN_LINES = 2, 0.08, 0.33
"""For print: the least strokes side by side and the least share of a sheet that is ink; with fewer strokes,
more ink. Without strokes side by side: the least share of a sheet's columns with strokes below each
other.
"""
ALIKE, MIN_ALIKE = 0.3, 0.25
"""Colours are alike if they differ by less than this share of a piece's distance from the paper. A piece
that is not paper is in front of a sheet if this share of the pixels beyond it is alike.
"""
SAME_COLOUR, MAX_SAMPLES = 12, 300
"""For colours around a sheet: levels by which equal ones may differ, and how many are sampled."""
MAX_AROUND = 0.97
"""The most brightness around a sheet, as a share of its paper's."""
EDGE_PX = 2
"""The width of a sheet's edge, whose pixels mix its paper with what is around it."""


def without_sheets(rgb: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the picture, uint8 (H, W, 3) RGB, with printed sheets filled;
    the same object if there are none.
    """
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
    """Return a mask per printed sheet of a picture, uint8 (H, W, 3) RGB, without what is in front."""
    view = _View.of(rgb)
    margin = cv2.dilate(view.strokes, _square(5)) & view.pale & (1 - view.strokes)
    sheets: list[Mask] = []
    seen, taken = np.zeros_like(view.grey), np.zeros_like(view.grey)
    for _ in range(ROUNDS):
        for seed in _seeds(view.grey, margin & (1 - seen)):
            if seen[seed]:
                continue
            like, piece = _paper_around(rgb, seed)
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
    """Return a mask of what is around a sheet, outside the pixels that are mixed with its paper."""
    inner, outer = (cv2.dilate(sheet, _square(2 * px + 1)) for px in (EDGE_PX, 2 * EDGE_PX))
    return outer - inner


def _spread_over(rgb: NDArray[np.uint8], taken: Mask) -> NDArray[np.uint8]:
    """Return the picture with each taken pixel replaced by the nearest one that is not taken."""
    _, nearest = cv2.distanceTransformWithLabels(taken, cv2.DIST_L2, 3, labelType=cv2.DIST_LABEL_PIXEL)
    colours = np.zeros((int(nearest.max()) + 1, 3), np.uint8)
    colours[nearest[taken == 0]] = rgb[taken == 0]
    return colours[nearest]


def _seeds(grey: NDArray[np.uint8], margin: Mask) -> Iterator[tuple[int, int]]:
    """Yield row and column of a bright pixel of each pale piece next to strokes.

    The brightest come first, because paper is brighter than its background.
    """
    count, labels, stats, _ = cv2.connectedComponentsWithStats(margin, connectivity=4)
    found: list[tuple[float, int, int]] = []
    for piece in range(1, count):
        left, top, width, height, area = stats[piece]
        if area < MIN_BESIDE_PX:
            continue
        part = np.s_[top : top + height, left : left + width]
        here = labels[part] == piece
        level = float(np.percentile(grey[part][here], 92))
        distance = np.where(here, np.abs(grey[part] - level), np.inf)
        y, x = np.unravel_index(distance.argmin(), distance.shape)
        found.append((level, int(top + y), int(left + x)))
    return ((y, x) for _, y, x in sorted(found, reverse=True))


def _within(rgb: NDArray[np.uint8], colour: NDArray[np.float64], levels: float) -> Mask:
    """Return a mask of the pixels whose channels are all within `levels` of a colour's."""
    low, high = (tuple((colour + sign * levels).tolist()) for sign in (-1, 1))
    return np.minimum(cv2.inRange(rgb, low, high), 1)


def _paper_around(rgb: NDArray[np.uint8], seed: tuple[int, int]) -> tuple[Mask, Mask]:
    """Return masks of all pixels with the colour of a place, and of the connected piece around it."""
    like = _within(rgb, rgb[seed].astype(float), PAPER_BAND)
    _, labels = cv2.connectedComponents(
        cv2.morphologyEx(like, cv2.MORPH_CLOSE, _square(LINE_PX)), connectivity=4
    )
    return like, (labels == labels[seed]).astype(np.uint8)


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
        strokes = cv2.morphologyEx(grey, cv2.MORPH_BLACKHAT, _square(STROKE_PX)) >= MIN_CONTRAST
        return cls(rgb, grey, _is_pale(rgb, NEAR_INK).astype(np.uint8), strokes.astype(np.uint8))

    def sheet_of(self, paper: Mask, piece: Mask, taken: Mask) -> Mask | None:
        """Return the sheet of a piece of paper, without other sheets and what is in front;
        None if it is none.
        """
        if not MIN_AREA_PX <= int(piece.sum()) <= MAX_AREA * piece.size:
            return None
        colour = np.median(self.rgb[paper > 0], axis=0)
        if not _is_pale(colour[None])[0]:
            return None
        body = _with_holes(cv2.morphologyEx(piece, cv2.MORPH_CLOSE, _square(LETTER_PX)))
        sheet = body & (1 - self._in_front(body, paper, colour)) & (1 - taken)
        brightness = float(np.median(self.grey[paper > 0]))
        ink = (sheet > 0) & (paper == 0) & (self.grey <= INK * brightness)
        if not ink.any() or np.median(self.grey[ink]) > MAX_INK * brightness:
            return None
        size = int(sheet.sum())
        is_full = int((ink | ((sheet & paper) > 0)).sum()) >= MIN_FILLED * size
        is_solid = size >= MIN_SOLID * cv2.contourArea(cv2.convexHull(cv2.findNonZero(sheet)))
        edge = _edge_of(sheet) > taken
        is_apart = edge.any() and np.median(self.grey[edge]) <= MAX_AROUND * brightness
        is_whole = is_full and is_solid and size >= MIN_AREA_PX
        return sheet if is_whole and is_apart and _is_print(ink, sheet) else None

    def _in_front(self, body: Mask, paper: Mask, colour: NDArray[np.float64]) -> Mask:
        """Return a mask of the pieces of a sheet that are not its paper and extend beyond it."""
        _, labels = cv2.connectedComponents(body & (1 - paper), connectivity=8)
        at_edge = cv2.erode(body, _square(3), borderValue=1) == 0
        outside = cv2.dilate(body, _square(3)) == 0
        front = np.zeros_like(body)
        for piece in np.unique(labels[at_edge & (labels > 0)]):
            mask = labels == piece
            own = np.median(self.rgb[mask & at_edge], axis=0)
            is_like = _within(self.rgb, own, ALIKE * float(np.abs(colour - own).max())) > 0
            beyond = (cv2.dilate((mask & at_edge).astype(np.uint8), _square(7)) > 0) & outside
            if beyond.any() and is_like[beyond].mean() >= MIN_ALIKE:
                front[mask & is_like] = 1
        return front


def _is_pale(colours: NDArray[np.uint8] | NDArray[np.float64], tinge: float = 1.0) -> NDArray[np.bool_]:
    """Return which colours (..., 3) RGB paper may have, with `tinge` times its most colour allowed."""
    levels = colours.astype(np.float32)
    most, least = levels.max(axis=-1), levels.min(axis=-1)
    is_white: NDArray[np.bool_] = (most >= MIN_BRIGHTNESS) & (most - least <= tinge * MAX_CHROMA * most)
    return is_white & (levels[..., 2] - levels[..., 0] <= tinge * MAX_BLUE * most)


def _with_holes(piece: Mask) -> Mask:
    """Return a piece with its holes filled, and with the little that the picture's edge cuts off."""
    _, labels, stats, _ = cv2.connectedComponentsWithStats(1 - piece, connectivity=8)
    left, top, width, height, area = stats.T
    is_inside = (left > 0) & (top > 0) & (left + width < piece.shape[1]) & (top + height < piece.shape[0])
    is_part = is_inside | (area <= MAX_CUT * piece.sum())
    is_part[0] = True
    return is_part[labels].astype(np.uint8)


def _is_print(ink: NDArray[np.bool_], sheet: Mask) -> bool:
    """Return whether a sheet's strokes are many side by side, or fewer and dense, or in lines."""
    across, down = (
        (np.diff(ink.astype(np.int8), axis=axis, prepend=0) == 1).sum(axis=axis) for axis in (1, 0)
    )
    share = float(ink.sum()) / int(sheet.sum())
    is_line = bool(across.max() >= LINE_STROKES) and share >= MIN_LINE_INK
    in_lines = int((down >= DENSE_STROKES).sum()) >= MIN_LINES * int(sheet.any(axis=0).sum())
    return is_line or (share >= MIN_DENSE_INK and (in_lines or bool(across.max() >= DENSE_STROKES)))


def _most_frequent(colours: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the median of those colours (N, 3) that are close to the most others."""
    sample = colours[:: max(1, len(colours) // MAX_SAMPLES)].astype(np.int16)
    alike = np.abs(sample[:, None] - sample[None]).max(axis=2) <= SAME_COLOUR
    return np.median(sample[alike[alike.sum(axis=1).argmax()]], axis=0).astype(np.uint8)
