# SPDX-License-Identifier: Apache-2.0
"""Calls that their agent withdraws: before they begin, while they run, or too late.

The SDK's own handling breaks a session if a call ends while it is withdrawn, and misses a call that has not
begun.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

import anyio
from mcp.server.lowlevel import Server
from mcp.server.lowlevel.server import request_ctx
from mcp.shared.exceptions import McpError
from mcp.types import CallToolRequest, ErrorData, JSONRPCNotification, JSONRPCRequest


class FilteredStream:
    """A stream without the messages for which `handles`, called with each message, returns True."""

    def __init__(self, stream: Any, handles: Callable[[Any], bool]) -> None:
        self._stream, self._handles = stream, handles

    async def __aenter__(self) -> FilteredStream:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._stream.__aexit__(*error)

    def __aiter__(self) -> FilteredStream:
        return self

    async def __anext__(self) -> Any:
        while self._handles(message := await self._stream.__anext__()):
            pass
        return message


CANCELLED = "notifications/cancelled"
MAX_WAITING = 64
STOPS = ("stop", "cancel")
"""The tools whose calls cannot be withdrawn."""
WITHDRAWN = ErrorData(code=0, message="Request cancelled")
_Handler = Callable[[Any], Awaitable[Any]]


class Withdrawals:
    """The calls of one session by id, from the time they are read."""

    def __init__(self) -> None:
        self._waiting: dict[Any, bool] = {}
        self._scopes: dict[Any, anyio.CancelScope] = {}

    def handles(self, message: Any) -> bool:
        """Handle a message that withdraws a call and return True; return False for any other message."""
        content = getattr(getattr(message, "message", None), "root", None)
        if isinstance(content, JSONRPCRequest):
            self._waiting[content.id] = False
            if len(self._waiting) > MAX_WAITING:  # stops and unknown methods are not removed elsewhere
                del self._waiting[next(iter(self._waiting))]
        if not isinstance(content, JSONRPCNotification) or content.method != CANCELLED:
            return False
        call = (content.params or {}).get("requestId")
        if isinstance(call, (int, str)):
            self._withdraw(call)
        return True

    async def answer(self, call: Any, work: Callable[[], Awaitable[Any]]) -> Any:
        """Return the answer to a call. Raises McpError if the call is withdrawn."""
        if self._waiting.pop(call, False):
            raise McpError(WITHDRAWN)
        if call in self._scopes:  # one handler of the SDK calls another
            return await work()
        with anyio.CancelScope() as scope:
            self._scopes[call] = scope
            try:
                return await work()
            finally:
                del self._scopes[call]
        raise McpError(WITHDRAWN)

    def _withdraw(self, call: Any) -> None:
        if call in self._scopes:
            self._scopes[call].cancel()
        elif call in self._waiting:
            self._waiting[call] = True


_of_this_session: ContextVar[Withdrawals] = ContextVar("withdrawals")


def allow_withdrawals(server: Server[Any, Any]) -> None:
    """Make a server withdraw calls in this way. Call it once all handlers are registered."""
    run = server.run

    async def run_with_withdrawals(stream: Any, *arguments: Any, **options: Any) -> None:
        withdrawals = Withdrawals()
        _of_this_session.set(withdrawals)
        await run(FilteredStream(stream, withdrawals.handles), *arguments, **options)  # type: ignore[arg-type]

    server.run = run_with_withdrawals  # type: ignore[method-assign,assignment]
    for kind, handler in server.request_handlers.items():
        server.request_handlers[kind] = _withdrawable(handler)


def _withdrawable(handler: _Handler) -> Any:
    async def handle(request: Any) -> Any:
        if isinstance(request, CallToolRequest) and request.params.name in STOPS:
            return await handler(request)
        call = request_ctx.get().request_id
        return await _of_this_session.get().answer(call, lambda: handler(request))

    return handle
