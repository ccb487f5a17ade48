# SPDX-License-Identifier: Apache-2.0
"""What an agent may ask for: sentences that the plan grammar reads, at a bounded rate. Never a velocity."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from outrider.console.messages import MAX_COMMAND_CHARACTERS
from outrider.core.errors import BusyError, InstructionError, ProtocolError
from outrider.core.language.grammar import Vocabulary
from outrider.core.language.plan import Ask, Find, Forget, Plan, Remember, Where
from outrider.core.language.sentences.planner import plan_of
from outrider.core.token_bucket import TokenBucket

CALLS_PER_S, CALLS_AT_ONCE = 20.0, 40.0
SENTENCES_PER_S, SENTENCES_AT_ONCE = 1.0, 10.0
MOST_ID_SHOWN = 40
NOTED_STOPS_PER_S, NOTED_STOPS_AT_ONCE = 0.2, 10.0
ABOUT_MEMORY = (Where, Ask, Forget)
Request = str | int
"""The id of a request, which MCP has unique within a session."""


class NotUnderstoodError(InstructionError):
    """A sentence is no plan: whether a stop is meant by it is not known."""


@dataclass(frozen=True)
class Envelope:
    """`vocabulary` is that of the robot's models. `private`: whether the agent may hear private memories."""

    vocabulary: Vocabulary | None
    private: bool = False

    def plan(self, sentence: str) -> Plan:
        """The plan of a sentence that an agent may say. Raises InstructionError before anything moves, for
        what is no plan a NotUnderstoodError.
        """
        if len(sentence) > MAX_COMMAND_CHARACTERS:
            raise NotUnderstoodError(
                f"the sentence has {len(sentence)} characters: say it in at most {MAX_COMMAND_CHARACTERS}"
            )
        try:
            plan = plan_of(sentence, self.vocabulary)
        except InstructionError as error:
            raise NotUnderstoodError(str(error), error.meant) from None
        if Forget() in plan.steps:
            raise InstructionError("an agent forgets by a word, not everything: say what to forget")
        if not self.private and any(isinstance(step, (Where, Ask)) for step in plan.steps):
            raise InstructionError(
                "the answer may hold private memories, which this agent does not hear: `recall` tells the "
                "shareable ones, or start `outrider mcp` with --private"
            )
        return plan

    def may_hear(self, plan: Plan) -> bool:
        """Whether the agent is told what the robot says of a plan: that may quote private memories."""
        unknown = (isinstance(step, Find) and not step.known for step in plan.steps)
        return self.private or not (any(unknown) or any(isinstance(s, ABOUT_MEMORY) for s in plan.steps))

    def remembering(self, text: str) -> str:
        """The sentence that has a statement remembered, and nothing else."""
        return self._only("remember that", text, Remember)

    def forgetting(self, about: str) -> str:
        """The sentence that has memories of something forgotten, and nothing else."""
        with suppress(InstructionError):
            if Forget() in plan_of(f"forget {about}", self.vocabulary).steps:
                about = ""
        return self._only("forget about", about, Forget)

    def asking(self, question: str) -> str:
        """A question as it is. Raises InstructionError for a sentence that does anything else than ask."""
        if not self.plan(question).only_tells:
            raise InstructionError("that is no question: say with `goal` what to do")
        return question

    def _only(self, order: str, what: str, kind: type[Remember] | type[Forget]) -> str:
        sentence = f"{order} {what}"
        steps = self.plan(sentence).steps if what.strip() else ()
        if len(steps) != 1 or not isinstance(steps[0], kind):
            tool = kind.__name__.lower()
            raise InstructionError(f"that is nothing to {tool}: give one plain statement or thing")
        return sentence


class Pace:
    """How often one agent may call; each request speaks once. Stops are not counted.

    `haste` is how many times as often it may.
    """

    def __init__(self, clock: Callable[[], float], haste: float = 1.0) -> None:
        self._clock = clock
        self._calls = TokenBucket(haste * CALLS_PER_S, haste * CALLS_AT_ONCE, clock())
        self._sentences = TokenBucket(haste * SENTENCES_PER_S, haste * SENTENCES_AT_ONCE, clock())
        self._noted_stops = TokenBucket(NOTED_STOPS_PER_S, NOTED_STOPS_AT_ONCE, clock())
        self._spoken: set[bytes] = set()

    def notes_stop(self) -> bool:
        """Whether another stop is to be written down: that it is carried out does not hang on this."""
        return self._noted_stops.take(1.0, self._clock())

    def call(self) -> None:
        """Raises BusyError for one call too many."""
        if not self._calls.take(1.0, self._clock()):
            raise BusyError(
                f"more than {CALLS_PER_S:g} calls a second: wait; stop and cancel are always taken"
            )

    def sentence(self, request: Request) -> None:
        """Raises ProtocolError for a request that has spoken, BusyError for one sentence too many.

        Of those that have spoken a digest is kept for as long as the session lasts: an id may be long.
        """
        digest = hashlib.blake2b(repr(request).encode(), digest_size=16).digest()
        if digest in self._spoken:
            raise ProtocolError(
                f"request {str(request)[:MOST_ID_SHOWN]!r} has been taken before, and is not carried out "
                "again: give each request of a session an id of its own"
            )
        if not self._sentences.take(1.0, self._clock()):
            raise BusyError(
                f"more than {SENTENCES_PER_S:g} sentence a second: wait; stop and cancel are always taken"
            )
        self._spoken.add(digest)
