# SPDX-License-Identifier: Apache-2.0
"""From a rendered picture to what a real camera makes of it."""

from __future__ import annotations

import cv2
import numpy as np

from outrider.simulation.looks.styles import PLAIN, Film


def develop(picture: np.ndarray, film: Film, rng: np.random.Generator) -> np.ndarray:
    """The picture, uint8 (height, width, 3) RGB, after everything of `film` but its JPEG."""
    if film == PLAIN.film:
        return picture
    blurred = cv2.GaussianBlur(picture, (0, 0), film.blur_px) if film.blur_px > 0.0 else picture
    gains = film.exposure * np.array(film.balance, np.float32)
    light = np.clip(blurred.astype(np.float32) / 255.0 * gains, 0.0, 1.0)
    level = film.black + film.contrast * (1.0 - film.black) * light**film.gamma
    if film.noise > 0.0:
        level += film.noise * rng.standard_normal(level.shape, dtype=np.float32)
    return np.rint(255.0 * np.clip(level, 0.0, 1.0)).astype(np.uint8)
