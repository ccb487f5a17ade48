"""Over HTTP a stop is carried out before anything else is done with a message, whatever MCP has yet to do."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

pytest.importorskip("mcp", reason="the extra mcp is not installed")

from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from outrider.console.agents.first_look import MOST_MESSAGE_BYTES
from outrider.console.agents.http_guards import MESSAGES_AT_ONCE, MOST_UNDER_WAY, StopsFirst


class SlowApp:
    """Answers each call with its body, once it may."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.begun = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        while (part := await receive()).get("more_body"):
            body += part["body"]
        self.begun += 1
        await self.may_answer.wait()
        await PlainTextResponse(body + part["body"])(scope, receive, send)


class Server:
    def __init__(self) -> None:
        self.app, self.stops = SlowApp(), 0
        self.guard = StopsFirst(self.app, self._on_stop)

    def _on_stop(self) -> None:
        self.stops += 1

    async def until_begun(self, count: int) -> None:
        while self.app.begun < count:
            await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def served() -> AsyncIterator[tuple[Server, httpx.AsyncClient]]:
    server = Server()
    transport = httpx.ASGITransport(server.guard, raise_app_exceptions=True)
    async with httpx.AsyncClient(transport=transport, base_url="http://robot") as client:
        yield server, client


def message(number: object, tool: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": tool, "arguments": {}}}


def test_a_stop_is_carried_out_while_calls_are_under_way() -> None:
    async def run() -> None:
        async with served() as (server, client):
            calls = [asyncio.create_task(client.post("/mcp", json=message(n, "status"))) for n in range(5)]
            await server.until_begun(5)
            stop = asyncio.create_task(client.post("/mcp", json=message(9, "stop")))
            await server.until_begun(6)
            assert server.stops == 1 and not stop.done()
            server.app.may_answer.set()
            answers = await asyncio.gather(*calls, stop)
            assert [answer.json() for answer in answers[:5]] == [message(n, "status") for n in range(5)]

    asyncio.run(run())


def test_a_flood_is_refused_and_every_stop_in_it_is_carried_out() -> None:
    async def run() -> None:
        async with served() as (server, client):
            server.app.may_answer.set()
            sent = [message(n, "stop" if n % 10 == 9 else "status") for n in range(400)]
            answers = await asyncio.gather(*(client.post("/mcp", json=one) for one in sent))
            assert server.stops == 40
            refused = [answer for answer in answers if answer.status_code == 429]
            assert len(refused) > 400 - 5 * MESSAGES_AT_ONCE
            for answer in refused:
                error = answer.json()
                assert "messages a second: wait" in error["error"]["message"]
                assert ("stop is engaged" in error["error"]["message"]) == (error["id"] % 10 == 9)

    asyncio.run(run())


def test_of_two_calls_with_one_id_the_second_is_refused_until_the_first_has_ended() -> None:
    async def run() -> None:
        async with served() as (server, client):
            first = asyncio.create_task(client.post("/mcp", json=message("a", "goal")))
            await server.until_begun(1)
            for tool, stops in (("goal", 0), ("stop", 1)):
                again = await client.post("/mcp", json=message("a", tool))
                assert again.status_code == 409 and "'a' is under way" in again.text and server.stops == stops
            elsewhere = asyncio.create_task(
                client.post("/mcp", json=message("a", "goal"), headers={"Mcp-Session-Id": "another"})
            )
            await server.until_begun(2)
            server.app.may_answer.set()
            assert (await first).status_code == (await elsewhere).status_code == 200
            assert (await client.post("/mcp", json=message("a", "goal"))).status_code == 200

    asyncio.run(run())


def test_calls_that_never_end_are_bounded_and_a_stop_is_not() -> None:
    async def run() -> None:
        async with served() as (server, client):
            calls: list[asyncio.Task[httpx.Response]] = []
            while server.app.begun < MOST_UNDER_WAY:
                calls.append(asyncio.create_task(client.post("/mcp", json=message(len(calls), "goal"))))
                await asyncio.sleep(0.005)
            assert (await client.post("/mcp", json=message("one more", "goal"))).status_code == 429
            assert (await client.post("/mcp", json=message("stop", "stop"))).status_code == 429
            assert server.stops == 1
            server.app.may_answer.set()
            await asyncio.gather(*calls)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"null", 400),
        (b"\xff\xfe", 400),
        (b"[" * 5000, 400),
        (b'[{"method":"tools/call","params":{"name":"stop"}}]', 400),
        (b'{"id":{}}', 400),
        (b"x" * (MOST_MESSAGE_BYTES + 1), 413),
        (b'{"method":"tools/call","params":{"name":"stop"}}' + b" " * MOST_MESSAGE_BYTES, 413),
    ],
)
def test_what_is_no_message_does_not_reach_mcp(body: bytes, status: int) -> None:
    async def run() -> None:
        async with served() as (server, client):
            assert (await client.post("/mcp", content=body)).status_code == status
            assert server.app.begun == 0

    asyncio.run(run())


def test_a_call_that_the_servers_end_cuts_short_is_answered() -> None:
    async def run() -> None:
        server, sent = Server(), []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b'{"id":1,"method":"ping"}'}

        async def send(part: Any) -> None:
            sent.append(part)

        scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": []}
        call = asyncio.create_task(server.guard(scope, receive, send))
        await server.until_begun(1)
        call.cancel()
        await call
        assert sent[0]["status"] == 503

    asyncio.run(run())
