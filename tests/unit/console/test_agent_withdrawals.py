"""A call that is cancelled at any moment gets one answer; its session goes on, and nothing keeps running."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the extra mcp is not installed")

import httpx
from support.agents import TOKEN, agent_settings, serve_agents
from support.consoles import FakeRobot, Page, StandingRobot, wait_until
from support.raw_agents import HELLO, READY, RawAgent, raw_agent, request

from outrider.console.agents.address import ConsoleAddress
from outrider.console.agents.agent import AgentSettings
from outrider.console.agents.envelope import Envelope
from outrider.console.agents.link import ConsoleLink
from outrider.console.agents.tools import make_server
from outrider.console.notes import note_nothing
from outrider.console.robot import GoalEnd
from outrider.console.server import ConsoleServer, ConsoleSettings
from outrider.core.errors import LinkError

LIMIT_S = 20.0


@pytest.fixture
def standing() -> StandingRobot:
    return StandingRobot()


@pytest.fixture
def calm(standing: StandingRobot) -> Iterator[ConsoleServer]:
    server = ConsoleServer(standing, ConsoleSettings(port=0))
    server.update(stands=True)
    yield server
    server.close()


def settings(console: ConsoleServer) -> AgentSettings:
    return agent_settings(console, Envelope(None), haste=1000.0)


def taking_back(number: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}


@contextlib.asynccontextmanager
async def raw(console: ConsoleServer) -> AsyncIterator[RawAgent]:
    async with raw_agent(make_server(settings(console), note_nothing)) as agent:
        yield agent


CALLS: list[tuple[str, dict[str, Any]]] = [
    ("words", {}),
    ("status", {}),
    ("recall", {"what": "keys"}),
    ("cancel", {}),
    ("stop", {}),
    ("goal", {"sentence": "turn left"}),
    ("goal", {"sentence": "stop"}),
    ("goal", {"sentence": "no plan at all"}),
    ("ask", {"question": 7}),
    ("no_tool", {}),
]


@pytest.mark.lengthy
@pytest.mark.parametrize(("tool", "given"), CALLS)
def test_a_call_may_be_taken_back_at_any_moment(
    calm: ConsoleServer, standing: StandingRobot, tool: str, given: dict[str, Any]
) -> None:
    moments = random.Random(7)

    async def run() -> None:
        async with raw(calm) as agent:
            await agent.call("status")
            for ticks in range(30):
                number = await agent.begin(tool, **given)
                for _ in range(ticks):
                    await asyncio.sleep(0)
                if ticks > 15:
                    await asyncio.sleep(moments.uniform(0.0, 0.01))
                await agent.tell(taking_back(number))
                await agent.answer(number)
                if tool in ("stop", "cancel"):
                    assert "Request cancelled" not in await agent.answer(number), "a stop is not taken back"
            assert "turn left" in await agent.call("words")
            assert set(Counter({one: len(told) for one, told in agent.answers.items()}).values()) == {1}
            await asyncio.to_thread(wait_until, lambda: not calm._hub._state.goal, "what was begun ends")

    asyncio.run(run())
    assert standing.cancels or not standing.goals


def test_a_goal_withdrawn_before_it_begins_does_not_begin(
    calm: ConsoleServer, standing: StandingRobot
) -> None:
    async def run() -> None:
        async with raw(calm) as agent:
            for _ in range(10):
                number = await agent.begin("goal", sentence="turn left")
                await agent.tell(taking_back(number))
                assert "Request cancelled" in await agent.answer(number)
            await agent.tell(taking_back(number))
            await agent.tell(taking_back("of nothing"))
            await agent.tell(taking_back(None))
            assert "turn right" in await agent.call("goal", sentence="turn right")

    asyncio.run(run())
    wait_until(lambda: standing.goals, "the goal")
    assert [said for said, _ in standing.goals] == ["turn right"]


def test_over_http_a_session_outlives_withdrawn_calls(calm: ConsoleServer) -> None:
    url = serve_agents(settings(calm))
    moments = random.Random(3)

    async def run() -> None:
        headers = {"Authorization": f"Bearer {TOKEN}", "Accept": "application/json, text/event-stream"}
        async with httpx.AsyncClient(headers=headers, timeout=LIMIT_S) as client:
            begun = await client.post(url, json=request(0, "initialize", HELLO))
            client.headers["Mcp-Session-Id"] = begun.headers["Mcp-Session-Id"]
            await client.post(url, json=READY)
            for number in range(1, 9):
                call = request(number, "tools/call", {"name": "status", "arguments": {}})
                asked = asyncio.create_task(client.post(url, json=call))
                await asyncio.sleep(moments.uniform(0.0, 0.03))
                assert (await client.post(url, json=taking_back(number))).status_code == 202
                answer = await asked
                assert answer.status_code == 200 and f'"id":{number},' in answer.text
            call = request("last", "tools/call", {"name": "words", "arguments": {}})
            assert "turn left" in (await client.post(url, json=call)).text

    asyncio.run(run())


def busy_page(console: ConsoleServer) -> Page:
    """Returns the page of another agent that has given up the seat while its command runs."""
    page = Page(console, agent="other").seated()
    page.send(do="say", text="find the red chair")
    page.read("goal", state="running")
    page.send(do="leave")
    page.read("state", driver="")
    return page


@pytest.mark.lengthy
def test_a_goal_withdrawn_while_it_waits_leaves_no_trace(console: ConsoleServer, robot: FakeRobot) -> None:
    page = busy_page(console)

    async def run() -> None:
        async with raw(console) as agent:
            number = await agent.begin("goal", sentence="turn left")
            await asyncio.to_thread(page.read, "state", driver_yields=True)
            await agent.tell(taking_back(number))
            assert "Request cancelled" in await agent.answer(number)
            await asyncio.to_thread(page.read, "halt")
            await asyncio.to_thread(page.read, "state", driver="")
            robot.goals[0][1](GoalEnd(False, "cancelled"))
            await asyncio.to_thread(page.read, "state", goal="")
            assert "turn right" in await agent.call("goal", sentence="turn right")
            assert [said for said, _ in robot.goals] == ["find the red chair", "turn right"]

    asyncio.run(run())


@pytest.mark.lengthy
def test_what_the_console_has_not_begun_in_time_never_begins(
    console: ConsoleServer, robot: FakeRobot
) -> None:
    page = busy_page(console)

    async def run() -> None:
        link = ConsoleLink(ConsoleAddress(console.url), "late", start_timeout_s=1.0)
        await link.open()
        with pytest.raises(LinkError, match=r"has not begun it in 1 s, and was told to forget it"):
            await link.say("turn left")
        assert not link.is_busy
        await asyncio.to_thread(page.read, "halt")
        robot.goals[0][1](GoalEnd(False, "cancelled"))
        await asyncio.to_thread(page.read, "state", goal="")
        assert [said for said, _ in robot.goals] == ["find the red chair"]
        begun = asyncio.create_task(link.say("turn right"))
        await asyncio.to_thread(wait_until, lambda: len(robot.goals) == 2, "the next one")
        await begun
        await link.close()

    asyncio.run(run())


def test_a_sentence_replaced_before_it_begins_is_reported_as_not_started(
    console: ConsoleServer, robot: FakeRobot
) -> None:
    page = busy_page(console)

    async def run() -> None:
        link = ConsoleLink(ConsoleAddress(console.url), "replaced")
        await link.open()
        said = asyncio.create_task(link.say("turn left"))
        await asyncio.to_thread(page.read, "state", driver_yields=True)
        await asyncio.to_thread(Page(console).seated)
        with pytest.raises(LinkError, match="cancelled before it began"):
            await asyncio.wait_for(said, LIMIT_S)
        assert not link.is_busy
        await link.close()

    asyncio.run(run())
