"""Connections show when an agent over HTTP has gone; a new agent then gets its slot."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the extra mcp is not installed")

from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from outrider.console.agents.attendance import Attendance
from outrider.console.agents.presence import GONE_AFTER_S, Presence
from outrider.console.hub import MAX_AGENTS

INITIALIZE = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}'


class Server:
    """Opens a session for each request without one, as MCP does, and holds calls until `may_end` is set."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.presence = Presence(lambda: self.now_s)
        self.guard = Attendance(self._serve, self.presence)
        self.may_end = asyncio.Event()
        self.sessions: list[str] = []
        self.ended: list[str] = []

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        session = dict(scope["headers"]).get(b"mcp-session-id", b"").decode()
        await receive()
        if not session:
            session = f"session {len(self.sessions)}"
            self.sessions.append(session)
            await PlainTextResponse("begun", headers={"mcp-session-id": session})(scope, receive, send)
            return
        if scope["method"] == "DELETE":
            self.ended.append(session)
        elif session not in self.sessions or session in self.ended:
            await PlainTextResponse("not found", 404)(scope, receive, send)
            return
        else:
            await self.may_end.wait()
        await PlainTextResponse("done")(scope, receive, send)

    def ask(self, method: str, session: str = "", body: bytes = INITIALIZE) -> Request:
        return Request(self, method, session, body)


class Request:
    """A request of an agent; its connection may break."""

    def __init__(self, server: Server, method: str, session: str, body: bytes) -> None:
        self.sent: list[Any] = []
        self._received: asyncio.Queue[Any] = asyncio.Queue()
        self._received.put_nowait({"type": "http.request", "body": body})
        headers = [(b"mcp-session-id", session.encode())] if session else []
        scope = {"type": "http", "method": method, "path": "/mcp", "headers": headers}
        self.task = asyncio.create_task(server.guard(scope, self._received.get, self._send))

    async def _send(self, message: Any) -> None:
        self.sent.append(message)

    async def break_off(self) -> None:
        self._received.put_nowait({"type": "http.disconnect"})
        for _ in range(5):
            await asyncio.sleep(0)


def test_an_agent_is_there_while_a_request_is_open_and_a_little_longer() -> None:
    async def run() -> None:
        server = Server()
        await server.ask("POST").task
        assert server.presence.is_there("session 0")
        call = server.ask("POST", "session 0")
        await asyncio.sleep(0)
        server.now_s = 1000.0
        assert server.presence.is_there("session 0")
        server.may_end.set()
        await call.task
        assert server.presence.is_there("session 0")
        server.now_s += GONE_AFTER_S + 0.1
        assert not server.presence.is_there("session 0")

    asyncio.run(run())


@pytest.mark.parametrize("has_stream", [False, True])
def test_a_call_whose_connection_breaks_counts_no_more(has_stream: bool) -> None:
    async def run() -> None:
        server = Server()
        await server.ask("POST").task
        stream = server.ask("GET", "session 0") if has_stream else None
        call = server.ask("POST", "session 0")
        await asyncio.sleep(0)
        await call.break_off()
        server.now_s = GONE_AFTER_S + 0.1
        assert server.presence.is_there("session 0") == has_stream
        server.may_end.set()
        await call.task
        if stream:
            await stream.task

    asyncio.run(run())


def test_a_session_that_has_ended_or_was_never_begun_is_not_there() -> None:
    async def run() -> None:
        server = Server()
        await server.ask("POST").task
        assert not server.presence.is_there("forged")
        await server.ask("POST", "forged").task
        assert not server.presence.is_there("forged") and len(server.presence) == 1
        await server.ask("DELETE", "session 0").task
        assert not server.presence.is_there("session 0") and len(server.presence) == 0

    asyncio.run(run())


def test_a_new_agent_gets_the_place_of_the_one_that_has_been_gone_longest() -> None:
    async def run() -> None:
        server = Server()
        for _ in range(MAX_AGENTS):
            await server.ask("POST").task
            server.now_s += 1.0
        await server.ask("POST").task
        assert server.ended == [], "all of them are there"
        server.presence.end(server.sessions[-1])
        open_call = server.ask("POST", "session 0")
        await asyncio.sleep(0)
        server.now_s += GONE_AFTER_S
        await server.ask("POST").task
        assert server.ended == ["session 1"] and len(server.presence) == MAX_AGENTS
        server.may_end.set()
        await open_call.task

    asyncio.run(run())


@pytest.mark.parametrize(
    "body",
    [
        b'{"jsonrpc":"2.0","id":1,"method":"ping"}',
        b'{"jsonrpc":"2.0","method":"notifications/initialized"}',
        b'{"jsonrpc":"2.0","method":"initialize"}',
        b"initialize",
    ],
)
def test_what_begins_no_session_ends_none(body: bytes) -> None:
    async def run() -> None:
        server = Server()
        for _ in range(MAX_AGENTS):
            await server.ask("POST").task
        server.now_s = GONE_AFTER_S + 0.1
        await server.ask("POST", body=body).task
        assert server.ended == []
        await server.ask("POST").task
        assert server.ended == ["session 0"]

    asyncio.run(run())
