"""While agents' sentences are read, however long that takes, no agent's stop waits for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Iterator
from typing import Any, TypeVar

import pytest

pytest.importorskip("mcp", reason="the extra mcp is not installed")

from support.agents import agent_settings
from support.consoles import FakeRobot

from outrider.console.agents.agent import OVERTAKEN, Agent
from outrider.console.agents.calls import reader
from outrider.console.agents.calls.reader import MAX_READ, MAX_WAITING, parts_of
from outrider.console.agents.envelope import Envelope
from outrider.console.agents.stopper import ENGAGED
from outrider.console.messages import MAX_COMMAND_CHARACTERS
from outrider.console.notes import note_nothing
from outrider.console.sentences.reading import is_plain_stop
from outrider.console.server import ConsoleServer
from outrider.core.errors import BusyError, LinkError
from outrider.core.language.sentences.stops import says_to_stop
from outrider.core.language.words.phrasebook import stop_words

LIMIT_S = 20.0
_Given = TypeVar("_Given")


class Reading:
    """Stands in for the reading of a sentence, which ends when the test says so."""

    def __init__(self) -> None:
        self.begun, self.may_end = threading.Event(), threading.Event()
        self.read: list[str] = []

    def __call__(self, sentence: str) -> bool:
        self.read.append(sentence)
        self.begun.set()
        assert self.may_end.wait(LIMIT_S)
        return says_to_stop(sentence)


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Iterator[Reading]:
    made = Reading()
    monkeypatch.setattr(reader, "says_to_stop", made)
    yield made
    made.may_end.set()


def agent(console: ConsoleServer) -> Agent:
    return Agent(agent_settings(console, Envelope(None)), note_nothing, lambda: 0.0)


async def soon(work: Awaitable[_Given]) -> _Given:
    return await asyncio.wait_for(work, LIMIT_S / 2)


async def begun(reading: Reading) -> None:
    assert await asyncio.to_thread(reading.begun.wait, LIMIT_S)


@pytest.mark.lengthy
def test_no_stop_of_any_agent_waits_for_sentences_that_are_read(
    console: ConsoleServer, robot: FakeRobot, reading: Reading
) -> None:
    async def run() -> None:
        one, other = agent(console), agent(console)
        goals = [asyncio.create_task(one.goal(n, "turn left")) for n in range(5)]
        refusing = asyncio.create_task(one.refuse("no such tool", ["turn left"]))
        await begun(reading)
        for stopping in (other, one):
            assert (await soon(stopping.cancel())).startswith("cancelled")
            for number, said in enumerate(("stop", "Stop!", "halt, halt", "STOPP")):
                assert (await soon(stopping.goal(100 + number, said))).startswith("cancelled")
                assert (await soon(stopping.ask(200 + number, said))).startswith("cancelled")
            assert ENGAGED in await soon(stopping.stop())
        reading.may_end.set()
        for goal in goals:
            with pytest.raises(LinkError, match="stop"):
                await soon(goal)
        assert await soon(refusing) == "no such tool"
        await one.close()
        await other.close()

    asyncio.run(run())
    assert robot.e_stops and all(robot.e_stops) and robot.goals == []


def test_a_goal_that_a_cancel_overtakes_does_not_begin(
    console: ConsoleServer, robot: FakeRobot, reading: Reading
) -> None:
    async def run() -> None:
        one = agent(console)
        goal = asyncio.create_task(one.goal(1, "turn left"))
        await begun(reading)
        await soon(one.cancel())
        reading.may_end.set()
        with pytest.raises(LinkError, match=OVERTAKEN):
            await soon(goal)
        assert "turn right" in await soon(one.goal(2, "turn right"))
        await one.close()

    asyncio.run(run())
    assert [said for said, _ in robot.goals] == ["turn right"]


@pytest.mark.parametrize("stops", ["cancel", "stop"])
def test_a_goal_that_is_overtaken_while_an_earlier_cancel_is_unanswered_does_not_begin(
    console: ConsoleServer, robot: FakeRobot, stops: str
) -> None:
    noted, is_held, may_go_on = asyncio.Event(), threading.Event(), threading.Event()

    def note(who: str, did: str, what: str = "", said: str = "") -> None:
        if said == "turn left":
            noted.set()

    def hold() -> None:
        """Keeps the console busy, as a slow machine or link does."""
        is_held.set()
        assert may_go_on.wait(LIMIT_S)

    async def run() -> None:
        one = Agent(agent_settings(console, Envelope(None)), note, lambda: 0.0)
        await soon(one.cancel())
        robot.cancel_goal = hold  # type: ignore[method-assign]
        calls = [asyncio.create_task(one.cancel())]
        assert await asyncio.to_thread(is_held.wait, LIMIT_S)
        goal = asyncio.create_task(one.goal(1, "turn left"))
        await soon(noted.wait())
        for _ in range(10):
            await asyncio.sleep(0)  # the goal now waits for the answer to the cancel
        calls.append(asyncio.create_task(one.cancel() if stops == "cancel" else one.stop()))
        await asyncio.sleep(0)
        may_go_on.set()
        with pytest.raises(LinkError):
            await soon(goal)
        await soon(asyncio.gather(*calls))
        await one.close()

    asyncio.run(run())
    assert robot.goals == []


def test_sentences_that_wait_are_bounded_for_each_agent_and_in_order(
    console: ConsoleServer, robot: FakeRobot, reading: Reading
) -> None:
    async def run() -> None:
        one, other = agent(console), agent(console)
        waiting = [asyncio.create_task(one.ask(n, f"one {n}")) for n in range(MAX_WAITING)]
        await begun(reading)
        await asyncio.sleep(0)
        for sentence in ("turn left", "don't!"):
            with pytest.raises(BusyError, match="wait to be read"):
                await soon(one.goal(99, sentence))
        assert await soon(one.refuse("no such tool", ["easy"])) == "no such tool"
        others = asyncio.create_task(other.ask(1, "of another"))
        await asyncio.sleep(0)
        reading.may_end.set()
        ended = await soon(asyncio.gather(*waiting, others, return_exceptions=True))
        assert all(isinstance(end, Exception) for end in ended)
        await one.close()
        await other.close()

    asyncio.run(run())
    assert [said for said in reading.read if said.startswith("one")] == [
        f"one {n}" for n in range(MAX_WAITING)
    ]
    assert reading.read.index("of another") <= 2, "each agent has its turn"


def test_a_call_withdrawn_while_it_is_read_frees_its_place_in_the_queue(
    console: ConsoleServer, robot: FakeRobot, reading: Reading
) -> None:
    async def run() -> None:
        one = agent(console)
        for number in range(3 * MAX_WAITING):
            goal = asyncio.create_task(one.goal(number, "turn left"))
            await begun(reading)
            goal.cancel()
            assert isinstance((await asyncio.gather(goal, return_exceptions=True))[0], asyncio.CancelledError)
        reading.may_end.set()
        assert "turn right" in await soon(one.goal("last", "turn right"))
        await one.close()

    asyncio.run(run())
    assert [said for said, _ in robot.goals] == ["turn right"] and len(reading.read) == 2


@pytest.mark.parametrize("said", [["x" * 9000] * 9, ["x" * 399] * 9, ["x"] * 5000, ["x" * 9000, "stop"]])
def test_of_one_message_so_much_is_read(said: list[str]) -> None:
    parts = parts_of(said)
    assert sum(map(len, parts)) < 2 * MAX_READ
    assert all(len(part) <= MAX_COMMAND_CHARACTERS for part in parts)
    assert parts[0] == min(said, key=len)[:MAX_COMMAND_CHARACTERS]


def test_of_a_long_text_both_ends_are_read() -> None:
    assert parts_of(["stop " + "x" * 900]) == ["stop " + "x" * 395, "x" * 400]


@pytest.mark.parametrize("word", sorted(stop_words()))
def test_what_is_known_at_once_as_a_stop_is_one(word: str) -> None:
    told = [word, word.upper(), f"  {word}! ", f"{word}, {word}.", f"{word}?"]
    assert all(map(says_to_stop, told))
    assert is_plain_stop(word) and is_plain_stop(f"{word}, {word}!") and not is_plain_stop(f"{word} turning")


def test_nothing_is_no_stop() -> None:
    said: list[Any] = ["", " ", "!", ". ."]
    assert not any(map(is_plain_stop, said))
