# SPDX-License-Identifier: Apache-2.0
"""Sentences about records, relative to the robot's pose. Pure functions."""

from __future__ import annotations

from outrider.core.language.prompt import direction_words, metres_words
from outrider.core.values import Place, Pose2D, Record, RecordKind
from outrider.memory.store.ageing import is_possible

HERE_M = 0.5


def time_words(age_s: float) -> str:
    """Returns how long ago something was, in everyday words."""
    for unit_s, name in ((86_400.0, "day"), (3600.0, "hour"), (60.0, "minute")):
        number = int(age_s // unit_s)
        if number:
            return f"{number} {name}{'' if number == 1 else 's'} ago"
    return "just now"


def place_words(place: Place, pose: Pose2D | None, home: str) -> str:
    """Returns where a place is: from the robot's view if it is in the same home, and in coordinates."""
    spot = f"x {place.x:.1f}, y {place.y:.1f}"
    if place.home != home:
        return f"in another home ({place.home or 'unnamed'}: {spot})"
    if pose is None:
        return f"at {spot}"
    metres = pose.distance_to(place.x, place.y)
    if metres < HERE_M:
        return f"here ({spot})"
    way = direction_words(pose.bearing_to(place.x, place.y))
    return f"{metres_words(metres)} {way if way in ('ahead', 'behind') else f'to the {way}'} ({spot})"


def seen_answer(record: Record, pose: Pose2D | None, home: str, now_s: float) -> str:
    """Returns when and where a thing was seen, or what a person said about it."""
    known = is_possible(record.updated_s, now_s)
    when = time_words(max(0.0, now_s - record.updated_s)) if known else "at an unknown time"
    where = f" {place_words(record.place, pose, home)}" if record.place is not None else ""
    if record.kind is RecordKind.TOLD:
        return f'i was told {when}{where and "," + where}: "{record.text}"'
    return f"i saw the {record.text} {when},{where}"


def nothing_known_answer() -> str:
    """Returns the answer to a question about which nothing is remembered."""
    return "i remember nothing that answers this"


def not_seen_answer(what: str) -> str:
    """Returns the answer if a thing was neither seen nor described by a person."""
    return f"i have not seen any {what}, nor been told about it"
