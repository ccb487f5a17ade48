# SPDX-License-Identifier: Apache-2.0
"""What a correction means, such as "no, the other chair", after something was asked for."""

from __future__ import annotations

import math

from outrider.core.errors import InstructionError
from outrider.core.language.plan import Correct, Find
from outrider.core.values import Pose2D, wrap_angle
from outrider.runtime.mission.memory_queries import Recollection

BESIDE_M, BESIDE_RAD = 2.5, math.radians(100.0)


def corrected(
    correct: Correct, wanted: Find | None, recollection: Recollection | None, pose: Pose2D | None
) -> str:
    """The sentence that is meant. Raises InstructionError where nothing, or nothing known, is meant by it."""
    if wanted is None:
        raise InstructionError(f'"{correct.words}" corrects nothing: nothing was asked for before it')
    kind = correct.kind or wanted.thing.split()[-1]
    if correct.colour:
        return f"find the {correct.colour} {kind}"
    if recollection is None:
        raise InstructionError(f'"{correct.words}" needs a memory: say the whole thing, with its colour')
    found = _others(kind, wanted, recollection) if correct.other else []
    if correct.side and pose is not None:
        found = _beside(correct.side, wanted, recollection, pose)
    meant = next(iter(found), None)
    if meant is None:
        where = f"to the {correct.side} of the {wanted.thing}" if correct.side else f"as another {kind}"
        raise InstructionError(f"i have seen nothing {where}: say the whole thing, with its colour")
    return f"find the {meant}"


def _others(kind: str, wanted: Find, recollection: Recollection) -> list[str]:
    """Things of a kind that were seen here and are not the one last asked for."""
    seen = recollection.memory.seen_things(recollection.home)
    return [thing for thing in seen if thing.split()[-1] == kind and thing != wanted.thing]


def _beside(side: str, wanted: Find, recollection: Recollection, pose: Pose2D) -> list[str]:
    """Things that were seen on a side of the one last asked for, as the robot looks at it, nearest first."""
    memory, home = recollection.memory, recollection.home
    places = {
        thing: seen[0]
        for thing in memory.seen_things(home)
        if (seen := memory.sightings(thing, home, limit=1))
    }
    it = places.pop(wanted.thing, None)
    if it is None:
        return []
    sign = 1.0 if side == "left" else -1.0
    found = []
    for thing, place in places.items():
        turn = sign * wrap_angle(pose.bearing_to(place.x, place.y) - pose.bearing_to(it.x, it.y))
        apart = math.hypot(place.x - it.x, place.y - it.y)
        if 0.0 < turn < BESIDE_RAD and apart <= BESIDE_M:
            found.append((apart, thing))
    return [thing for _, thing in sorted(found)]
