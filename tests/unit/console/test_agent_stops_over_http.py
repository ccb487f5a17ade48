"""Over HTTP a stop is carried out before any other handling of its message, whatever MCP has pending."""

from __future__ import annotations

import asyncio
import contextlib
import json
import tracemalloc
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

pytest.importorskip("mcp", reason="the extra mcp is not installed")

from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from outrider.console.agents.http_guards import MAX_UNDER_WAY, MESSAGES_AT_ONCE, StopsFirst, TokenGuard
from outrider.console.agents.jsonrpc import MAX_MESSAGE_BYTES, NO_REQUEST, TOO_LONG, TOO_MANY
from outrider.console.agents.presence import Presence
from outrider.console.agents.stopper import ENGAGED, Outcome


class SlowApp:
    """Answers each call with its body once `may_answer` is set."""

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
        self.app, self.stops, self.outcome = SlowApp(), 0, ENGAGED
        self.presence = Presence()
        for session in ("one", "another"):
            self.presence.begin(session)
        self.guard = StopsFirst(self.app, self.presence, self._on_stop)

    def _on_stop(self) -> Outcome:
        self.stops += 1
        outcome: Outcome = Outcome()
        outcome.set_result(self.outcome)
        return outcome

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


def is_refused(answer: httpx.Response) -> bool:
    """Returns whether a request is refused. A refusal has its id, and a status that ends no session."""
    code = answer.json().get("error", {}).get("code")
    assert answer.status_code == 200 and code in (None, TOO_MANY)
    return code == TOO_MANY


WITHDRAWN = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}


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
            refused = [answer for answer in answers if is_refused(answer)]
            assert len(refused) > 400 - 5 * MESSAGES_AT_ONCE
            for answer in refused:
                error = answer.json()
                assert "messages a second: wait" in error["error"]["message"]
                assert ("stop is engaged" in error["error"]["message"]) == (error["id"] % 10 == 9)

    asyncio.run(run())


def test_what_ends_a_command_passes_a_flood_and_so_does_another_session() -> None:
    async def run() -> None:
        async with served() as (server, client):

            async def floods(tool: str, session: str = "one") -> bool:
                """Sends messages until one is refused. Returns False if none is."""
                for _ in range(1000):
                    headers = {"Mcp-Session-Id": session}
                    if is_refused(await client.post("/mcp", json=message(1, tool), headers=headers)):
                        return True
                return False

            server.app.may_answer.set()
            assert await floods("status")
            for number, urgent in enumerate(URGENT):
                assert not is_refused(await client.post("/mcp", json={**urgent, "id": f"u{number}"}))
            assert not is_refused(await client.post("/mcp", json=WITHDRAWN))
            assert await floods("goal")
            other = {"Mcp-Session-Id": "another"}
            assert not is_refused(await client.post("/mcp", json=message(1, "status"), headers=other))
            for unknown in ("", "forged", "forged again"):
                assert await floods("x", unknown)
            assert not is_refused(await client.post("/mcp", json=message(2, "status"), headers=other))

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
                assert is_refused(again) and "'a' is under way" in again.text and server.stops == stops
            elsewhere = asyncio.create_task(
                client.post("/mcp", json=message("a", "goal"), headers={"Mcp-Session-Id": "another"})
            )
            await server.until_begun(2)
            server.app.may_answer.set()
            assert not is_refused(await first) and not is_refused(await elsewhere)
            assert not is_refused(await client.post("/mcp", json=message("a", "goal")))

    asyncio.run(run())


def test_calls_that_never_end_are_bounded_and_a_stop_is_not() -> None:
    async def run() -> None:
        async with served() as (server, client):
            calls = [
                asyncio.create_task(client.post("/mcp", json=message(number, "goal")))
                for number in range(MAX_UNDER_WAY)
            ]
            await server.until_begun(MAX_UNDER_WAY)
            for tool, stops in (("goal", 0), ("stop", 1)):
                one_more = await client.post("/mcp", json=message("one more", tool))
                assert is_refused(one_more) and "calls are under way" in one_more.text
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


@pytest.mark.parametrize("number", [1.5, "text", -7, None, True, [], {"a": 1}])
def test_a_stop_is_known_whatever_its_id(number: object) -> None:
    async def run() -> None:
        async with served() as (server, client):
            server.app.may_answer.set()
            await client.post("/mcp", json=message(number, "stop"))
            assert server.stops == 1

    asyncio.run(run())


