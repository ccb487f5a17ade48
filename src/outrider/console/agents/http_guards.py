# SPDX-License-Identifier: Apache-2.0
"""What stands before MCP over HTTP: the token, then stops, then a limit on everything else."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from outrider.console.agents.envelope import MOST_ID_SHOWN
from outrider.console.agents.first_look import (
    MOST_MESSAGE_BYTES,
    REFUSED,
    TOO_LONG,
    TOO_LONG_MESSAGE,
    TOO_MANY,
    UNREADABLE,
    FirstLook,
    first_look,
    stops_among,
    why_unreadable,
)
from outrider.console.agents.message_pace import MessagePace
from outrider.console.agents.presence import Presence

MESSAGES_PER_S, MESSAGES_AT_ONCE, MOST_UNDER_WAY, BODY_S = 25.0, 20.0, 16, 10.0
SESSION_HEADER = "mcp-session-id"
_Call = tuple[str, int | str | float | None]
_log = logging.getLogger(__name__)


class TokenGuard:
    """Lets those in who send `Authorization: Bearer TOKEN`; everything else is answered with 401."""

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

    def _admits(self, given: str) -> bool:
        scheme, _, token = given.partition(" ")
        return scheme.lower() == "bearer" and secrets.compare_digest(token.encode(), self._expected)


class StopsFirst:
    """Has a stop carried out as soon as its request has come, whatever MCP has yet to do.

    Of each session so few messages are let through that a stop finds little before it; those of no session
    share one rate. `on_stop` is called in the event loop, and must not block.
    """

    def __init__(self, app: ASGIApp, presence: Presence, on_stop: Callable[[], None]) -> None:
        self._app, self._presence, self._on_stop = app, presence, on_stop
        self._paces: dict[str, MessagePace] = {}
        self._under_way: set[_Call] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        begin = await body_of(receive)
        body = begin.get("body", b"")
        request = first_look(body)
        if stops_among(body) if request is None else request.is_stop:
            self._on_stop()
        call = Headers(scope=scope).get(SESSION_HEADER, ""), request.id if request else None
        refusal = self._refusal(body, request, call)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        self._under_way.add(call)
        try:
            await self._app(scope, after(begin, receive), send)
        except asyncio.CancelledError:  # the server ends, and a call has not
            await PlainTextResponse("the server ends", 503)(scope, receive, send)
        finally:
            self._under_way.discard(call)

    def _refusal(self, body: bytes, request: FirstLook | None, call: _Call) -> Response | None:
        if len(body) > MOST_MESSAGE_BYTES:
            return _error(413, None, TOO_LONG, TOO_LONG_MESSAGE)
        if request is None:
            return _error(400, None, UNREADABLE, why_unreadable(body))
        session, number = call
        num_under_way = sum(other == session for other, _ in self._under_way)
        pace = self._pace_of(session)
        if not pace.takes(request):
            reason = pace.too_many
        elif num_under_way >= MOST_UNDER_WAY:
            reason = f"{num_under_way} calls are under way: wait for their ends"
        elif number is not None and call in self._under_way:  # of two, MCP would never answer the first
            reason = f"request {str(number)[:MOST_ID_SHOWN]!r} is under way"
        else:
            return None
        return _error(429, number, TOO_MANY, request.refused(reason))

    def _pace_of(self, session: str) -> MessagePace:
        """The one of its own of a session that is known; the rest share one."""
        for ended in [known for known in self._paces if known and known not in self._presence]:
            del self._paces[ended]
        session = session if session in self._presence else ""
        if session not in self._paces:
            self._paces[session] = MessagePace(MESSAGES_PER_S, MESSAGES_AT_ONCE)
        return self._paces[session]


def _error(status: int, call: int | str | float | None, code: int, reason: str) -> Response:
    _log.error(REFUSED, reason)
    return JSONResponse({"jsonrpc": "2.0", "id": call, "error": {"code": code, "message": reason}}, status)


async def body_of(receive: Receive) -> Message:
    """The whole body as one message; as much as shows that it is too long, or as has come in good time."""
    parts = list[bytes]()

    async def whole() -> Message:
        message = await receive()
        while message["type"] == "http.request":
            parts.append(message.get("body", b""))
            if not message.get("more_body") or sum(map(len, parts)) > MOST_MESSAGE_BYTES:
                return {**message, "body": b"".join(parts)}
            message = await receive()
        return message

    try:
        return await asyncio.wait_for(whole(), BODY_S)
    except asyncio.TimeoutError:
        return {"type": "http.request", "body": b"".join(parts), "more_body": False}


def after(begin: Message, receive: Receive) -> Receive:
    """What is received when `begin` comes before it."""
    waiting = [begin]

    async def receive_it() -> Message:
        return waiting.pop() if waiting else await receive()

    return receive_it
