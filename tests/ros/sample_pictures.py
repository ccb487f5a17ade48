"""A picture of noise, as pixels and as a JPEG file."""

from __future__ import annotations

import cv2
import numpy as np

from outrider.nodes.common import convert

STAMP = convert.time_of(12.5)


def picture() -> np.ndarray:
    return np.random.default_rng(1).integers(0, 255, (36, 64, 3), dtype=np.uint8)


def jpeg() -> bytes:
    return bytes(cv2.imencode(".jpg", picture())[1])
