"""An agent's program that freezes or vanishes does not keep the robot moving."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the extra mcp is not installed")

import httpx
import uvicorn
from support.agents import COMMAND, agent_settings
from support.consoles import FakeRobot, wait_until
from support.raw_agents import HELLO, READY, RawAgent, raw_agent, request

from outrider.console.agents.agent import PRESENCE_PERIOD_S, AgentSettings
from outrider.console.agents.envelope import Envelope
from outrider.console.agents.tools import make_server
from outrider.console.notes import note_nothing
from outrider.console.robot import GoalEnd
from outrider.console.seat import SILENCE_S
from outrider.console.server import ConsoleServer, listen

LIMIT_S = 20.0
LATE_S = 4.0
"""The delay that a shared machine may add to an end."""
OVER_A_PIPE = """
import asyncio, json, os, sys
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

async def main(command, *arguments):
    server = StdioServerParameters(command=command, args=arguments, env=dict(os.environ))
    async with stdio_client(server) as streams:
        async with ClientSession(*streams) as session:
            await session.initialize()
            await session.call_tool("goal", {"sentence": "turn left"})
            print("under way", flush=True)
            await asyncio.sleep(600)

asyncio.run(main(*sys.argv[1:]))
"""
OVER_HTTP = """
import asyncio, sys
from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client

async def main(url, token):
    async with streamablehttp_client(url, headers={"Authorization": f"Bearer {token}"}) as (source, sink, _):
        async with ClientSession(source, sink) as session:
            await session.initialize()
            await session.call_tool("goal", {"sentence": "turn left"})
            print("under way", flush=True)
            await asyncio.sleep(600)