@pytest.mark.parametrize("tool", ["status", "goal", "stop"])
@pytest.mark.parametrize("number", [5.0, None, True, [], {"a": 1}])
def test_a_request_whose_id_is_none_of_mcp_is_answered(number: object, tool: str) -> None:
    async def run() -> None:
        async with served() as (server, client):
            answer = await client.post("/mcp", json=message(number, tool))
            told = answer.json()
            assert answer.status_code == 400 and told["error"]["code"] == NO_REQUEST
            assert told["id"] == number and "text or a whole number" in told["error"]["message"]
            assert ("stop is engaged" in told["error"]["message"]) == (tool == "stop")
            assert server.app.begun == 0

    asyncio.run(run())


@pytest.mark.parametrize(
    "given",
    [
        {"jsonrpc": "1.0", "id": 1, "method": "ping"},
        {"id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": 7},
        {"jsonrpc": "2.0", "id": 1},
        {"jsonrpc": "2.0"},
    ],
)
def test_what_is_no_request_is_refused_in_words(given: dict[str, Any]) -> None:
    async def run() -> None:
        async with served() as (server, client):
            answer = await client.post("/mcp", json=given)
            told = answer.json()
            assert answer.status_code == 400 and told["error"]["code"] == NO_REQUEST
            assert told["id"] == given.get("id") and "pydantic" not in answer.text and len(answer.text) < 300
            assert server.app.begun == 0

    asyncio.run(run())


LONG = "x" * (3 * MAX_MESSAGE_BYTES)


@pytest.mark.parametrize("number", [7, "seven", 'a "quoted" one'])
@pytest.mark.parametrize("order", [("id", "params"), ("params", "id"), ("params", "id", "jsonrpc")])
@pytest.mark.parametrize("tool", ["goal", "stop"])
def test_a_message_that_is_too_long_is_refused_by_its_id(number: object, order: Any, tool: str) -> None:
    async def run() -> None:
        whole = message(number, tool, sentence=LONG)
        whole = {name: whole[name] for name in ("method", *order)}
        async with served() as (server, client):
            answer = await client.post("/mcp", json=whole)
            told = answer.json()
            assert answer.status_code == 200 and told["error"]["code"] == TOO_LONG and told["id"] == number
            assert "at most" in told["error"]["message"] or "fewer" in told["error"]["message"]
            assert server.stops == (tool == "stop") and server.app.begun == 0

    asyncio.run(run())


@pytest.mark.parametrize(
    "body",
    [
        json.dumps({"method": "x", "params": {"a": LONG, "id": 5}}),
        json.dumps({"params": {"id": 5}, "method": "x", "a": LONG}),
        json.dumps({"params": {"a": LONG}, "method": 'x","id":5'}),
        '{"id":5.0,"params":"' + LONG,
    ],
)
def test_no_id_is_taken_from_elsewhere_in_a_long_message(body: str) -> None:
    async def run() -> None:
        async with served() as (server, client):
            answer = await client.post("/mcp", content=body)
            assert answer.status_code == 413 and answer.json()["id"] is None and server.app.begun == 0

    asyncio.run(run())


def test_a_server_reads_a_long_message_in_bounded_memory() -> None:
    async def parts() -> AsyncIterator[bytes]:
        yield b'{"jsonrpc":"2.0","id":3,"method":"tools/call","params":"'
        for _ in range(500):
            yield b"x" * MAX_MESSAGE_BYTES
        yield b'"}'

    async def run() -> None:
        async with served() as (server, client):
            tracemalloc.start()
            answer = await client.post("/mcp", content=parts())
            _, most = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert answer.json()["id"] == 3 and server.app.begun == 0
            assert most < 20 * MAX_MESSAGE_BYTES

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
        (b"x" * (MAX_MESSAGE_BYTES + 1), 413),
        (b'{"method":"tools/call","params":{"name":"stop"}}' + b" " * MAX_MESSAGE_BYTES, 413),
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
            return {"type": "http.request", "body": b'{"jsonrpc":"2.0","id":1,"method":"ping"}'}

        async def send(part: Any) -> None:
            sent.append(part)

        scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": []}
        call = asyncio.create_task(server.guard(scope, receive, send))
        await server.until_begun(1)
        call.cancel()
        await call
        assert sent[0]["status"] == 503

    asyncio.run(run())
