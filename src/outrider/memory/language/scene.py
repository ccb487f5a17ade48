# SPDX-License-Identifier: Apache-2.0
"""Reads the things that a verified text reports as seen, and places them on the floor. Pure functions.

The texts name things like "silver bottle left 20 at 2.3 m": degrees to a side or ahead, and metres.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from outrider.core.values import Place, Pose2D

MAX_NAME_WORDS = 4
MAX_DISTANCE_M = 8.0
DOOR = "door"
_SEEN = re.compile(
    r"(?:^|[:;,.]) *(?P<what>[a-z]+(?: [a-z]+)*?) "
    r"(?:ahead|(?P<side>left|right) (?P<degrees>\d{1,3})) at (?P<metres>\d{1,2}(?:\.\d)?) m\b"
)


@dataclass(frozen=True)
class Seen:
    """A thing in view: bearing in radians (left positive), metres from the robot's middle."""

    what: str
    bearing_rad: float
    distance_m: float


def things_seen(text: str) -> list[Seen]:
    """Returns the things that a text locates, without those it rules out ("no red ball") or too far away."""
    reason = text.partition("\n")[2]
    seen = [_seen(match) for match in _SEEN.finditer(reason)]
    return [thing for thing in seen if thing is not None]


def place_of(thing: Seen, pose: Pose2D, home: str) -> Place:
    """Returns where a thing is, seen from a pose."""
    heading = pose.yaw + thing.bearing_rad
    x = pose.x + thing.distance_m * math.cos(heading)
    return Place(x, pose.y + thing.distance_m * math.sin(heading), home)


def _seen(match: re.Match[str]) -> Seen | None:
    words = match["what"].split()
    metres = float(match["metres"])
    if words[0] in ("no", "not") or len(words) > MAX_NAME_WORDS or not 0.0 < metres <= MAX_DISTANCE_M:
        return None
    what = DOOR if words == ["way", "out"] else " ".join(words)
    degrees = int(match["degrees"] or 0) * (-1 if match["side"] == "right" else 1)
    return Seen(what, math.radians(degrees), metres) if abs(degrees) <= 180 else None
