# SPDX-License-Identifier: Apache-2.0
"""Converts a JPEG to the vision tower's patches: Qwen2-VL's resize rule, normalisation and patch order.

Checked against transformers' `Qwen2VLImageProcessorPil`, which uses another JPEG decoder. Here both sides
of the link decode the same bytes with OpenCV, so they see the same pixels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from outrider.core.errors import FrameError
from outrider.core.sensors.jpeg import jpeg_size
from outrider.models.inputs.printed_sheets import without_sheets

MAX_ASPECT_RATIO = 200
CHANNEL_MEAN = (0.48145466, 0.4578275, 0.40821073)
CHANNEL_STD = (0.26862954, 0.26130258, 0.27577711)

SizeRule = Callable[[int, int, int, int, int], tuple[int, int]]
"""Maps (height, width, factor, fewest pixels, most pixels) to the height and width that a model reads."""


def smart_resize(height: int, width: int, factor: int, min_pixels: int, max_pixels: int) -> tuple[int, int]:
    """Return multiples of `factor` within the bounds on pixels, with the nearest possible aspect ratio."""
    rounded_h, rounded_w = (round(side / factor) * factor for side in (height, width))
    if rounded_h * rounded_w > max_pixels:
        shrink = math.sqrt(height * width / max_pixels)
        rounded_h, rounded_w = (math.floor(side / shrink / factor) * factor for side in (height, width))
    elif rounded_h * rounded_w < min_pixels:
        grow = math.sqrt(min_pixels / (height * width))
        rounded_h, rounded_w = (math.ceil(side * grow / factor) * factor for side in (height, width))
    return rounded_h, rounded_w


@dataclass(frozen=True)
class Preprocessing:
    """A checkpoint's picture format; the defaults are Qwen2-VL's, and the shipped pair's.

    Side of a patch in pixels, patches merged per side, and frames that a patch spans in time; bounds on a
    picture's pixels and the rule for sizes within them; mean and deviation of its channels from 0 to 1;
    whether `printed_sheets` are removed, for a model that cannot read.
    """

    patch_px: int = 14
    merge: int = 2
    temporal: int = 2
    min_pixels: int = 56 * 56
    max_pixels: int = 28 * 28 * 1280
    mean: tuple[float, ...] = CHANNEL_MEAN
    std: tuple[float, ...] = CHANNEL_STD
    size_rule: SizeRule = smart_resize
    takes_out_sheets: bool = False

    @property
    def factor_px(self) -> int:
        """The pixels of which width and height have to be multiples."""
        return self.patch_px * self.merge


def decode_jpeg(jpeg: bytes) -> NDArray[np.uint8]:
    """Return RGB pixels (H, W, 3). Raises FrameError for anything but a complete JPEG of bounded size."""
    jpeg_size(jpeg)
    try:
        pixels = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR)
    except cv2.error as error:
        raise FrameError(f"the JPEG cannot be decoded ({error.err}): check the camera") from error
    if pixels is None:
        raise FrameError(f"the JPEG of {len(jpeg)} bytes cannot be decoded: check the camera")
    return np.ascontiguousarray(pixels[:, :, ::-1]).astype(np.uint8, copy=False)


def model_size(height: int, width: int, how: Preprocessing) -> tuple[int, int]:
    """Return height and width of the picture as the model reads it: multiples of the merged patch."""
    if max(height, width) > MAX_ASPECT_RATIO * min(height, width):
        raise FrameError(
            f"frame is {width}x{height}; one side may be at most {MAX_ASPECT_RATIO} times the other"
        )
    factor = how.factor_px
    new_height, new_width = how.size_rule(height, width, factor, how.min_pixels, how.max_pixels)
    return max(factor, new_height), max(factor, new_width)


def fit_to_model(rgb: NDArray[np.uint8], how: Preprocessing) -> NDArray[np.uint8]:
    """Return the picture at `model_size`, without printed sheets if they are to be removed."""
    sized = _resized(rgb, how)
    return without_sheets(sized) if how.takes_out_sheets else sized


def _resized(rgb: NDArray[np.uint8], how: Preprocessing) -> NDArray[np.uint8]:
    height, width = rgb.shape[:2]
    new_height, new_width = model_size(height, width, how)
    if (new_height, new_width) == (height, width):
        return rgb
    shrinks = new_height * new_width < height * width
    interpolation = cv2.INTER_AREA if shrinks else cv2.INTER_CUBIC
    return cv2.resize(rgb, (new_width, new_height), interpolation=interpolation).astype(np.uint8, copy=False)


def patchify(rgb: NDArray[np.uint8], how: Preprocessing) -> NDArray[np.float32]:
    """Return normalised patches (N, 3 * temporal * patch * patch); sides must be multiples of `factor_px`.

    The patches are in the order of merge blocks, as the tower merges them. A still picture fills all frames
    of a patch's time span.
    """
    height, width = rgb.shape[:2]
    patch, merge = how.patch_px, how.merge
    rows, columns = height // patch, width // patch
    mean, std = np.array(how.mean, np.float32), np.array(how.std, np.float32)
    normalised = (rgb.astype(np.float32) / np.float32(255.0) - mean) / std
    blocks = normalised.reshape(rows // merge, merge, patch, columns // merge, merge, patch, 3)
    ordered = blocks.transpose(0, 3, 1, 4, 6, 2, 5)[:, :, :, :, :, None]
    spanned = np.broadcast_to(ordered, (*ordered.shape[:5], how.temporal, patch, patch))
    return spanned.reshape(rows * columns, -1)
