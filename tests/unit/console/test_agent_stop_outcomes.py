"""An agent learns the true outcome of its emergency stop, over a pipe and over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace

import pytest

pytest.importorskip("mcp", reason="the extra mcp is not installed")

import httpx
from support.agents import COMMAND
from support.consoles import FakeRobot

from outrider.console.agents import jsonrpc
from outrider.console.agents.address import ConsoleAddress
from outrider.console.agents.agent import AgentSettings
from outrider.console.agents.envelope import Envelope
from outrider.console.agents.http_guards import StopsFirst
from outrider.console.agents.jsonrpc import MAX_MESSAGE_BYTES
from outrider.console.agents.presence import Presence
from outrider.console.agents.stdio import pipe_streams
from outrider.console.agents.stopper import ENGAGED, Outcome, Stopper
from outrider.console.agents.tools import make_server
from outrider.console.notes import note_nothing
from outrider.console.server import ConsoleServer, ConsoleSettings
from outrider.core.errors import LinkError

MCP = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
NOT = "the emergency stop could NOT be engaged"


def stop(number: int = 7, padding: int = 0) -> bytes:
    call = {"name": "stop", "arguments": {"pad": "x" * padding}}
    told = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": call}
    return json.dumps(told).encode() + b"\n"


REFUSED = {
    "too long": stop(padding=MAX_MESSAGE_BYTES),
    "among too many": b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n' * 300 + stop(),
    "in an array": b"[" + stop().strip() + b"]\n",
    "of no version": stop().replace(b'"2.0"', b'"1.0"'),
    "by no id": stop().replace(b'"id": 7', b'"id": 7.5'),
    "with half a character": stop().replace(b'"pad": ""', rb'"pad": "in the way \ud83d"'),
    "with no number": stop().replace(b'"pad": ""', b'"pad": NaN'),
    "too deep": stop().replace(b'"pad": ""', b'"pad": ' + b"[" * 5000 + b"]" * 5000),
    "by a long id": stop().replace(b'"id": 7', b'"id": ' + b"7" * 5000),
    "after a mark": b"\xef\xbb\xbf" + stop(),
    "with a comma too many": stop().replace(b"}}}", b"}},}"),
    "cut off": stop()[: stop().index(b"arguments")] + b"\n",
    "cancel": rb'{"method":"tools/call","params":{"name":"cancel","arguments":{"why":"\ud83d"}}}' + b"\n",
    "a goal": rb'{"method":"tools/call","params":{"name":"goal","arguments":{"sentence":"Stop! \ud83d"}}}'
    + b"\n",
    "a question": rb'{"params":{"name":"ask","arguments":{"question":"will you \u505c\u4e0b"}},}' + b"\n",
}


class Console(BaseHTTPRequestHandler):
    """Refuses the first `refusals` requests of its server, then accepts a stop."""

    def do_POST(self) -> None:
        server = self.server
        assert isinstance(server, Refusing)
        server.asked += 1
        self.send_response(503 if server.asked <= server.refusals else 200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


class Refusing(HTTPServer):
    def __init__(self, refusals: int) -> None:
        super().__init__(("127.0.0.1", 0), Console)
        self.refusals, self.asked = refusals, 0
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def address(self) -> ConsoleAddress:
        return ConsoleAddress(f"http://127.0.0.1:{self.server_port}")


def nobody() -> ConsoleAddress:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return ConsoleAddress(f"http://127.0.0.1:{free.getsockname()[1]}")


def test_a_stop_is_tried_until_the_console_confirms_it() -> None:
    console = Refusing(refusals=2)
    console.address.e_stop()
    assert console.asked == 3
    console.shutdown()


@pytest.mark.parametrize("where", [nobody, lambda: Refusing(refusals=10**6).address])
def test_a_stop_that_nobody_confirms_says_so(where: Callable[[], ConsoleAddress]) -> None:
    with pytest.raises(LinkError, match=f"^{NOT}, use the robot's own: "):
        replace(where(), stopping_s=0.0).e_stop()
    stopper = Stopper(replace(where(), stopping_s=0.0))
    assert stopper.ask().result(20.0).startswith(NOT)
    stopper.close()


def test_a_stopper_tells_all_who_asked_and_nobody_can_cancel_it_for_others(robot: FakeRobot) -> None:
    server = ConsoleServer(robot, ConsoleSettings(port=0))
    stopper = Stopper(ConsoleAddress(server.url))
    asked = [stopper.ask() for _ in range(100)]
    assert not any(one.cancel() for one in asked)
    assert {one.result(20.0) for one in asked} == {ENGAGED}
    stopper.close()
    server.close()
    assert robot.e_stops and all(robot.e_stops) and len(robot.e_stops) <= 100


@pytest.mark.parametrize("outcome", [ENGAGED, f"{NOT}: no console answers"])
@pytest.mark.parametrize("sent", REFUSED.values(), ids=REFUSED)
def test_over_a_pipe_a_refusal_says_what_came_of_the_stop(
    sent: bytes, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock stands still, so that the machine's speed does not matter."""
    monkeypatch.setattr(jsonrpc, "time", SimpleNamespace(monotonic=lambda: 0.0))
    asked: list[Outcome] = []

    def on_stop() -> Outcome:
        asked.append(Future())
        threading.Timer(0.0, asked[-1].set_result, [outcome]).start()
        return asked[-1]

    async def run() -> bytes:
        read, write = os.pipe()
        answered, answers = os.pipe()
        with os.fdopen(read, "rb") as source, os.fdopen(answers, "wb") as sink:
            threading.Thread(target=lambda: os.fdopen(write, "wb").write(sent), daemon=True).start()
            async with pipe_streams(source, sink, on_stop) as (incoming, _):
                async for _message in incoming:
                    pass
        with os.fdopen(answered, "rb") as told:
            return told.read()

    told = [json.loads(line)["error"]["message"] for line in asyncio.run(run()).splitlines()]
    assert len(asked) == 1 and sum(one.startswith(f"{outcome}; ") for one in told) == 1
    assert not any(ENGAGED in one for one in told if not one.startswith(outcome))


