# SPDX-License-Identifier: Apache-2.0
"""Signs of life of agents: any message counts.

An agent is pinged while its command moves the robot: an idle connection does not show whether the program
behind it is frozen.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

import anyio
from mcp.server.lowlevel import Server
from mcp.server.session import ServerSession
from mcp.shared.context import RequestContext
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp.types import JSONRPCError, JSONRPCMessage, JSONRPCRequest, JSONRPCResponse

from outrider.console.agents.calls.withdrawals import FilteredStream


class Liveness:
    """Records when the agent of one session last sent a message."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._received_s = clock, clock()
        self._numbers = itertools.count()
        self._asking: asyncio.Task[None] | None = None

    def observe(self, message: Any) -> bool:
        """Count a message as a sign of life. Returns whether it is a response: only a `ping` asks for one."""
        self._received_s = self._clock()
        content = getattr(getattr(message, "message", None), "root", None)
        return isinstance(content, (JSONRPCResponse, JSONRPCError))

    def watch(self, call: RequestContext[ServerSession, Any, Any], silence_s: float) -> Callable[[], bool]:
        """Return a function that tells whether the agent sent a message within `silence_s`.

        The time counts from the function's first call at the earliest. Each call also sends the agent a
        `ping`: on the stream that it keeps open and, over HTTP, on the stream of its call too.
        """
        first_s: float | None = None
        streams = [None] if call.request is None else [None, call.request_id]

        def is_there() -> bool:
            nonlocal first_s
            now_s = self._clock()
            first_s = now_s if first_s is None else first_s
            if self._asking is None or self._asking.done():
                self._asking = asyncio.create_task(self._ask(call.session, streams))
            return now_s - max(self._received_s, first_s) <= silence_s

        return is_there

    async def _ask(self, session: ServerSession, streams: list[Any]) -> None:
        """Send a `ping` directly: the SDK's own method treats a late answer as an error."""
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            for stream in streams:
                number = f"alive {next(self._numbers)}"
                ping = JSONRPCMessage(JSONRPCRequest(jsonrpc="2.0", id=number, method="ping"))
                by = ServerMessageMetadata(related_request_id=stream)
                await session._write_stream.send(SessionMessage(ping, by))


liveness: ContextVar[Liveness] = ContextVar("signs of life")
"""The signs of life of the session whose call is being handled."""


def track_liveness(server: Server[Any, Any]) -> None:
    """Make a server count every message of its agents as a sign of life."""
    run = server.run

    async def run_with_liveness(stream: Any, *arguments: Any, **options: Any) -> None:
        session = Liveness()
        liveness.set(session)
        await run(FilteredStream(stream, session.observe), *arguments, **options)  # type: ignore[arg-type]

    server.run = run_with_liveness  # type: ignore[method-assign,assignment]
