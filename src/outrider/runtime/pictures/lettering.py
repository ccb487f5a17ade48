# SPDX-License-Identifier: Apache-2.0
"""Writes text into pictures, uint8 (H, W, 3) in OpenCV's BGR order, in place."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

Picture = np.ndarray[Any, Any]
Colour = tuple[int, int, int]
At = tuple[int, int]

_KEPT_LINES = 512


def write_text(picture: Picture, text: str, at: At, size_px: float, colour: Colour) -> None:
    """Write a line of text whose baseline begins at `at`. Parts outside the picture are cut off."""
    mask, rise = _mask(_printable(text), round(size_px))
    x, y = at[0], at[1] - rise
    left, top = max(0, -x), max(0, -y)
    mask = mask[top : max(0, picture.shape[0] - y), left : max(0, picture.shape[1] - x)]
    height, width = mask.shape
    part = picture[y + top : y + top + height, x + left : x + left + width]
    part[:] = np.rint(part + mask[:, :, None] * (np.array(colour) - part))


def text_width(text: str, size_px: float) -> int:
    """Returns the width of a line of text in pixels."""
    return round(_font(round(size_px)).getlength(_printable(text)))


def shortened(text: str, size_px: float, width: int) -> str:
    """Returns the text, cut and followed by dots if it exceeds `width`."""
    if text_width(text, size_px) <= width:
        return text
    while text and text_width(f"{text}...", size_px) > width:
        text = text[:-1]
    return f"{text.rstrip()}..."


@lru_cache(_KEPT_LINES)
def _mask(text: str, size_px: int) -> tuple[Picture, int]:
    """Returns the share of ink in each pixel, 0 to 1 (H, W), and the row of the baseline."""
    font = _font(size_px)
    ascent, descent = font.getmetrics()
    image = Image.new("L", (max(1, text_width(text, size_px) + 2), ascent + descent))
    ImageDraw.Draw(image).text((0, ascent), text, font=font, fill=255, anchor="ls")
    return np.asarray(image) / 255.0, ascent


@lru_cache
def _font(size_px: int) -> ImageFont.FreeTypeFont:
    font = ImageFont.load_default(size_px)
    assert isinstance(font, ImageFont.FreeTypeFont)  # Pillow's wheels include FreeType
    return font


def _printable(text: str) -> str:
    """Returns the text with question marks for characters that the font lacks."""
    return text.replace("\n", " ").encode("latin-1", "replace").decode("latin-1")
