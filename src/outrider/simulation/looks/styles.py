# SPDX-License-Identifier: Apache-2.0
"""Looks by name. A name and a seed always give the same look; `plain` is the home as it is built."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import cv2
import numpy as np

from outrider.core.errors import ConfigError
from outrider.core.sensors.camera import JPEG_QUALITY
from outrider.simulation.looks.signs import Sign

Rgb = tuple[float, float, float]
WHITE: Rgb = (1.0, 1.0, 1.0)
LOOK_STREAM = 41


@dataclass(frozen=True)
class Lens:
    """How the camera differs from the nominal one. `focal` is a ratio, `pitch_rad` is positive downwards."""

    focal: float = 1.0
    raised_m: float = 0.0
    pitch_rad: float = 0.0


@dataclass(frozen=True)
class Film:
    """The processing of a picture, in this order. Intensities run from 0 to 1.

    Blur (standard deviation in pixels of the models' image), gain by `exposure` and per channel by
    `balance`, power `gamma`, scaling by `contrast` above the level `black`, noise (standard deviation),
    JPEG.
    """

    blur_px: float = 0.0
    exposure: float = 1.0
    balance: Rgb = WHITE
    gamma: float = 1.0
    contrast: float = 1.0
    black: float = 0.0
    noise: float = 0.0
    jpeg_quality: int = JPEG_QUALITY


@dataclass(frozen=True)
class Look:
    """A home's look. `seed` determines textures and the lamps' places; `light` scales every light.

    `signs` hang on its walls and furniture.
    """

    seed: int = 0
    textured: bool = False
    ceiling: bool = False
    lamps: int = 0
    light: Rgb = WHITE
    lens: Lens = field(default_factory=Lens)
    film: Film = field(default_factory=Film)
    signs: tuple[Sign, ...] = ()


PLAIN = Look()


def draw_look(name: str, seed: int) -> Look:
    """Returns the look of a name for a home. Raises ConfigError for an unknown name."""
    (known,) = checked_looks([name])
    if known == "plain":
        return PLAIN
    rng = np.random.default_rng([seed, LOOK_STREAM, LOOKS.index(known)])
    return replace(_STYLES[known](rng), seed=seed, lens=_lens(rng))


def checked_looks(names: Sequence[str]) -> tuple[str, ...]:
    """Returns the names. Raises ConfigError if one is unknown, or there is none."""
    wrong = [name for name in names if name not in LOOKS]
    if wrong or not names:
        raise ConfigError(f"look '{''.join(wrong[:1])}' is unknown; use {', '.join(LOOKS)}")
    return tuple(names)


def _lens(rng: np.random.Generator) -> Lens:
    return Lens(
        focal=float(rng.uniform(0.96, 1.04)),
        raised_m=float(rng.uniform(-0.02, 0.02)),
        pitch_rad=math.radians(float(rng.uniform(-1.5, 1.5))),
    )


def _textured(rng: np.random.Generator) -> Look:
    return Look(textured=True, ceiling=True, lamps=int(rng.integers(1, 4)), light=_tint(rng, 0.12))


def _dim(rng: np.random.Generator) -> Look:
    film = Film(exposure=float(rng.uniform(0.28, 0.55)), noise=float(rng.uniform(0.005, 0.02)))
    return Look(lamps=int(rng.integers(0, 2)), film=film)


def _warm(rng: np.random.Generator) -> Look:
    balance = (float(rng.uniform(1.05, 1.25)), 1.0, float(rng.uniform(0.6, 0.85)))
    return Look(
        ceiling=True, lamps=int(rng.integers(1, 3)), film=Film(balance=balance, exposure=_near_one(rng, 1.2))
    )


def _washed(rng: np.random.Generator) -> Look:
    film = Film(
        gamma=float(rng.uniform(0.45, 0.75)),
        contrast=float(rng.uniform(0.7, 1.0)),
        black=float(rng.uniform(0.0, 0.15)),
    )
    return Look(ceiling=bool(rng.random() < 0.7), film=film)


def _noisy(rng: np.random.Generator) -> Look:
    film = Film(
        blur_px=float(rng.uniform(0.2, 1.0)),
        exposure=_near_one(rng, 1.2),
        noise=float(rng.uniform(0.03, 0.08)),
        jpeg_quality=int(rng.integers(30, 60)),
    )
    return Look(film=film)


def _all(rng: np.random.Generator) -> Look:
    """Returns a look in which everything varies independently."""
    film = Film(
        blur_px=float(rng.uniform(0.2, 0.8)) * (rng.random() < 0.3),
        exposure=_near_one(rng, 2.0),
        balance=_tint(rng, 0.22),
        gamma=_near_one(rng, 2.0),
        contrast=float(rng.uniform(0.7, 1.0)),
        black=float(rng.uniform(0.0, 0.15)) * (rng.random() < 0.5),
        noise=float(rng.uniform(0.0, 0.05)) * (rng.random() < 0.5),
        jpeg_quality=int(rng.integers(35, 96)),
    )
    return Look(
        textured=bool(rng.random() < 0.6),
        ceiling=bool(rng.random() < 0.6),
        lamps=int(rng.integers(0, 4)),
        light=_tint(rng, 0.12),
        film=film,
    )


def _tint(rng: np.random.Generator, spread: float) -> Rgb:
    red, green, blue = (float(rng.uniform(1.0 - spread, 1.0 + spread)) for _ in range(3))
    return red, green, blue


def _near_one(rng: np.random.Generator, most: float) -> float:
    """Returns a factor between 1 / `most` and `most`, below one as often as above."""
    return float(most ** rng.uniform(-1.0, 1.0))


_STYLES: dict[str, Callable[[np.random.Generator], Look]] = {
    "textured": _textured,
    "dim": _dim,
    "warm": _warm,
    "washed": _washed,
    "noisy": _noisy,
    "all": _all,
}
LOOKS = ("plain", *_STYLES)


def develop(picture: np.ndarray, film: Film, rng: np.random.Generator) -> np.ndarray:
    """Returns the picture, uint8 (height, width, 3) RGB, after all steps of `film` but the JPEG."""
    if film == PLAIN.film:
        return picture
    blurred = cv2.GaussianBlur(picture, (0, 0), film.blur_px) if film.blur_px > 0.0 else picture
    gains = film.exposure * np.array(film.balance, np.float32)
    light = np.clip(blurred.astype(np.float32) / 255.0 * gains, 0.0, 1.0)
    level = film.black + film.contrast * (1.0 - film.black) * light**film.gamma
    if film.noise > 0.0:
        level += film.noise * rng.standard_normal(level.shape, dtype=np.float32)
    return np.rint(255.0 * np.clip(level, 0.0, 1.0)).astype(np.uint8)
