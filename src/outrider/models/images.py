"""From a JPEG to the patches the vision tower reads: Qwen2-VL's resize rule, normalisation and patch order.

Checked against transformers' `Qwen2VLImageProcessorPil`, which reads files with another JPEG decoder; here
both sides of the link decode the same bytes with OpenCV, so they see the same pixels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from outrider.core.errors import FrameError
from outrider.core.jpeg import jpeg_size

MIN_PIXELS = 56 * 56
MAX_PIXELS = 28 * 28 * 1280
MAX_ASPECT_RATIO = 200
CHANNEL_MEAN = np.array([0.48145466, 0.4578275, 0.40821073], dtype=np.float32)
CHANNEL_STD = np.array([0.26862954, 0.26130258, 0.27577711], dtype=np.float32)


@dataclass(frozen=True)
class PatchGeometry:
    """Side of a patch in pixels, patches merged per side, and frames a patch spans in time."""

    patch_px: int = 14
    merge: int = 2
    temporal: int = 2

    @property
    def factor_px(self) -> int:
        return self.patch_px * self.merge


def decode_jpeg(jpeg: bytes) -> NDArray[np.uint8]:
    """RGB pixels (H, W, 3). Raises FrameError for anything but a whole JPEG of bounded size."""
    jpeg_size(jpeg)
    try:
        pixels = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR)
    except cv2.error as error:
        raise FrameError(f"the JPEG cannot be decoded ({error.err}): check the camera") from error
    if pixels is None:
        raise FrameError(f"the JPEG of {len(jpeg)} bytes cannot be decoded: check the camera")
    return np.ascontiguousarray(pixels[:, :, ::-1]).astype(np.uint8, copy=False)


def model_size(height: int, width: int, factor_px: int) -> tuple[int, int]:
    """Height and width Qwen2-VL resizes to: multiples of the merged patch within its bounds on pixels."""
    if max(height, width) > MAX_ASPECT_RATIO * min(height, width):
        raise FrameError(
            f"frame is {width}x{height}; one side may be at most {MAX_ASPECT_RATIO} times the other"
        )
    rounded_h, rounded_w = (round(side / factor_px) * factor_px for side in (height, width))
    if rounded_h * rounded_w > MAX_PIXELS:
        shrink = math.sqrt(height * width / MAX_PIXELS)
        sides = (math.floor(side / shrink / factor_px) * factor_px for side in (height, width))
        rounded_h, rounded_w = (max(factor_px, side) for side in sides)
    elif rounded_h * rounded_w < MIN_PIXELS:
        grow = math.sqrt(MIN_PIXELS / (height * width))
        rounded_h, rounded_w = (math.ceil(side * grow / factor_px) * factor_px for side in (height, width))
    return rounded_h, rounded_w


def fit_to_model(rgb: NDArray[np.uint8], factor_px: int) -> NDArray[np.uint8]:
    """The picture at `model_size`; untouched where it already has it."""
    height, width = rgb.shape[:2]
    new_height, new_width = model_size(height, width, factor_px)
    if (new_height, new_width) == (height, width):
        return rgb
    shrinks = new_height * new_width < height * width
    interpolation = cv2.INTER_AREA if shrinks else cv2.INTER_CUBIC
    return cv2.resize(rgb, (new_width, new_height), interpolation=interpolation).astype(np.uint8, copy=False)


def patchify(rgb: NDArray[np.uint8], geometry: PatchGeometry) -> NDArray[np.float32]:
    """Normalised patches (N, 3 * temporal * patch * patch); the sides must be multiples of `factor_px`.

    Patches come merge block by merge block, as the tower merges them; a still fills all frames of its span.
    """
    height, width = rgb.shape[:2]
    patch, merge = geometry.patch_px, geometry.merge
    rows, columns = height // patch, width // patch
    normalised = (rgb.astype(np.float32) / np.float32(255.0) - CHANNEL_MEAN) / CHANNEL_STD
    blocks = normalised.reshape(rows // merge, merge, patch, columns // merge, merge, patch, 3)
    ordered = blocks.transpose(0, 3, 1, 4, 6, 2, 5)[:, :, :, :, :, None]
    spanned = np.broadcast_to(ordered, (*ordered.shape[:5], geometry.temporal, patch, patch))
    return spanned.reshape(rows * columns, -1)
