# SPDX-License-Identifier: Apache-2.0
"""MCP over a pipe that bounds what an agent may send, and reads a stop before what waits."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, BinaryIO

import anyio
import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCMessage

from outrider.core.token_bucket import TokenBucket

MOST_LINE_BYTES = 1 << 16
LINES_PER_S, LINES_AT_ONCE = 100.0, 200.0
NO_MESSAGE = "not a message of JSON-RPC"
TOO_MANY, TOO_LONG, UNREADABLE = -32000, -32600, -32700
_log = logging.getLogger(__name__)
Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]


class _Request(msgspec.Struct):
    """As much of a request as is needed to refuse it, and to know a stop."""

    id: int | str | None = None
    method: str = ""
    params: msgspec.Raw = msgspec.Raw(b"{}")


class _Params(msgspec.Struct):
    name: str = ""


class _Pipe:
    """Lines of an agent, read in a thread of their own so that a stop is known however many others wait."""

    def __init__(self, source: BinaryIO, sink: BinaryIO, on_stop: Callable[[], None]) -> None:
        self._source, self._sink, self._on_stop = source, sink, on_stop
        self._loop = asyncio.get_running_loop()
        self._writing = threading.Lock()
        self._messages: asyncio.Queue[SessionMessage | None] = asyncio.Queue()
        self._pace = TokenBucket(LINES_PER_S, LINES_AT_ONCE, time.monotonic())
        threading.Thread(target=self._read, name="agent", daemon=True).start()

    async def next(self) -> SessionMessage | None:
        """The next message that is taken; None at the end."""
        return await self._messages.get()

    def write(self, text: bytes) -> None:
        """One message. Blocks while the agent does not read."""
        with self._writing:
            self._sink.write(text + b"\n")
            self._sink.flush()

    def _read(self) -> None:
        while line := self._source.readline(MOST_LINE_BYTES + 1):
            if len(line) > MOST_LINE_BYTES:
                self._skip()
                self._refuse(None, TOO_LONG, f"a message has more than {MOST_LINE_BYTES} bytes")
                continue
            request = _request(line)
            if request is None:
                self._refuse(None, UNREADABLE, NO_MESSAGE)
                continue
            if _is_stop(request):
                self._loop.call_soon_threadsafe(self._on_stop)
            if not self._pace.take(1.0, time.monotonic()):
                self._refuse(request.id, TOO_MANY, f"more than {LINES_PER_S:g} messages a second: wait")
            elif (message := _message(line)) is None:
                self._refuse(None, UNREADABLE, NO_MESSAGE)
            else:
                self._put(message)
        self._put(None)

    def _put(self, message: SessionMessage | None) -> None:
        self._loop.call_soon_threadsafe(self._messages.put_nowait, message)

    def _skip(self) -> None:
        """The rest of a line that is too long."""
        while (rest := self._source.readline(MOST_LINE_BYTES)) and not rest.endswith(b"\n"):
            pass

    def _refuse(self, call: int | str | None, code: int, reason: str) -> None:
        """Answer with an error, which notifications do not get."""
        _log.error("an agent's message is refused: %s", reason)
        error = {"code": code, "message": reason}
        if call is not None or code != TOO_MANY:
            self.write(msgspec.json.encode({"jsonrpc": "2.0", "id": call, "error": error}))


@asynccontextmanager
async def pipe_streams(
    source: BinaryIO, sink: BinaryIO, on_stop: Callable[[], None]
) -> AsyncIterator[Streams]:
    """The streams of a session. `on_stop` is called in the loop once a call of `stop` has been read, however
    many messages there are: then it is done, though such a call may be answered with a refusal.
    """
    pipe = _Pipe(source, sink, on_stop)
    incoming: Any = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing: Any = anyio.create_memory_object_stream[SessionMessage](0)

    async def read() -> None:
        async with incoming[0]:
            while (message := await pipe.next()) is not None:
                await incoming[0].send(message)

    async def write() -> None:
        async with outgoing[1]:
            async for one in outgoing[1]:
                text = one.message.model_dump_json(by_alias=True, exclude_none=True)
                await asyncio.to_thread(pipe.write, text.encode())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        tasks.start_soon(write)
        yield incoming[1], outgoing[0]
        tasks.cancel_scope.cancel()


def _message(line: bytes) -> SessionMessage | None:
    """A whole message, None for what the SDK could not read either: it would log each in many lines."""
    try:
        return SessionMessage(JSONRPCMessage.model_validate_json(line))
    except ValueError:
        return None


def _request(line: bytes) -> _Request | None:
    try:
        return msgspec.json.decode(line, type=_Request)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _is_stop(request: _Request) -> bool:
    try:
        name = msgspec.json.decode(request.params, type=_Params).name
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return (request.method, name) == ("tools/call", "stop")
