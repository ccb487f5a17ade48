"""Camera frames at the seam: raw pixels to the JPEG both models see, and JPEGs from outside checked."""

from __future__ import annotations

import struct
from typing import Any

import cv2
import numpy as np

from outrider.core.camera import JPEG_QUALITY, MODEL_IMAGE_HEIGHT, MODEL_IMAGE_WIDTH
from outrider.core.errors import FrameError

MAX_SIDE_PX = 4096
_START = b"\xff\xd8\xff"
_END = b"\xff\xd9"
_SIZE_MARKERS = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_BARE_MARKERS = frozenset(range(0xD0, 0xD9)) | {0x01}


def model_jpeg(rgb: np.ndarray[Any, Any]) -> bytes:
    """A camera picture, uint8 (H, W, 3) RGB, as the JPEG that both models will see.

    Raises FrameError for any other array.
    """
    if rgb.ndim != 3 or rgb.shape[2] != 3 or rgb.dtype != np.uint8 or rgb.size == 0:
        raise FrameError(f"a camera picture must be uint8 (H, W, 3), not {rgb.dtype} {rgb.shape}")
    small = cv2.resize(rgb, (MODEL_IMAGE_WIDTH, MODEL_IMAGE_HEIGHT), interpolation=cv2.INTER_AREA)
    encoded = cv2.imencode(".jpg", small[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])[1]
    return encoded.tobytes()


def check_jpeg(jpeg: bytes) -> None:
    """Raise FrameError unless the bytes are one whole, decodable JPEG of at most 4096x4096 pixels."""
    if not jpeg.startswith(_START):
        raise FrameError(f"the camera frame is no JPEG (it begins with {jpeg[:4].hex() or 'nothing'})")
    if not jpeg.rstrip(b"\0").endswith(_END):
        raise FrameError(f"the camera frame is a truncated JPEG ({len(jpeg)} bytes without an end marker)")
    width, height = _jpeg_size(jpeg)
    if not (0 < width <= MAX_SIDE_PX and 0 < height <= MAX_SIDE_PX):
        raise FrameError(
            f"the camera frame is {width}x{height}; at most {MAX_SIDE_PX}x{MAX_SIDE_PX} is taken"
        )
    if cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR) is None:
        raise FrameError(f"the camera frame is a JPEG that cannot be decoded ({len(jpeg)} bytes)")


def _jpeg_size(jpeg: bytes) -> tuple[int, int]:
    """Width and height from the header alone, so that a hostile size is refused before decoding."""
    position = 2
    while position + 4 <= len(jpeg) and jpeg[position] == 0xFF:
        marker = jpeg[position + 1]
        if marker in _BARE_MARKERS or marker == 0xFF:
            position += 1 if marker == 0xFF else 2
            continue
        if marker in _SIZE_MARKERS and position + 9 <= len(jpeg):
            height, width = struct.unpack_from(">HH", jpeg, position + 5)
            return width, height
        position += 2 + struct.unpack_from(">H", jpeg, position + 2)[0]
    raise FrameError("the camera frame is a JPEG without a picture header")