@pytest.mark.parametrize("outcome", [ENGAGED, f"{NOT}: no console answers"])
@pytest.mark.parametrize("sent", [REFUSED[name] for name in REFUSED if name != "among too many"])
def test_over_http_a_refusal_says_what_came_of_the_stop(sent: bytes, outcome: str) -> None:
    def on_stop() -> Outcome:
        asked: Outcome = Future()
        threading.Timer(0.0, asked.set_result, [outcome]).start()
        return asked

    async def run() -> str:
        guard = StopsFirst(never, Presence(), on_stop)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(guard), base_url="http://x") as client:
            answer = await client.post("/mcp", content=sent)
            return str(answer.json()["error"]["message"])

    assert asyncio.run(run()).startswith(f"{outcome}; ")


@pytest.mark.parametrize(
    "arguments",
    [
        rb'"status","arguments":{"why":"\ud83d"',
        rb'"goal","arguments":{"sentence":"find the stop sign \ud83d now"',
        rb'"goal","arguments":{"sentence":"say \"name\":\"stop\" \ud83d so"',
    ],
)
def test_what_cannot_be_read_and_says_nothing_of_a_stop_is_none(arguments: bytes) -> None:
    async def run() -> int:
        guard = StopsFirst(never, Presence(), lambda: pytest.fail("a stop"))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(guard), base_url="http://x") as client:
            body = b'{"method":"tools/call","params":{"name":' + arguments + b"}}}"
            return (await client.post("/mcp", content=body)).status_code

    assert asyncio.run(run()) == 400


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 400),
        ({"mcp-session-id": "unknown"}, 404),
        ({"content-type": "text/plain"}, 400),
        ({"accept": "text/html"}, 406),
    ],
)
def test_a_stop_that_mcp_refuses_is_answered_by_what_came_of_it(
    robot: FakeRobot, headers: dict[str, str], status: int
) -> None:
    console = ConsoleServer(robot, ConsoleSettings(port=0))
    at = ConsoleAddress(console.url)
    server = make_server(AgentSettings(at, Envelope(None), "say: turn left"), note_nothing)
    app = server.streamable_http_app()

    async def run() -> httpx.Response:
        with closing(Stopper(at)) as stopper:
            guard = StopsFirst(app, Presence(), stopper.ask)
            transport = httpx.ASGITransport(guard)
            client = httpx.AsyncClient(transport=transport, base_url="http://x", headers=MCP | headers)
            async with server.session_manager.run(), client:
                return await client.post("/mcp", content=stop())

    answer = asyncio.run(run())
    told = answer.json()
    console.close()
    assert answer.status_code == status and told["id"] == 7 and robot.e_stops
    assert told["error"]["message"].startswith(f"{ENGAGED}; ") and "{" not in told["error"]["message"]


async def never(*_: object) -> None:
    raise AssertionError("a refused message reaches nothing")


@pytest.mark.lengthy
def test_a_stop_without_a_console_is_told_as_none() -> None:
    command = [*COMMAND, "--console", nobody().url]
    told = subprocess.run(
        command, input=REFUSED["too long"] + REFUSED["in an array"], capture_output=True, timeout=100
    )
    errors = [json.loads(line)["error"]["message"] for line in told.stdout.splitlines()]
    assert len(errors) == 2 and all(one.startswith(NOT) for one in errors)
    assert all("start `outrider console`" in one for one in errors)
    assert ENGAGED not in told.stdout.decode() and b"Traceback" not in told.stderr
