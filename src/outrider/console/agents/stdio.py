# SPDX-License-Identifier: Apache-2.0
"""MCP over a pipe: limits what an agent may send, and reads a stop ahead of queued messages."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, BinaryIO

import anyio
import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCMessage

from outrider.console.agents.jsonrpc import (
    MAX_MESSAGE_BYTES,
    NO_REQUEST,
    REFUSED,
    TAIL_BYTES,
    TOO_LONG,
    TOO_LONG_MESSAGE,
    TOO_MANY,
    UNREADABLE,
    LongMessage,
    MessagePace,
    calls_stop,
    parse_message,
    why_unreadable,
)
from outrider.console.agents.stopper import Outcome

LINES_PER_S, LINES_AT_ONCE = 100.0, 200.0
MAX_ANSWERS, CLOSE_S = 1000, 2.0
_log = logging.getLogger(__name__)
Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]


class _Pipe:
    """An agent's lines, read in a separate thread so that a stop is seen however many messages wait.

    Answers are written in another thread: an agent that does not read them delays no stop.
    """

    def __init__(self, source: BinaryIO, sink: BinaryIO, on_stop: Callable[[], Outcome]) -> None:
        self._source, self._sink, self._on_stop = source, sink, on_stop
        self._loop = asyncio.get_running_loop()
        self._answers: queue.Queue[bytes | None] = queue.Queue(MAX_ANSWERS)
        self._messages: asyncio.Queue[SessionMessage | None] = asyncio.Queue()
        self._pace, self._closed = MessagePace(LINES_PER_S, LINES_AT_ONCE), False
        self._pending_refusals, self._last_refused = threading.Semaphore(MAX_ANSWERS), threading.Event()
        self._last_refused.set()
        self._writer = threading.Thread(target=self._write, name="answers", daemon=True)
        self._writer.start()
        threading.Thread(target=self._read, name="agent", daemon=True).start()

    async def next(self) -> SessionMessage | None:
        """Return the next accepted message; None at the end."""
        return await self._messages.get()

    def answer(self, text: bytes) -> None:
        """Queue one answer. Blocks while the queue is full, until `leave` or `close` is called."""
        while not self._closed:
            with contextlib.suppress(queue.Full):
                self._answers.put(text, timeout=CLOSE_S)
                return

    def leave(self) -> None:
        """Stop waiting for an agent that does not read."""
        self._closed = True

    def close(self) -> None:
        """Write the queued answers. Blocks for at most 2 * CLOSE_S seconds."""
        self.leave()
        with contextlib.suppress(queue.Full):
            self._answers.put(None, timeout=CLOSE_S)
        self._writer.join(CLOSE_S)

    def _write(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # the agent has gone
            while (text := self._answers.get()) is not None:
                self._sink.write(text + b"\n")
                self._sink.flush()
            return
        while self._answers.get() is not None:  # drain the queue, so that no sender blocks
            pass

    def _read(self) -> None:
        while line := self._source.readline(MAX_MESSAGE_BYTES + 1):
            if len(line) > MAX_MESSAGE_BYTES:
                long = LongMessage(line, self._rest(line))
                self._refuse(long.id, TOO_LONG, TOO_LONG_MESSAGE, self._on_stop() if long.is_stop else None)
                continue
            request = parse_message(line)
            stop = self._on_stop() if calls_stop(line, request) else None
            if request is None:
                self._refuse(None, UNREADABLE, why_unreadable(line), stop)
            elif not self._pace.admits(request):
                self._refuse(request.id if request.is_request else None, TOO_MANY, self._pace.too_many, stop)
            elif problem := request.problem(line):
                self._refuse(request.response_id, NO_REQUEST, problem, stop)
            else:
                self._put(SessionMessage(JSONRPCMessage.model_validate_json(line)))
        self._last_refused.wait()
        self._put(None)

    def _put(self, message: SessionMessage | None) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._messages.put_nowait, message)

    def _rest(self, begin: bytes) -> bytes:
        """Read to the end of an overlong line, whose start is `begin`; return its last TAIL_BYTES bytes."""
        end = begin[-TAIL_BYTES:]
        while not end.endswith(b"\n") and (more := self._source.readline(MAX_MESSAGE_BYTES)):
            end = (end + more)[-TAIL_BYTES:]
        return end

    def _refuse(self, call: Any, code: int, reason: str, stop: Outcome | None = None) -> None:
        """Answer with an error. If the message called a stop, answer once its outcome is known."""
        if stop is None:
            self._send_error(call, code, reason)
        elif self._pending_refusals.acquire(blocking=False):
            self._last_refused = refused = threading.Event()

            def send_outcome(outcome: Outcome) -> None:
                self._pending_refusals.release()
                self._send_error(call, code, f"{outcome.result()}; {reason}")
                refused.set()

            stop.add_done_callback(send_outcome)

    def _send_error(self, call: Any, code: int, reason: str) -> None:
        """Log an error, and send it unless it is for a notification above the rate or the queue is full."""
        _log.error(REFUSED, reason)
        error = {"code": code, "message": reason}
        if call is not None or code != TOO_MANY:
            with contextlib.suppress(queue.Full):
                self._answers.put_nowait(msgspec.json.encode({"jsonrpc": "2.0", "id": call, "error": error}))


@asynccontextmanager
async def pipe_streams(
    source: BinaryIO, sink: BinaryIO, on_stop: Callable[[], Outcome]
) -> AsyncIterator[Streams]:
    """Yield the message streams of a session.

    `on_stop` is called in the reading thread as soon as a call of `stop` has been read, however many
    messages wait. The call may still be answered with a refusal.
    """
    pipe = _Pipe(source, sink, on_stop)
    incoming: Any = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing: Any = anyio.create_memory_object_stream[SessionMessage](0)
    answered = anyio.Event()

    async def read() -> None:
        async with incoming[0]:
            while (message := await pipe.next()) is not None:
                await incoming[0].send(message)

    async def write() -> None:
        async with outgoing[1]:
            async for item in outgoing[1]:
                text = item.message.model_dump_json(by_alias=True, exclude_none=True)
                await asyncio.to_thread(pipe.answer, text.encode())
        answered.set()

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            tasks.start_soon(write)
            yield incoming[1], outgoing[0]
            await outgoing[0].aclose()
            with anyio.move_on_after(CLOSE_S):
                await answered.wait()
            await asyncio.to_thread(pipe.close)
            tasks.cancel_scope.cancel()
    finally:
        pipe.leave()
