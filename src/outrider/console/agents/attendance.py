# SPDX-License-Identifier: Apache-2.0
"""Tracks the sessions of MCP over HTTP, and frees a session for a new agent when one has gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from outrider.console.agents.http_guards import SESSION_HEADER, after
from outrider.console.agents.jsonrpc import parse_message
from outrider.console.agents.presence import Presence
from outrider.console.hub import MAX_AGENTS

GONE = 404


class Attendance:
    """Reports to `presence` which sessions exist. If there are too many, ends the one gone for longest."""

    def __init__(self, app: ASGIApp, presence: Presence) -> None:
        self._app, self._presence = app, presence

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        session = Headers(scope=scope).get(SESSION_HEADER, "")

        async def observed_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._on_answer(scope["method"], session, message)
            await send(message)

        with self._presence.open(session) as close:
            if scope["method"] != "POST":  # a stream of answers ends by itself when its connection breaks
                await self._app(scope, receive, observed_send)
                return
            begin = await receive()
            if not session and _begins(begin):
                await self._make_room(scope)
            watching = asyncio.create_task(_until_broken(receive, close))
            try:
                await self._app(scope, after(begin, receive), observed_send)
            finally:
                watching.cancel()

    def _on_answer(self, method: str, session: str, answer: Message) -> None:
        begun = Headers(raw=answer["headers"]).get(SESSION_HEADER, "")
        if not session and begun and answer["status"] < 400:
            self._presence.begin(begun)
        elif session and (method == "DELETE" or answer["status"] == GONE):
            self._presence.end(session)

    async def _make_room(self, scope: Scope) -> None:
        gone = self._presence.longest_absent() if len(self._presence) >= MAX_AGENTS else None
        if gone is None:
            return
        headers = [(SESSION_HEADER.encode(), gone.encode())]
        await self._app({**scope, "method": "DELETE", "headers": headers}, _nothing, _nowhere)
        self._presence.end(gone)


def _begins(begin: Message) -> bool:
    """Whether a request opens a new session: only such a request may end another agent's session."""
    message = parse_message(begin.get("body", b""))
    return message is not None and message.is_request and message.method == "initialize"


async def _until_broken(receive: Receive, close: Callable[[], None]) -> None:
    with suppress(asyncio.CancelledError):
        while (await receive())["type"] != "http.disconnect":
            pass
        close()


async def _nothing() -> Message:
    return {"type": "http.request", "body": b""}


async def _nowhere(_: Message) -> None:
    """Discard the answer: nobody waits for it."""
