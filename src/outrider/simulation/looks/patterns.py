# SPDX-License-Identifier: Apache-2.0
"""Procedural textures: square pictures that a surface's own colour is multiplied with."""

from __future__ import annotations

from collections.abc import Callable

import cv2
import numpy as np

SIZE = 64
"""Side of a texture in pixels."""


def texture(rng: np.random.Generator, darkest: float) -> np.ndarray:
    """A pattern of a random kind, uint8 (SIZE, SIZE, 3), between `darkest` (0 to 1) and white."""
    kinds = list(_FIELDS)
    brightness = _FIELDS[kinds[int(rng.integers(len(kinds)))]](rng)
    shade = darkest + (1.0 - darkest) * np.clip(brightness, 0.0, 1.0)[..., None]
    tint = rng.uniform(0.92, 1.0, size=3)
    return np.rint(255.0 * shade * tint).astype(np.uint8)


def grain(rng: np.random.Generator) -> np.ndarray:
    """Clouds and grain: noise in several octaves, float (SIZE, SIZE)."""
    total, weights = np.zeros((SIZE, SIZE)), 0.0
    for octave in (4, 8, 16, SIZE):
        weight = float(rng.uniform(0.2, 1.0))
        coarse = rng.random((octave, octave)).astype(np.float32)
        total += weight * cv2.resize(coarse, (SIZE, SIZE), interpolation=cv2.INTER_CUBIC)
        weights += weight
    return total / weights


def stripes(rng: np.random.Generator) -> np.ndarray:
    """Soft or hard stripes, upright or level, float (SIZE, SIZE)."""
    wave = np.sin(2 * np.pi * (int(rng.integers(2, 9)) * np.arange(SIZE) / SIZE + rng.random()))
    line = 0.5 + 0.5 * np.clip(wave * rng.uniform(1.0, 6.0), -1.0, 1.0)
    field = np.tile(line, (SIZE, 1))
    return field if rng.random() < 0.5 else field.T


def tiles(rng: np.random.Generator) -> np.ndarray:
    """Tiles of slightly different brightness between dark joints, float (SIZE, SIZE)."""
    count = int(rng.choice([2, 4, 8]))
    side = SIZE // count
    field = np.kron(rng.uniform(0.6, 1.0, (count, count)), np.ones((side, side)))
    field[::side, :] = field[:, ::side] = 0.0
    return field


def planks(rng: np.random.Generator) -> np.ndarray:
    """Boards along one side, each with its own brightness and some grain, float (SIZE, SIZE)."""
    count = int(rng.choice([4, 8]))
    boards = np.repeat(rng.uniform(0.3, 1.0, count), SIZE // count)
    return 0.75 * boards[:, None] + 0.25 * grain(rng)


def speckles(rng: np.random.Generator) -> np.ndarray:
    """Dark flecks on white, float (SIZE, SIZE)."""
    flecks = (rng.random((SIZE, SIZE)) < rng.uniform(0.02, 0.15)).astype(np.float32)
    return 1.0 - np.minimum(1.0, 2.0 * cv2.GaussianBlur(flecks, (0, 0), float(rng.uniform(0.5, 1.5))))


_FIELDS: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "grain": grain,
    "stripes": stripes,
    "tiles": tiles,
    "planks": planks,
    "speckles": speckles,
}
