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
from outrider.console.agents.http_guards import MESSAGES_AT_ONCE, MOST_UNDER_WAY, StopsFirst, TokenGuard
from outrider.console.agents.presence import Presence


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
        self.presence = Presence()
        for session in ("one", "another"):
            self.presence.begin(session)
        self.guard = StopsFirst(self.app, self.presence, self._on_stop)

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
        client.headers["Mcp-Session-Id"] = "one"
        yield server, client


def message(number: object, tool: str, **arguments: str) -> dict[str, Any]:
    call = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": call}


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


def test_what_ends_a_command_passes_a_flood_and_so_does_another_session() -> None:
    async def run() -> None:
        async with served() as (server, client):
            server.app.may_answer.set()
            for number in range(100):
                await client.post("/mcp", json=message(number, "status"))
            assert (await client.post("/mcp", json=message("late", "status"))).status_code == 429
            for number, urgent in enumerate(URGENT):
                assert (await client.post("/mcp", json={**urgent, "id": f"u{number}"})).status_code == 200
            assert (
                await client.post("/mcp", json=message("late", "goal", sentence="go on"))
            ).status_code == 429
            other = {"Mcp-Session-Id": "another"}
            assert (await client.post("/mcp", json=message(1, "status"), headers=other)).status_code == 200
            for unknown in ("", "forged"):
                for number in range(50):
                    await client.post("/mcp", json=message(number, "x"), headers={"Mcp-Session-Id": unknown})
            forged = {"Mcp-Session-Id": "forged again"}
            assert (await client.post("/mcp", json=message(1, "x"), headers=forged)).status_code == 429
            assert (await client.post("/mcp", json=message(2, "status"), headers=other)).status_code == 200

    asyncio.run(run())


URGENT = [
    message(0, "cancel"),
    message(0, "goal", sentence="stop"),
    message(0, "goal", sentence="STOP!"),
    message(0, "ask", question="can you please stop?"),
    message(0, "goal", sentence="halt sofort an"),
]


def test_of_two_calls_with_one_id_the_second_is_refused_until_the_first_has_ended() -> None:
    async def run() -> None:
        async with served() as (server, client):
            first = asyncio.create_task(client.post("/mcp", json=message("a", "goal")))
            await server.until_begun(1)
            for tool, stops in (("goal", 0), ("stop", 1)):
                again = await client.post("/mcp", json=message("a", tool))
                assert again.status_code == 429 and "'a' is under way" in again.text and server.stops == stops
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
            calls = [
                asyncio.create_task(client.post("/mcp", json=message(number, "goal")))
                for number in range(MOST_UNDER_WAY)
            ]
            await server.until_begun(MOST_UNDER_WAY)
            for tool, stops in (("goal", 0), ("stop", 1)):
                one_more = await client.post("/mcp", json=message("one more", tool))
                assert one_more.status_code == 429 and "calls are under way" in one_more.text
                assert server.stops == stops
            server.app.may_answer.set()
            await asyncio.gather(*calls)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("body", "stops"),
    [
        (b'[{"method":"tools/call","params":{"name":"stop"}}]', 1),
        (b'[{"id":1,"method":"ping"},{"id":2,"method":"tools/call","params":{"name":"stop"}}]', 1),
        (b'[{"id":1,"method":"ping"}]', 0),
        (b"[]", 0),
    ],
)
def test_an_array_of_messages_is_refused_and_a_stop_in_it_carried_out(body: bytes, stops: int) -> None:
    async def run() -> None:
        async with served() as (server, client):
            answer = await client.post("/mcp", content=body)
            assert answer.status_code == 400 and "one by one" in answer.text
            assert server.stops == stops and server.app.begun == 0

    asyncio.run(run())


@pytest.mark.parametrize("number", [1.5, "text", -7, None])
def test_a_stop_is_known_whatever_its_id(number: object) -> None:
    async def run() -> None:
        async with served() as (server, client):
            server.app.may_answer.set()
            await client.post("/mcp", json=message(number, "stop"))
            assert server.stops == 1

    asyncio.run(run())


@pytest.mark.parametrize(("given", "status"), [("Bearer token", 200), ("bearer token", 200), ("token", 401)])
def test_a_schemes_case_does_not_matter(given: str, status: int) -> None:
    async def run() -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await PlainTextResponse("in")(scope, receive, send)

        transport = httpx.ASGITransport(TokenGuard(app, "token"))
        async with httpx.AsyncClient(transport=transport, base_url="http://robot") as client:
            assert (await client.post("/", headers={"Authorization": given})).status_code == status

    asyncio.run(run())


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"null", 400),
        (b"\xff\xfe", 400),
        (b"[" * 5000, 400),
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