asyncio.run(main(*sys.argv[1:]))
"""
Answers = Callable[[object], list[dict[str, Any]]]


BRIEF_S, OFTEN_S = 1.0, 0.02
"""The silence after which these commands end, and the period of the pings to an agent."""


def settings(server: ConsoleServer) -> AgentSettings:
    return agent_settings(server, Envelope(None), haste=1000.0, silence_s=BRIEF_S, presence_period_s=OFTEN_S)


async def going(agent: RawAgent) -> None:
    assert "under way" in await agent.call("goal", sentence="turn left")


async def until(condition: Callable[[], Any]) -> None:
    async def is_so() -> None:
        while not condition():
            await asyncio.sleep(0.005)

    await asyncio.wait_for(is_so(), LIMIT_S)


def with_an_agent(server: ConsoleServer, act: Callable[[RawAgent], Any]) -> None:
    async def run() -> None:
        async with raw_agent(make_server(settings(server), note_nothing)) as agent:
            await act(agent)

    asyncio.run(run())


ANSWERS: dict[str, Answers] = {
    "a result": lambda number: [{"jsonrpc": "2.0", "id": number, "result": {}}],
    "an error": lambda number: [{"jsonrpc": "2.0", "id": number, "error": {"code": -32601, "message": "no"}}],
    "something else": lambda number: [{"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}],
}


@pytest.mark.lengthy
@pytest.mark.parametrize("kind", ANSWERS)
def test_a_command_goes_on_while_its_agent_answers_and_ends_once_it_is_silent(
    server: ConsoleServer, robot: FakeRobot, kind: str
) -> None:
    async def act(agent: RawAgent) -> None:
        agent.on_ping = ANSWERS[kind]
        await going(agent)
        began_s = time.monotonic()
        await until(lambda: time.monotonic() - began_s > 3 * BRIEF_S and agent.pings > 3)
        assert robot.cancels == 0
        agent.on_ping = lambda number: []
        await until(lambda: robot.cancels)

    with_an_agent(server, act)


@pytest.mark.lengthy
def test_an_agent_is_asked_nothing_between_its_commands(server: ConsoleServer, robot: FakeRobot) -> None:
    async def act(agent: RawAgent) -> None:
        assert agent.pings == 0
        for number in range(2):
            await going(agent)
            await until(lambda: agent.pings)
            robot.goals[number][1](GoalEnd(True, "done"))
            while '"goal":""' not in (await agent.call("status")).replace("\\", ""):
                pass
            agent.pings = 0
            deadline_s = time.monotonic() + 5 * OFTEN_S
            while time.monotonic() < deadline_s:
                await agent.call("status")
            assert agent.pings <= 1, "one may have been on its way"

    with_an_agent(server, act)


@pytest.mark.lengthy
def test_an_answer_that_comes_late_is_no_fault(
    server: ConsoleServer, robot: FakeRobot, caplog: pytest.LogCaptureFixture
) -> None:
    async def act(agent: RawAgent) -> None:
        numbers: list[object] = []
        agent.on_ping = lambda number: numbers.append(number) or []  # type: ignore[func-returns-value]
        await going(agent)
        await until(lambda: robot.cancels)
        for number in (*numbers, "forged"):
            await agent.tell(ANSWERS["a result"](number)[0])
        assert "you" in await agent.call("status")

    with_an_agent(server, act)
    assert not caplog.records


class Program:
    """An agent's program with the SDK's own client, whose goal is running."""

    def __init__(self, code: str, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self.process.stdout is not None and self.process.stdout.readline() == "under way\n"

    def close(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait(LIMIT_S)


@pytest.fixture(params=["over a pipe", "over HTTP"])
def program(
    request: pytest.FixtureRequest, server: ConsoleServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Program]:
    monkeypatch.setenv("OUTRIDER_JOURNAL", str(tmp_path / "robot.journal"))
    command = [*COMMAND, "--console", server.url]
    if request.param == "over a pipe":
        made = Program(OVER_A_PIPE, *command)
        yield made
        made.close()
        return
    token = tmp_path / "agents.token"
    options = "--http", "--port", "0", "--token-file", str(token)
    with subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        where = server.stderr.readline().split()[2].rstrip(",")
        made = Program(OVER_HTTP, where, token.read_text().strip())
        yield made
        made.close()
        server.kill()


@pytest.mark.lengthy
def test_an_agent_without_a_stream_of_its_own_is_asked_by_that_of_its_call(
    server: ConsoleServer, robot: FakeRobot
) -> None:
    app = make_server(settings(server), note_nothing).streamable_http_app()
    listener = listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="on"))
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    accepted = {"Accept": "application/json, text/event-stream"}
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    with httpx.Client(headers=accepted, timeout=LIMIT_S) as client:
        begun = client.post(url, json=request("hello", "initialize", HELLO))
        client.headers["Mcp-Session-Id"] = begun.headers["Mcp-Session-Id"]
        client.post(url, json=READY)
        goal = {"name": "goal", "arguments": {"sentence": "turn left", "wait_s": 600}}
        with client.stream("POST", url, json=request(1, "tools/call", goal)) as answer:
            began_s, pings = time.monotonic(), 0
            for line in answer.iter_lines():
                told = json.loads(line.removeprefix("data: ")) if line.startswith("data: {") else {}
                pings += told.get("method") == "ping"
                if told.get("method") == "ping" and time.monotonic() - began_s < 3 * BRIEF_S:
                    client.post(url, json=ANSWERS["a result"](told["id"])[0])
                    assert robot.cancels == 0
                elif robot.cancels:
                    break
    assert pings > 3
    server.should_exit = True
    thread.join(LIMIT_S)


@pytest.mark.lengthy
@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_a_program_that_is_frozen_or_killed_ends_its_command(
    program: Program, robot: FakeRobot, number: int
) -> None:
    went_on_s = time.monotonic() + SILENCE_S + 1.0
    wait_until(lambda: time.monotonic() > went_on_s, "longer than silence may last")
    assert robot.cancels == 0, "the SDK's client answers"
    os.kill(program.process.pid, number)
    at_s = time.monotonic()
    wait_until(lambda: robot.cancels, "the end of its command")
    assert time.monotonic() - at_s < SILENCE_S + PRESENCE_PERIOD_S + LATE_S
