# SPDX-License-Identifier: Apache-2.0
"""The meaning of a correction such as "no, the other chair", after a request."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from outrider.core.errors import InstructionError
from outrider.core.language.grammar import Vocabulary
from outrider.core.language.plan import Correct, Find, sentence_to_find
from outrider.core.language.words.things import SIDES, SIZES, Thing, may_be
from outrider.core.values import Pose2D, Sighting, wrap_angle
from outrider.runtime.mission.memory_queries import Recollection

BESIDE_M, BESIDE_RAD = 2.5, math.radians(100.0)
_OPPOSITE = {
    **dict(zip(SIZES, SIZES[::-1], strict=True)),
    **dict(zip(SIDES, SIDES[::-1], strict=True)),
    "": "",
}


@dataclass(frozen=True)
class Corrections:
    """Resolves corrections for a robot at `pose`, with its memory and the words of its models."""

    vocabulary: Vocabulary | None
    recollection: Recollection | None
    pose: Pose2D | None

    def meant(self, correct: Correct, wanted: Find | None) -> str:
        """Returns the sentence that is meant.

        Raises InstructionError if there is nothing to correct, or nothing known fits.
        """
        if wanted is None:
            raise InstructionError(f'"{correct.words}" corrects nothing: nothing was asked for before it')
        it = Thing.of(wanted.thing)
        named = self._from_words(correct, it)
        thing = named.phrase if named is not None else self._from_memory(correct, it)
        return sentence_to_find(thing, wanted.room)

    def _from_words(self, correct: Correct, it: Thing) -> Thing | None:
        """Returns the thing if the words alone identify it; None if it must be looked up in memory."""
        kind = correct.kind or it.kind
        if correct.colour or correct.size or correct.side:
            whole = Thing(kind, correct.colour or it.colour, correct.size, correct.side)
            names = self.vocabulary is None or self.vocabulary.names(whole.phrase)
            return whole if names else replace(whole, colour=correct.colour)
        if correct.other and kind == it.kind and (it.size or it.side):
            return replace(it, size=_OPPOSITE[it.size], side=_OPPOSITE[it.side])
        return None

    def _from_memory(self, correct: Correct, it: Thing) -> str:
        """Returns the first thing in memory that may be meant. Raises InstructionError if there is none."""
        if self.recollection is None:
            raise InstructionError(f'"{correct.words}" needs a memory: say the whole thing, with its colour')
        memory, home = self.recollection.memory, self.recollection.home
        places = {
            thing: seen[0]
            for thing in memory.seen_things(home)
            if (seen := memory.sightings(thing, home, limit=1))
        }
        last = self._nearest([thing for thing in places if may_be(thing, it.phrase)], places)
        kind = correct.kind or it.kind
        others = [thing for thing in places if may_be(thing, kind) and thing != last]
        found = self._neighbours(correct.beside, last, places) if correct.beside else others
        if not found:
            where = f"to the {correct.beside} of the {it.phrase}" if correct.beside else f"as another {kind}"
            raise InstructionError(f"i have seen nothing {where}: say the whole thing, with its colour")
        return found[0]

    def _nearest(self, things: list[str], places: Mapping[str, Sighting]) -> str:
        """Returns the thing nearest to the robot, or the first if its pose is unknown; empty for none."""
        return min(things, key=lambda thing: self._distance_m(places[thing]), default="")

    def _distance_m(self, place: Sighting) -> float:
        return self.pose.distance_to(place.x, place.y) if self.pose is not None else 0.0

    def _neighbours(self, side: str, last: str, places: Mapping[str, Sighting]) -> list[str]:
        """Returns things seen to one side of the last one, from the robot's view, nearest first."""
        if self.pose is None or not last:
            return []
        it, pose = places[last], self.pose
        sign = 1.0 if side == "left" else -1.0
        found = []
        for thing, place in places.items():
            turn = sign * wrap_angle(pose.bearing_to(place.x, place.y) - pose.bearing_to(it.x, it.y))
            apart = math.hypot(place.x - it.x, place.y - it.y)
            if thing != last and 0.0 < turn < BESIDE_RAD and apart <= BESIDE_M:
                found.append((apart, thing))
        return [thing for _, thing in sorted(found)]
