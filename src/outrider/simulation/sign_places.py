# SPDX-License-Identifier: Apache-2.0
"""Places signs in a home: in view of the robot's start, and in every room."""

from __future__ import annotations

import math

import numpy as np

from outrider.core.values import Pose2D
from outrider.simulation.homes.floor_plans import Rect
from outrider.simulation.homes.home import WALL_HEIGHT, Home
from outrider.simulation.looks.signs import INKS, PAPERS, QR_TEXTS, SIGN_TEXTS, Sign

SIGN_STREAM = 47
START_SIGNS, ROOM_SIGNS, ATTEMPTS = 2, 2, 12
START_BEARING_RAD = math.radians(24.0)
WIDTHS_M, HEIGHT_TO_WIDTH, MIDDLES_M = (0.6, 1.0), (0.5, 0.75), (0.45, 0.8)
MIN_WIDTH_M, EDGE_M, OFF_M, FARTHEST_M = 0.3, 0.05, 0.004, 9.0
CODE_SHARE = 0.25


def place_signs(home: Home) -> tuple[Sign, ...]:
    """Returns the signs of a home, always the same. At least one faces the robot's start, if a wall does."""
    rng = np.random.default_rng([home.seed, SIGN_STREAM])
    signs: list[Sign] = []
    _add_from(home, home.start, START_BEARING_RAD, START_SIGNS, rng, signs)
    for room in home.rooms:
        _add_from(home, Pose2D(*room.centre, 0.0), math.pi, ROOM_SIGNS, rng, signs)
    return tuple(signs)


def _add_from(
    home: Home, eye: Pose2D, half_rad: float, number: int, rng: np.random.Generator, signs: list[Sign]
) -> None:
    """Add up to `number` signs that are visible from `eye`, within an angle to either side."""
    wanted = len(signs) + number
    for _ in range(ATTEMPTS):
        if len(signs) == wanted:
            return
        bearing = eye.yaw + float(rng.uniform(-half_rad, half_rad))
        sign = _sign_at(home, eye, bearing, rng)
        if sign is not None and all(_apart(sign, other) for other in signs):
            signs.append(sign)


def _apart(a: Sign, b: Sign) -> bool:
    return math.hypot(a.x - b.x, a.y - b.y) > (a.width + b.width) / 2 + EDGE_M


def _sign_at(home: Home, eye: Pose2D, bearing: float, rng: np.random.Generator) -> Sign | None:
    """Returns a sign on the first wall or furniture along a bearing; None if there is no room for it."""
    rects = [(wall, WALL_HEIGHT) for wall in home.walls]
    rects += [(rect, piece.height) for piece, rect in home.furniture]
    hits = [(hit, rect, top) for rect, top in rects if (hit := _entry(rect, eye, bearing)) is not None]
    if not hits:
        return None
    (distance, along_x), rect, top = min(hits, key=lambda one: one[0][0])
    x, y = eye.x + distance * math.cos(bearing), eye.y + distance * math.sin(bearing)
    room = home.room_of(x - 0.1 * math.cos(bearing), y - 0.1 * math.sin(bearing))
    if room is None:
        return None
    low, high = _free_span(rect, home.rooms[room], along_x)
    width = float(min(rng.uniform(*WIDTHS_M), high - low))
    if width < MIN_WIDTH_M:
        return None
    at = float(np.clip(x if along_x else y, low + width / 2, high - width / 2))
    height = min(width * float(rng.uniform(*HEIGHT_TO_WIDTH)), top - 2 * EDGE_M)
    middle = float(np.clip(rng.uniform(*MIDDLES_M), height / 2 + EDGE_M, top - EDGE_M - height / 2))
    sense = -math.copysign(1.0, math.sin(bearing) if along_x else math.cos(bearing))
    position = (at, y + sense * OFF_M) if along_x else (x + sense * OFF_M, at)
    yaw = math.atan2(sense, 0.0) if along_x else math.atan2(0.0, sense)
    return _printed(position, middle, yaw, (width, height), rng)


def _printed(
    position: tuple[float, float], z: float, yaw: float, size: tuple[float, float], rng: np.random.Generator
) -> Sign:
    is_code = bool(rng.random() < CODE_SHARE)
    text = str(rng.choice(QR_TEXTS if is_code else SIGN_TEXTS))
    paper, ink = int(rng.integers(len(PAPERS))), int(rng.integers(len(INKS)))
    return Sign(text, *position, z, yaw, *size, paper, ink, is_code)


def _free_span(rect: Rect, room: Rect, along_x: bool) -> tuple[float, float]:
    """Returns the start and end of a rectangle's face within a room, without its edges."""
    if along_x:
        return max(rect.x0, room.x0 + 0.1) + EDGE_M, min(rect.x1, room.x1 - 0.1) - EDGE_M
    return max(rect.y0, room.y0 + 0.1) + EDGE_M, min(rect.y1, room.y1 - 0.1) - EDGE_M


def _entry(rect: Rect, eye: Pose2D, bearing: float) -> tuple[float, bool] | None:
    """Returns the distance at which a ray enters a rectangle, and if by a face along x; None if never."""
    near, far, along_x = 0.0, FARTHEST_M, False
    axes = ((eye.x, math.cos(bearing), rect.x0, rect.x1), (eye.y, math.sin(bearing), rect.y0, rect.y1))
    for axis, (start, step, low, high) in enumerate(axes):
        if abs(step) < 1e-9:
            if not low <= start <= high:
                return None
            continue
        first, last = sorted(((low - start) / step, (high - start) / step))
        if first > near:
            near, along_x = first, axis == 1
        far = min(far, last)
    return (near, along_x) if 0.0 < near <= far else None
