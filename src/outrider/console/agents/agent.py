# SPDX-License-Identifier: Apache-2.0
"""One agent: the calls it may make, rate-limited, over its own connection to the console."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from outrider.console import messages as m
from outrider.console.agents.address import ConsoleAddress
from outrider.console.agents.calls.reader import Reader
from outrider.console.agents.envelope import Envelope, NotUnderstoodError, Pace, Request
from outrider.console.agents.link import ConsoleLink
from outrider.console.agents.stopper import ENGAGED
from outrider.console.notes import Note
from outrider.console.seat import SILENCE_S
from outrider.core.errors import BusyError, LinkError, OutriderError
from outrider.core.language.plan import Plan, Wait
from outrider.core.language.sentences.stops import read_phrases
from outrider.core.language.words.things import seen_as

ANSWER_S, MAX_WAIT_S, STANDSTILL_TIMEOUT_S, SOON_S = 60.0, 600.0, 3.0, 0.2
E_STOPPED = (
    "the emergency stop is engaged, and nothing moves: a person who has the driver's seat releases it, at "
    "the console; then say it again"
)
ORDERS = ("goal", "ask")
"""The calls whose sentence may be meant as a stop."""
OVERTAKEN = "not carried out: a stop or a cancel has come since it was said; say it again"
IN_DOUBT = "; in doubt the robot stands: what was under way is cancelled"
NOTHING_RECEIVED = "\nnothing has been heard of the robot so far: is it connected to its console?"
MAX_RECALLED = 20
PRESENCE_PERIOD_S = 1.0
IsThere = Callable[[], bool]
"""Whether the agent is still there; once it is not, its running command ends."""


def always_there() -> bool:
    """Return True: for a command that moves nothing and may finish without the agent."""
    return True


@dataclass(frozen=True)
class AgentSettings:
    """Settings shared by all agents of a server. `words` lists what can be said to the robot.

    `haste` multiplies the permitted call rate, for trials. While an agent's command runs, the agent is
    pinged every `presence_period_s`; it counts as gone after `silence_s` without a message.
    """

    address: ConsoleAddress
    envelope: Envelope
    words: str
    name: str = "mcp"
    haste: float = 1.0
    silence_s: float = SILENCE_S
    presence_period_s: float = PRESENCE_PERIOD_S


class Agent:
    """One agent. A refused call raises OutriderError; no stop is refused. Commands and stops are noted."""

    def __init__(
        self, settings: AgentSettings, note: Note, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings, self._note = settings, note
        self._envelope = settings.envelope
        self._link = ConsoleLink(settings.address, settings.name)
        self._pace = Pace(clock, settings.haste)
        self._opening, self._reader = asyncio.Lock(), Reader()
        self._last_result, self._num_stops = "", 0
        self._watching: asyncio.Task[None] | None = None
        read_phrases()
        self._num_refused = self._num_refused_noted = 0

    @property
    def name(self) -> str:
        """The agent's name at the console; before it is connected, the name from the settings."""
        return self._link.name or f"agent {self._settings.name}"

    async def close(self) -> None:
        """Close the connection, which ends this agent's running command."""
        if self._watching is not None:
            self._watching.cancel()
        self._note_refusals()
        await self._link.close()

    async def stop(self) -> str:
        """Engage the emergency stop at once; never refused."""
        self._num_stops += 1
        await self._link.e_stop()
        self._note_stop("stop")
        warning = "" if not self._link.received.state.unheard else "; nobody on the robot's side listens"
        return f"{ENGAGED}{warning}; a person releases it, at the console"

    async def cancel(self) -> str:
        """End the running command, whoever gave it, and report whether the robot was seen to stand."""
        self._num_stops += 1
        await self._open()
        await self._link.cancel()
        self._note_stop("cancel")
        if await self._link.stands(STANDSTILL_TIMEOUT_S):
            return "cancelled: the robot stands"
        return (
            "the robot was asked to stop, and has not been seen to stand: `status` says whether it moves, "
            "`stop` is the emergency stop"
        )

    async def goal(
        self, request: Request, sentence: str, wait_s: float = 0.0, is_there: IsThere = always_there
    ) -> str:
        """Have a sentence carried out; wait up to `wait_s` seconds for its end."""
        wait_s = min(wait_s, MAX_WAIT_S)
        return await self._order("goal", sentence, request, lambda: sentence, wait_s, is_there)

    async def refuse(self, reason: str, said: Iterable[str]) -> str:
        """Return the refusal of a call that was not understood.

        If a text in `said` orders a stop, cancel the running command. Otherwise, in doubt, cancel what this
        agent has under way.
        """
        with suppress(OutriderError), self._counting_refusals():
            raise OutriderError(reason)
        with suppress(BusyError):  # too many sentences wait to be read
            if await self._reader.says_to_stop(said):
                return f"{reason}; it says to stop: {await self.cancel()}"
        return reason + await self._cancel_in_doubt()

    async def ask(self, request: Request, question: str) -> str:
        """Return the answer to a question, without motion; a sentence that orders a stop only cancels."""
        return await self._order("ask", question, request, lambda: self._envelope.asking(question))

    async def remember(self, request: Request, text: str) -> str:
        """Have a statement remembered."""
        return await self._sentence("remember", request, lambda: self._envelope.remembering(text))

    async def forget(self, request: Request, about: str) -> str:
        """Have the memories of something forgotten."""
        return await self._sentence("forget", request, lambda: self._envelope.forgetting(about))

    async def recall(self, what: str) -> str:
        """Return the shareable memories with a position that contain all these words, as JSON."""
        await self._look()
        words = seen_as(what.lower()).split() if what.strip() else []
        things = self._link.received.memories.things
        matches = [thing for thing in things if all(word in thing.what.lower() for word in words)]
        return _json(matches[:MAX_RECALLED])

    async def status(self) -> str:
        """Return the state of the robot, with this agent's name and last result, as JSON."""
        await self._look()
        state = msgspec.to_builtins(self._link.received.state)
        return _json({**state, "you": self.name, "last_goal": self._last_result})

    async def words(self) -> str:
        """Return what can be said to the robot."""
        with self._counting_refusals():
            self._pace.call()
        return self._settings.words

    async def picture(self) -> bytes:
        """The newest picture, as JPEG."""
        await self._look()
        return await self._link.picture()

    async def map(self) -> str:
        """Return pose, trail, walls, sightings and memories as JSON, in metres and radians."""
        await self._look()
        received = self._link.received
        return _json(
            {
                "pose": received.state.pose,
                "trail": received.trail,
                "cell_m": received.cell_m,
                "walls": sorted(received.walls),
                "sights": received.sights,
                "memories": received.memories,
            }
        )

    async def log(self) -> str:
        """Return the recent events as JSON, oldest first."""
        await self._look()
        return _json(list(self._link.received.log))

    async def _order(
        self,
        call: str,
        said: str,
        request: Request,
        sentence: Callable[[], str],
        wait_s: float = ANSWER_S,
        is_there: IsThere = always_there,
    ) -> str:
        """Carry out a sentence. One that orders a stop only cancels, and does not count towards the rate."""
        since = self._num_stops
        with self._counting_refusals():
            try:
                is_stop = await self._reader.says_to_stop([said])
            except BusyError as error:
                raise BusyError(f"{error}{await self._cancel_in_doubt()}") from None
        if is_stop:
            report = await self.cancel()
            rest = await self._reader.left_by_a_stop(said)
            return f"{report}; {rest}" if rest else report
        return await self._sentence(call, request, sentence, wait_s, is_there, since)

    async def _sentence(
        self,
        call: str,
        request: Request,
        sentence: Callable[[], str],
        wait_s: float = ANSWER_S,
        is_there: IsThere = always_there,
        since: int | None = None,
    ) -> str:
        """Check a sentence, then send it. If its call is withdrawn or its agent goes, the command ends.

        `since` is the number of stops when the sentence was given; a later stop voids the sentence.
        """
        since = self._num_stops if since is None else since
        with self._counting_refusals():
            text, plan = await self._read(call, request, sentence)
            self._note(self.name, "call", call, said=text)
            await self._open()
            if self._link.is_busy and isinstance(plan.steps[0], Wait):  # it begins with a wait: stand now
                rest = "" if len(plan.steps) == 1 else "; the rest is not carried out: say it anew"
                return await self.cancel() + rest
            await self._link.settle_cancels()  # while it waits, a stop may come
            if self._link.received.state.e_stop and call == "goal" and not plan.only_answers:
                raise LinkError(E_STOPPED)
            if since != self._num_stops:
                raise LinkError(OVERTAKEN)
            try:
                ended = await self._link.say(text)
                return await self._end(plan, ended, wait_s, is_there)
            except asyncio.CancelledError:
                self._watching = asyncio.create_task(self._cancel_own())
                raise

    async def _read(self, call: str, request: Request, sentence: Callable[[], str]) -> tuple[str, Plan]:
        """Return the sentence and its plan. Raises OutriderError if it is refused.

        An order that is not understood, or exceeds a rate, may be meant as a stop: it cancels what this
        agent has under way.
        """
        try:
            self._pace.call()
            self._pace.sentence(request)
            return await self._reader.read(lambda: self._planned(sentence()))
        except (BusyError, NotUnderstoodError) as error:
            report = await self._cancel_in_doubt() if call in ORDERS else ""
            raise type(error)(f"{error}{report}") from None

    def _planned(self, text: str) -> tuple[str, Plan]:
        return text, self._envelope.plan(text)

    async def _cancel_in_doubt(self) -> str:
        """Cancel what this agent has under way, and nothing of others; return words that say so."""
        self._num_stops += 1
        if not self._link.is_busy:
            return ""
        await self._link.cancel()
        self._note_stop("doubt")
        return IN_DOUBT

    async def _end(self, plan: Plan, ended: asyncio.Future[m.Goal], wait_s: float, is_there: IsThere) -> str:
        ended.add_done_callback(lambda future: self._on_end(plan, future.result()))
        self._watching = asyncio.create_task(self._watch(ended, is_there))
        await asyncio.wait([ended], timeout=max(wait_s, SOON_S))
        if ended.done():
            return self._result_text(plan, ended.result())
        state = self._link.received.state
        warning = f"\nthe console warns: {state.warning}" if state.warning else ""
        unheard = "" if warning or state.link or state.pose else NOTHING_RECEIVED
        return f"under way:\n{plan.text()}{warning}{unheard}"

    async def _watch(self, ended: asyncio.Future[m.Goal], is_there: IsThere) -> None:
        """End the command once its agent is no longer there."""
        while is_there() and not ended.done():
            await asyncio.wait([ended], timeout=self._settings.presence_period_s)
        if not ended.done():
            await self._cancel_own()

    async def _cancel_own(self) -> None:
        """End this agent's command, if one is under way."""
        if self._link.is_busy:
            self._note(self.name, "gone", "its command ends")
            with suppress(LinkError):
                await self._link.cancel()

    def _on_end(self, plan: Plan, goal: m.Goal) -> None:
        self._last_result = self._result_text(plan, goal)

    def _result_text(self, plan: Plan, goal: m.Goal) -> str:
        message = goal.message if self._envelope.may_hear(plan) else ""
        return ": ".join(filter(None, (goal.state, message)))

    def _note_stop(self, call: str) -> None:
        """Note a stop at a limited rate: a flood must not push older lines out of the journal."""
        if self._pace.notes_stop():
            self._note(self.name, "call", call)

    async def _look(self) -> None:
        """Admit a call, and wait for a new state from the console."""
        with self._counting_refusals():
            self._pace.call()
            await self._open()
            await self._link.state()

    async def _open(self) -> None:
        async with self._opening:
            if not self._link.is_open:
                await self._link.close()
                self._link = ConsoleLink(self._settings.address, self._settings.name)
                await self._link.open()

    @contextmanager
    def _counting_refusals(self) -> Iterator[None]:
        """Count refused calls. Their number is noted at one, two, four and so on, and at the end."""
        try:
            yield
        except OutriderError:
            self._num_refused += 1
            if self._num_refused & (self._num_refused - 1) == 0:
                self._note_refusals()
            raise

    def _note_refusals(self) -> None:
        if self._num_refused > self._num_refused_noted:
            self._num_refused_noted = self._num_refused
            self._note(self.name, "refused", f"calls, {self._num_refused} so far")


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
