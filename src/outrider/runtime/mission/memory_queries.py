# SPDX-License-Identifier: Apache-2.0
"""Keeps people's statements in the robot's memory, and finds answers and destinations in it.

The types of the results separate private data from the prompt. `Destination`s and replies come from all
records, private ones too, and stay on the robot: its own map and guide lead it to a destination.
`Sighting`s hold no words of a person and may enter the prompt for the cloud.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from outrider.core.language.plan import Ask, Remember, Where
from outrider.core.language.words.things import Thing, seen_as
from outrider.core.values import Place, Pose2D, Recalled, Record, RecordKind, Sighting
from outrider.memory.answers import not_seen_answer, nothing_known_answer, place_words, seen_answer
from outrider.memory.language.landmarks import landmark_of
from outrider.memory.store.records import RecordFilter
from outrider.memory.store.store import MemoryStore
from outrider.navigation.goal.guide import Destination

ALIKE = 0.55
ANSWERS = 0.35
"""The least similarity at which a record counts as an answer to a question."""
MAX_STATEMENTS = 5
MAX_IN_ANSWER = 2
MAX_DOCUMENTS = 3
EXACT_SCORE = 1.0
REACH_M = 0.9
STATEMENTS = RecordFilter(kind=RecordKind.TOLD)


@dataclass(frozen=True)
class Recollection:
    """The memory of a robot in one home. `now_s` gives seconds since the epoch."""

    memory: MemoryStore
    home: str
    now_s: Callable[[], float]

    def reply(self, question: Where | Ask, pose: Pose2D | None) -> str:
        """Returns the answer to a question. Raises MemoryStoreError."""
        records = self._records(question)
        if records:
            return "; ".join(seen_answer(record, pose, self.home, self.now_s()) for record in records)
        return nothing_known_answer() if isinstance(question, Ask) else not_seen_answer(question.what)

    def knows(self, question: Where | Ask) -> bool:
        """Whether any record answers a question."""
        return bool(self._records(question))

    def documents(self, question: Where | Ask, pose: Pose2D | None) -> list[tuple[str, float]]:
        """Returns private sentences that may answer a question, best first, each with its relevance."""
        found = self.memory.recall(question.question, MAX_DOCUMENTS)
        scores = {recalled.record.id: recalled.score for recalled in found}
        records = {record.id: record for record in (*self._records(question), *map(_matched, found))}
        best = list(records.values())[:MAX_DOCUMENTS]
        return [
            (f"{seen_answer(r, pose, self.home, self.now_s())}.", scores.get(r.id, EXACT_SCORE)) for r in best
        ]

    def sightings(self, thing: str) -> list[Sighting]:
        """Returns where a thing was seen here, newest last, for the prompt.

        For a thing without a colour it is the newest sighting of its kind.
        """
        name = seen_as(thing)
        if Thing.of(name).colour:
            return self.memory.sightings(name, self.home)
        newest = self.memory.seen_of_kind(name, self.home, limit=1)
        return [Sighting(r.text, r.place.x, r.place.y) for r in newest if r.place is not None]

    def destination(self, thing: str) -> Destination | None:
        """Returns where a thing is according to a person; None unless that place is known here."""
        named, alike = self._statements_about(thing)
        for record in (*named, *alike):
            found = self._place_of(record, thing)
            if found is not None:
                return found
        return None

    def hint(self, thing: str) -> str:
        """Returns why a thing that a person described has no destination; empty if nobody described it."""
        named, alike = self._statements_about(thing)
        statements = [*named, *alike]
        if not statements:
            return ""
        return f'i was told "{statements[0].text}", but have not seen that place in this home yet'

    def remember(self, step: Remember, pose: Pose2D | None) -> str:
        """Keep a statement and return the sentence that confirms it. Raises MemoryStoreError."""
        place = Place(pose.x, pose.y, self.home) if step.here and pose is not None else None
        record = self.memory.add(step.text, visibility=step.visibility, place=place, time_s=self.now_s())
        where = f", {place_words(place, pose, self.home)}" if place is not None else ""
        return f"i will remember ({record.visibility.value}): {record.text}{where}"

    def _records(self, question: Where | Ask) -> list[Record]:
        """Returns the records that answer a question.

        For a place: the newest sighting of the thing, else what a person said and the newest sighting of
        its kind. Of statements that hold the words of the question, the two newest, since things are moved.
        """
        if isinstance(question, Where):
            what = question.what
            name = seen_as(what)
            seen = self.memory.seen(name, limit=1)
            named, alike = self._statements_about(what)
            if not (named or alike):
                named, alike = self._statements_about(question.original_words or what)
            statements = named[:MAX_IN_ANSWER] or alike[:1]
            return seen or [*statements, *self.memory.seen_of_kind(name, limit=1)]
        holding = self.memory.holding(question.question)
        found = self.memory.recall(question.question, MAX_DOCUMENTS + len(holding))
        answers = [_matched(match) for match in found if match.similarity >= ANSWERS]
        statements = [match for match in answers if match.id in holding and match.kind is RecordKind.TOLD]
        return _newest_first(statements)[:MAX_IN_ANSWER] or answers[:1]

    def _statements_about(self, what: str) -> tuple[list[Record], list[Record]]:
        """Returns statements about a thing: by its name, newest first; by similar names, best first."""
        if not self.memory.newest(1, STATEMENTS):
            return [], []  # without loading the embedder
        holding = self.memory.holding(what)
        found = self.memory.recall(what, MAX_STATEMENTS + len(holding), STATEMENTS)
        named = [match.record for match in found if match.record.id in holding]
        alike = [
            match.record for match in found if match.record.id not in holding and match.similarity >= ALIKE
        ]
        return _newest_first(named), alike

    def _place_of(self, record: Record, what: str) -> Destination | None:
        if record.place is not None:
            there = record.place
            return Destination(there.x, there.y, REACH_M) if there.home == self.home else None
        landmark = landmark_of(record.text, self.memory.seen_things(self.home), seen_as(what))
        seen = self.memory.sightings(landmark, self.home, limit=1) if landmark else []
        return Destination(seen[0].x, seen[0].y, REACH_M) if seen else None


def _newest_first(records: list[Record]) -> list[Record]:
    """Returns the records by number, newest first: the clock may have been set in between."""
    return sorted(records, key=lambda record: -record.id)


def _matched(found: Recalled) -> Record:
    """Returns the record with only the matching passage as its text: a long text is not repeated whole."""
    return replace(found.record, text=found.passage or found.record.text)
