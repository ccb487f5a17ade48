# SPDX-License-Identifier: Apache-2.0
"""Converts a camera picture to the JPEG that both models see."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np

from outrider.core.errors import FrameError
from outrider.core.sensors.camera import JPEG_QUALITY, MODEL_IMAGE_HEIGHT, MODEL_IMAGE_WIDTH


def model_jpeg(rgb: np.ndarray[Any, Any]) -> bytes:
    """Returns a camera picture, uint8 (H, W, 3) RGB, as the JPEG that both models see.

    Raises FrameError for any other array.
    """
    if rgb.ndim != 3 or rgb.shape[2] != 3 or rgb.dtype != np.uint8 or rgb.size == 0:
        raise FrameError(f"a camera picture must be uint8 (H, W, 3), not {rgb.dtype} {rgb.shape}")
    small = cv2.resize(rgb, (MODEL_IMAGE_WIDTH, MODEL_IMAGE_HEIGHT), interpolation=cv2.INTER_AREA)
    encoded = cv2.imencode(".jpg", small[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])[1]
    return encoded.tobytes()
