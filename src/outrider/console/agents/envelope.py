# SPDX-License-Identifier: Apache-2.0
"""Limits what an agent may ask for: sentences of the plan grammar, at a bounded rate. Never a velocity."""

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
MAX_ID_SHOWN = 40
NOTED_STOPS_PER_S, NOTED_STOPS_AT_ONCE = 0.2, 10.0
ABOUT_MEMORY = (Where, Ask, Forget)
Request = str | int
"""The id of a request; MCP requires it to be unique within a session."""


class NotUnderstoodError(InstructionError):
    """A sentence is not a plan; it may still be meant as a stop."""


@dataclass(frozen=True)
class Envelope:
    """What an agent may say, and which answers it may receive.

    `vocabulary` is that of the robot's models. `private`: whether the agent may receive private memories.
    """

    vocabulary: Vocabulary | None
    private: bool = False

    def plan(self, sentence: str) -> Plan:
        """Return the plan of a sentence that an agent may say.

        Raises InstructionError before anything moves, NotUnderstoodError if the sentence is not a plan.
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
        """Whether the agent may receive the message about a plan, which may quote private memories."""
        unknown = (isinstance(step, Find) and not step.known for step in plan.steps)
        return self.private or not (any(unknown) or any(isinstance(s, ABOUT_MEMORY) for s in plan.steps))

    def remembering(self, text: str) -> str:
        """Return the sentence that has only `text` remembered. Raises InstructionError if it does more."""
        return self._only("remember that", text, Remember)

    def forgetting(self, about: str) -> str:
        """Return the sentence that has only `about` forgotten. Raises InstructionError if it does more."""
        with suppress(InstructionError):
            if Forget() in plan_of(f"forget {about}", self.vocabulary).steps:
                about = ""
        return self._only("forget about", about, Forget)

    def asking(self, question: str) -> str:
        """Return the question unchanged. Raises InstructionError if the sentence does more than ask."""
        if not self.plan(question).only_answers:
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
    """Rate limits of one agent. Each request may send one sentence; stops are not limited.

    `haste` multiplies the rates.
    """

    def __init__(self, clock: Callable[[], float], haste: float = 1.0) -> None:
        self._clock = clock
        self._calls = TokenBucket(haste * CALLS_PER_S, haste * CALLS_AT_ONCE, clock())
        self._sentences = TokenBucket(haste * SENTENCES_PER_S, haste * SENTENCES_AT_ONCE, clock())
        self._noted_stops = TokenBucket(NOTED_STOPS_PER_S, NOTED_STOPS_AT_ONCE, clock())
        self._spoken: set[bytes] = set()

    def notes_stop(self) -> bool:
        """Whether another stop may be noted in the journal. The stop itself is carried out regardless."""
        return self._noted_stops.take(1.0, self._clock())

    def call(self) -> None:
        """Count a call. Raises BusyError if it exceeds the rate."""
        if not self._calls.take(1.0, self._clock()):
            raise BusyError(
                f"more than {CALLS_PER_S:g} calls a second: wait; stop and cancel are always taken"
            )

    def sentence(self, request: Request) -> None:
        """Count a sentence. Raises ProtocolError for a repeated request id, BusyError above the rate.

        A digest of each id is kept for the whole session, because an id may be long.
        """
        digest = hashlib.blake2b(repr(request).encode(), digest_size=16).digest()
        if digest in self._spoken:
            raise ProtocolError(
                f"request {str(request)[:MAX_ID_SHOWN]!r} has been taken before, and is not carried out "
                "again: give each request of a session an id of its own"
            )
        if not self._sentences.take(1.0, self._clock()):
            raise BusyError(
                f"more than {SENTENCES_PER_S:g} sentence a second: wait; stop and cancel are always taken"
            )
        self._spoken.add(digest)
