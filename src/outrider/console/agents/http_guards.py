# SPDX-License-Identifier: Apache-2.0
"""Guards in front of MCP over HTTP: the token check, then stops, then limits on everything else."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Callable
from typing import Any

import msgspec
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from outrider.console.agents.envelope import MAX_ID_SHOWN
from outrider.console.agents.jsonrpc import (
    MAX_MESSAGE_BYTES,
    NO_REQUEST,
    REFUSED,
    TAIL_BYTES,
    TOO_LONG,
    TOO_LONG_MESSAGE,
    TOO_MANY,
    UNREADABLE,
    JsonRpcMessage,
    LongMessage,
    MessagePace,
    calls_stop,
    parse_message,
    why_unreadable,
)
from outrider.console.agents.presence import Presence
from outrider.console.agents.stopper import Outcome

MESSAGES_PER_S, MESSAGES_AT_ONCE, MAX_UNDER_WAY, BODY_S = 25.0, 20.0, 16, 10.0
SESSION_HEADER = "mcp-session-id"
_Call = tuple[str, int | str | None]
_Refusal = tuple[int, Any, int, str]
"""HTTP status, request id, JSON-RPC error code, and reason."""
_log = logging.getLogger(__name__)


class TokenGuard:
    """Admits requests with `Authorization: Bearer TOKEN`; answers all others with 401."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._expected = app, token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or self._admits(Headers(scope=scope).get("authorization", "")):
            await self._app(scope, receive, send)
            return
        refusal = PlainTextResponse(
            "send the token: Authorization: Bearer TOKEN", 401, {"WWW-Authenticate": "Bearer"}
        )
        await refusal(scope, receive, send)

    def _admits(self, header: str) -> bool:
        scheme, _, token = header.partition(" ")
        return scheme.lower() == "bearer" and secrets.compare_digest(token.encode(), self._expected)


class StopsFirst:
    """Carries out a stop as soon as its request arrives, before MCP handles it.

    Limits each session's messages, so that little is queued ahead of a stop; requests without a known
    session share one limit. `on_stop` is called in the event loop, and must not block.
    """

    def __init__(self, app: ASGIApp, presence: Presence, on_stop: Callable[[], Outcome]) -> None:
        self._app, self._presence, self._on_stop = app, presence, on_stop
        self._paces: dict[str, MessagePace] = {}
        self._under_way: set[_Call] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        begin, end = await body_of(receive)
        if begin["type"] == "http.disconnect":
            return
        body = begin.get("body", b"")
        request = parse_message(body)
        long = LongMessage(body, end) if len(body) > MAX_MESSAGE_BYTES else None
        stop = self._on_stop() if calls_stop(body, long or request) else None
        session = Headers(scope=scope).get(SESSION_HEADER, "")
        call = session, request.id if request and request.is_request else None
        refusal = _too_long(long) if long else self._refusal(body, request, call)
        if refusal is not None:
            status, number, code, reason = refusal
            if stop is not None:
                outcome: str = await asyncio.wrap_future(stop)
                reason = f"{outcome}; {reason}"
            await _error(status, number, code, reason)(scope, receive, send)
            return
        self._under_way.add(call)
        try:
            observed_send = send if stop is None else _with_outcome(stop, call[1], scope, receive, send)
            await self._app(scope, after(begin, receive), observed_send)
        except asyncio.CancelledError:  # the server shuts down during a call
            await PlainTextResponse("the server ends", 503)(scope, receive, send)
        finally:
            self._under_way.discard(call)

    def _refusal(self, body: bytes, request: JsonRpcMessage | None, call: _Call) -> _Refusal | None:
        if request is None:
            return 400, None, UNREADABLE, why_unreadable(body)
        session, number = call
        num_under_way = sum(other == session for other, _ in self._under_way)
        pace = self._pace_of(session)
        if not pace.admits(request):
            reason = pace.too_many
        elif num_under_way >= MAX_UNDER_WAY:
            reason = f"{num_under_way} calls are under way: wait for their ends"
        elif number is not None and call in self._under_way:  # MCP would never answer the first of two
            reason = f"request {str(number)[:MAX_ID_SHOWN]!r} is under way"
        else:
            problem = request.problem(body)
            return (400, request.response_id, NO_REQUEST, problem) if problem else None
        # A client built on MCP's SDK ends its session on any HTTP error status.
        return 200 if request.is_request else 429, number, TOO_MANY, reason

    def _pace_of(self, session: str) -> MessagePace:
        """Return the session's own rate limit; requests without a known session share one."""
        for gone in [known for known in self._paces if known and known not in self._presence]:
            del self._paces[gone]
        session = session if session in self._presence else ""
        if session not in self._paces:
            self._paces[session] = MessagePace(MESSAGES_PER_S, MESSAGES_AT_ONCE)
        return self._paces[session]


def _too_long(message: LongMessage) -> _Refusal:
    return 413 if message.id is None else 200, message.id, TOO_LONG, TOO_LONG_MESSAGE


def _error(status: int, call: Any, code: int, reason: str) -> Response:
    _log.error(REFUSED, reason)
    return JSONResponse({"jsonrpc": "2.0", "id": call, "error": {"code": code, "message": reason}}, status)


def _with_outcome(stop: Outcome, call: Any, scope: Scope, receive: Receive, send: Send) -> Send:
    """Return the `send` for the answer to a stop.

    If MCP refuses the message, for example for lack of a session, the stop is carried out all the same, and
    the refusal states its outcome.
    """
    status, body = 200, bytearray()

    async def observed_send(message: Message) -> None:
        nonlocal status
        status = message.get("status", status)
        if status < 400:
            await send(message)
            return
        body.extend(message.get("body", b""))
        if message["type"] == "http.response.body" and not message.get("more_body"):
            outcome: str = await asyncio.wrap_future(stop)
            reason = f"{outcome}; {_reason_of(bytes(body))}"
            await _error(status, call, NO_REQUEST, reason)(scope, receive, send)

    return observed_send


def _reason_of(refusal: bytes) -> str:
    """Return the message of a JSON-RPC error, else the body as plain text."""
    with contextlib.suppress(msgspec.DecodeError, KeyError, TypeError):
        return str(msgspec.json.decode(refusal)["error"]["message"])
    return refusal.decode(errors="replace")


async def body_of(receive: Receive) -> tuple[Message, bytes]:
    """Return the body as one message, and its last TAIL_BYTES bytes.

    After BODY_S seconds the body is what has arrived by then. Of an overlong body only MAX_MESSAGE_BYTES +
    1 bytes are kept.
    """
    body, end = bytearray(), b""

    async def read() -> Message:
        nonlocal end
        while (message := await receive())["type"] == "http.request":
            part = message.get("body", b"")
            body.extend(part[: MAX_MESSAGE_BYTES + 1 - len(body)])
            end = (end + part)[-TAIL_BYTES:]
            if not message.get("more_body"):
                return {**message, "body": bytes(body)}
        return message

    try:
        return await asyncio.wait_for(read(), BODY_S), end
    except asyncio.TimeoutError:
        return {"type": "http.request", "body": bytes(body), "more_body": False}, end


def after(begin: Message, receive: Receive) -> Receive:
    """Return a `receive` that yields `begin` first."""
    waiting = [begin]

    async def receive_it() -> Message:
        return waiting.pop() if waiting else await receive()

    return receive_it
