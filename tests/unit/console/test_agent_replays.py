"""Repeated and malformed requests of agents are refused by name, in few lines of the log."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the extra mcp is not installed")

import anyio
import httpx
from mcp.shared.memory import create_client_server_memory_streams
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCMessage
from support.agents import COMMAND, TOKEN, agent_settings, serve_agents
from support.consoles import FakeRobot, wait_until
from support.raw_agents import HELLO, READY, request

from outrider.console.agents.envelope import Envelope, Pace
from outrider.console.agents.jsonrpc import MAX_MESSAGE_BYTES
from outrider.console.agents.stdio import pipe_streams
from outrider.console.agents.stopper import ENGAGED, Outcome
from outrider.console.agents.tools import make_server
from outrider.console.notes import note_nothing
from outrider.console.robot import GoalEnd
from outrider.console.server import ConsoleServer
from outrider.core.errors import BusyError, ProtocolError

AGAIN = "has been taken before"
FLOOD, MAX_LOGGED = 300, 60


def tool(number: object, name: str, **arguments: object) -> dict[str, Any]:
    return request(number, "tools/call", {"name": name, "arguments": arguments})


class RawAgent:
    """Sends messages with ids that the test chooses."""

    def __init__(self, streams: Any) -> None:
        self._incoming, self._outgoing = streams

    async def ask(self, message: dict[str, Any]) -> str:
        """Sends a request. Returns its answer as JSON."""
        await self._outgoing.send(SessionMessage(JSONRPCMessage.model_validate(message)))
        while True:
            answer = (await self._incoming.receive()).message.model_dump(mode="json", exclude_none=True)
            if answer.get("id") == message["id"]:
                return json.dumps(answer)


@contextlib.asynccontextmanager
async def raw(server: ConsoleServer) -> AsyncIterator[RawAgent]:
    served = make_server(agent_settings(server, Envelope(None)), note_nothing)._mcp_server
    async with (
        create_client_server_memory_streams() as (client, (incoming, outgoing)),
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(served.run, incoming, outgoing, served.create_initialization_options())
        agent = RawAgent(client)
        await agent.ask(request("hello", "initialize", HELLO))
        await client[1].send(SessionMessage(JSONRPCMessage.model_validate(READY)))
        yield agent
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("number", [1, "1", "x" * 5000], ids=["number", "text", "long"])
def test_a_request_that_comes_again_is_refused_by_name(
    server: ConsoleServer, robot: FakeRobot, number: Any
) -> None:
    async def run() -> None:
        async with raw(server) as agent:
            assert "turn left" in await agent.ask(tool(number, "goal", sentence="turn left"))
            robot.goals[-1][1](GoalEnd(True, "done"))
            for sentence in ("turn left", "turn right"):
                answer = await agent.ask(tool(number, "goal", sentence=sentence))
                assert f"request '{str(number)[:40]}' {AGAIN}" in answer
            for name, told in (("ask", "question"), ("remember", "text"), ("forget", "about")):
                assert AGAIN in await agent.ask(tool(number, name, **{told: "the keys"}))

    asyncio.run(run())
    assert [said for said, _ in robot.goals] == ["turn left"]


@pytest.mark.lengthy
def test_a_stop_that_comes_again_is_carried_out_each_time(server: ConsoleServer, robot: FakeRobot) -> None:
    async def run() -> None:
        async with raw(server) as agent:
            server.update(stands=True)
            await agent.ask(tool(1, "goal", sentence="turn left"))
            robot.goals[-1][1](GoalEnd(True, "done"))
            for _ in range(3):
                assert AGAIN not in await agent.ask(tool(1, "stop"))
                assert AGAIN not in await agent.ask(tool(1, "cancel"))
                assert AGAIN not in await agent.ask(tool(1, "goal", sentence="stop"))

    asyncio.run(run())
    assert len(robot.e_stops) >= 3 and all(robot.e_stops) and robot.cancels >= 9


def test_another_session_may_use_the_same_ids(server: ConsoleServer, robot: FakeRobot) -> None:
    async def run() -> None:
        for _ in range(2):
            async with raw(server) as agent:
                assert "turn left" in await agent.ask(tool(1, "goal", sentence="turn left"))
                robot.goals[-1][1](GoalEnd(True, "done"))

    asyncio.run(run())
    assert len(robot.goals) == 2


def test_what_was_too_fast_has_not_been_taken() -> None:
    now = [0.0]
    pace = Pace(lambda: now[0])
    for number in range(10):
        pace.sentence(number)
    with pytest.raises(BusyError):
        pace.sentence("late")
    now[0] = 5.0
    pace.sentence("late")
    for spoken in ("late", 3):
        with pytest.raises(ProtocolError, match=AGAIN):
            pace.sentence(spoken)
    pace.sentence("3")  # a string is another id than a number


@contextlib.contextmanager
def over_http(server: ConsoleServer) -> Iterator[httpx.Client]:
    url = serve_agents(agent_settings(server, Envelope(None)))
    headers = {"Authorization": f"Bearer {TOKEN}", "Accept": "application/json, text/event-stream"}
    with httpx.Client(headers=headers, base_url=url.removesuffix("mcp")) as client:
        begun = client.post("mcp", json=request(0, "initialize", HELLO))
        client.headers["Mcp-Session-Id"] = begun.headers["Mcp-Session-Id"]
        client.post("mcp", json=READY)
        yield client


def test_a_replay_over_http_is_refused(server: ConsoleServer, robot: FakeRobot) -> None:
    with over_http(server) as client:
        assert "turn left" in client.post("mcp", json=tool(7, "goal", sentence="turn left")).text
        robot.goals[-1][1](GoalEnd(True, "done"))
        assert AGAIN in client.post("mcp", json=tool(7, "goal", sentence="turn left")).text
    assert len(robot.goals) == 1


BROKEN = [
    b"null",
    b"{}",
    b'{"jsonrpc":"2.0"}',
    b'{"jsonrpc":"1.0","id":{},"method":7}',
    b"[" * 5000,
    b"\xff\xfe",
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":7}',
    b"x" * (MAX_MESSAGE_BYTES + 5),
]


@pytest.mark.lengthy
@pytest.mark.parametrize("way", ["pipe", "http"])
def test_a_flood_of_broken_messages_leads_to_few_lines_of_the_log_with_a_count(
    server: ConsoleServer, robot: FakeRobot, tmp_path: Path, way: str
) -> None:
    options = ["--http", "--port", "0", "--token-file", str(tmp_path / "token")] if way == "http" else []
    with subprocess.Popen(
        [*COMMAND, "--console", server.url, *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=(tmp_path / "errors").open("wb"),
    ) as process:
        if way == "pipe":
            out, _ = process.communicate(b"\n".join(BROKEN[index % len(BROKEN)] for index in range(FLOOD)))
            assert sum(b'"error"' in line for line in out.splitlines()) >= FLOOD / 2
        else:
            post_broken(wait_until(lambda: address(tmp_path / "errors"), "the server"), tmp_path / "token")
            process.terminate()
    told = (tmp_path / "errors").read_text()
    assert len(told.splitlines()) <= MAX_LOGGED, told
    assert "32 times so far" in told and robot.goals == [] and robot.drives == []


def test_neither_unread_answers_nor_busy_calls_delay_a_stop() -> None:
    async def run() -> None:
        read, write = os.pipe()
        answered, answers = os.pipe()
        stopped = threading.Event()
        with (
            os.fdopen(read, "rb") as source,
            os.fdopen(answers, "wb") as sink,
            os.fdopen(answered, "rb") as unread,
        ):

            def feed() -> None:
                with os.fdopen(write, "wb") as pipe:
                    pipe.write(b"garbage\n" * 5000 + json.dumps(tool(1, "stop")).encode() + b"\n")

            feeder = threading.Thread(target=feed, daemon=True)

            def stop() -> Outcome:
                stopped.set()
                outcome: Outcome = Outcome()
                outcome.set_result(ENGAGED)
                return outcome

            async with pipe_streams(source, sink, stop):
                feeder.start()
                assert stopped.wait(10.0), "nor does what holds the loop of the calls, as this does"
                drain = threading.Thread(target=unread.read, daemon=True)
                drain.start()
            feeder.join()
            sink.close()
            drain.join()

    asyncio.run(run())


def address(errors: Path) -> str:
    found = re.search(r"http://\S+/mcp", errors.read_text())
    return found[0] if found else ""


def post_broken(url: str, token: Path) -> None:
    headers = {
        "Authorization": f"Bearer {token.read_text().strip()}",
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
    }
    with httpx.Client(headers=headers) as client:
        for index in range(FLOOD):
            answer = client.post(url, content=BROKEN[index % len(BROKEN)])
            assert 400 <= answer.status_code <= 500 or "error" in answer.json()
