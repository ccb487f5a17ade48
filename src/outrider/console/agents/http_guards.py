# SPDX-License-Identifier: Apache-2.0
"""What stands before MCP over HTTP: the token, then stops, then a limit on everything else."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from outrider.console.agents.envelope import MOST_ID_SHOWN
from outrider.console.agents.first_look import (
    MESSAGES_PER_S,
    MOST_MESSAGE_BYTES,
    NO_MESSAGE,
    REFUSED,
    TOO_LONG,
    TOO_LONG_MESSAGE,
    TOO_MANY,
    UNREADABLE,
    FirstLook,
    first_look,
)
from outrider.core.token_bucket import TokenBucket

MESSAGES_AT_ONCE, MOST_UNDER_WAY = 20.0, 64
_Call = tuple[str, int | str | None]
_log = logging.getLogger(__name__)


class TokenGuard:
    """Lets those in who send `Authorization: Bearer TOKEN`; everything else is answered with 401."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._expected = app, f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get("authorization", "").encode()
        if secrets.compare_digest(given, self._expected):
            await self._app(scope, receive, send)
            return
        refusal = PlainTextResponse(
            "send the token: Authorization: Bearer TOKEN", 401, {"WWW-Authenticate": "Bearer"}
        )
        await refusal(scope, receive, send)


class StopsFirst:
    """Has a stop carried out as soon as its request has come, whatever MCP has yet to do.

    Of all agents together so few messages are let through that a stop finds little before it. `on_stop` is
    called in the event loop, and must not block.
    """

    def __init__(self, app: ASGIApp, on_stop: Callable[[], None]) -> None:
        self._app, self._on_stop = app, on_stop
        self._pace = TokenBucket(MESSAGES_PER_S, MESSAGES_AT_ONCE, time.monotonic())
        self._under_way: set[_Call] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        begin = await _body(receive)
        body = begin.get("body", b"")
        request = first_look(body)
        if request is not None and request.is_stop:
            self._on_stop()
        call = Headers(scope=scope).get("mcp-session-id", ""), request.id if request else None
        refusal = self._refusal(body, request, call)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        self._under_way.add(call)
        try:
            await self._app(scope, _after(begin, receive), send)
        except asyncio.CancelledError:  # the server ends, and a call has not
            await PlainTextResponse("the server ends", 503)(scope, receive, send)
        finally:
            self._under_way.discard(call)

    def _refusal(self, body: bytes, request: FirstLook | None, call: _Call) -> Response | None:
        if len(body) > MOST_MESSAGE_BYTES:
            return _error(413, None, TOO_LONG, TOO_LONG_MESSAGE)
        if request is None:
            return _error(400, None, UNREADABLE, NO_MESSAGE)
        if not self._pace.take(1.0, time.monotonic()) or len(self._under_way) >= MOST_UNDER_WAY:
            return _error(429, request.id, TOO_MANY, request.too_many)
        if request.id is not None and call in self._under_way:  # of two, MCP would never answer the first
            reason = f"request {str(request.id)[:MOST_ID_SHOWN]!r} is under way"
            return _error(409, request.id, TOO_MANY, reason)
        return None


def _error(status: int, call: int | str | None, code: int, reason: str) -> Response:
    _log.error(REFUSED, reason)
    return JSONResponse({"jsonrpc": "2.0", "id": call, "error": {"code": code, "message": reason}}, status)


async def _body(receive: Receive) -> Message:
    """The whole body as one message, or as much as shows that it is too long."""
    parts, message = [], await receive()
    while message["type"] == "http.request":
        parts.append(message.get("body", b""))
        if not message.get("more_body") or sum(map(len, parts)) > MOST_MESSAGE_BYTES:
            return {**message, "body": b"".join(parts)}
        message = await receive()
    return message


def _after(begin: Message, receive: Receive) -> Receive:
    """What is received when `begin` comes before it."""
    waiting = [begin]

    async def receive_it() -> Message:
        return waiting.pop() if waiting else await receive()

    return receive_it
