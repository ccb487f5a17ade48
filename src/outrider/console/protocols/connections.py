# SPDX-License-Identifier: Apache-2.0
"""The server's side of HTTP and websocket connections, on which a client may send anything.

Input is read in small pieces, one per turn of the event loop. All frames of a websocket are counted here,
whole messages where they are read.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from contextlib import suppress
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from outrider.console.protocols.pace import MAX_MESSAGES_PER_S, Pace
from outrider.core.errors import ProtocolError

READ_BYTES = 1024
"""Read from one connection per turn of the event loop. 256 KiB of tiny parts would take most of a second."""
REST_S = 0.1
"""The longest time, in seconds, for reading the rest of a broken connection while all else waits."""
MAX_FRAMES_PER_S = 2 * MAX_MESSAGES_PER_S
"""Includes pings and fragments. Higher than the limit on messages, whose reason a page should receive."""
UNREADABLE, GOODBYE_S = 1008, 1.0
MAX_HEADERS = 128
NO_LENGTH = (411, b"send the body whole, with a Content-Length")
TOO_MANY_HEADERS = (431, b"at most %d headers are taken" % MAX_HEADERS)


class SmallReads(asyncio.BufferedProtocol):
    """Reads in small pieces, for a protocol that has a `transport` and takes bytes by `data_received`."""

    transport: asyncio.Transport

    def data_received(self, data: bytes) -> None:
        """Handles the bytes that have come."""
        raise NotImplementedError

    def get_buffer(self, sizehint: int) -> memoryview:
        """Returns the buffer for the next piece, which bounds its size."""
        self._piece = memoryview(bytearray(READ_BYTES))  # a slice of it is no copy, as TLS needs it
        return self._piece

    def buffer_updated(self, nbytes: int) -> None:
        """Passes the piece on; drops it once the transport is closing."""
        if not self.transport.is_closing():
            self.data_received(bytes(self._piece[:nbytes]))


class WebSocketProtocol(WebSocketsSansIOProtocol, SmallReads):
    """Uvicorn's protocol on `websockets`. A peer that sends too many frames is closed with the reason."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._pace = Pace(MAX_FRAMES_PER_S, "frames")
        self._is_ended = False

    def connection_lost(self, exc: Exception | None) -> None:
        """Reads what came before the connection broke, which may hold a stop.

        A state that cannot be sent to a page that has gone breaks the connection, even if a stop from that
        page is still unread.
        """
        if exc is not None and not self._is_ended:
            self._read_rest()
        super().connection_lost(exc)

    def _read_rest(self) -> None:
        """Read the rest, for at most REST_S seconds; with TLS nothing more can be read."""
        if self.transport.get_extra_info("sslcontext") is not None:
            return
        until_s = time.monotonic() + REST_S
        with suppress(OSError):
            while time.monotonic() < until_s:
                piece = os.read(self.transport.get_extra_info("socket").fileno(), READ_BYTES)
                if not piece:
                    return
                self.data_received(piece)

    def handle_events(self) -> None:
        """Handles the frames that have come, then counts them: a stop among too many still counts."""
        num_frames = len(self.conn.events)
        super().handle_events()
        try:
            self._pace.count(self.loop.time(), num_frames)
        except ProtocolError as error:
            self._end(str(error))

    def _end(self, reason: str) -> None:
        """Send a close frame and drop later frames. The delayed close lets the peer still read the reason."""
        if self._is_ended or self.transport.is_closing():
            return
        self._is_ended = self.close_sent = True
        self.conn.fail(UNREADABLE, reason)  # later input is dropped
        self.transport.write(b"".join(self.conn.data_to_send()))
        if self.close_timer is not None:
            self.close_timer.cancel()
        self.close_timer = self.loop.call_later(GOODBYE_S, self.transport.close)
        self.queue.put_nowait({"type": "websocket.disconnect", "code": UNREADABLE, "reason": reason})


class _Connection(h11.Connection):
    """Refuses chunked bodies, each chunk of which costs as much as a request, and too many headers.

    An emergency stop needs no body: a chunked one is served, and its body is not read. `refusal` is the
    answer to a request that is refused.
    """

    refusal: tuple[int, bytes] | None = None
    _reads_no_more = False

    def receive_data(self, data: bytes) -> None:
        if not self._reads_no_more:
            super().receive_data(data)

    def next_event(self) -> Any:
        if self._reads_no_more:
            return h11.NEED_DATA
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._check(event)
        elif event is h11.NEED_DATA and self.their_state is h11.IDLE:
            self._bound(self.trailing_data[0].count(b"\n"))
        return event

    def _check(self, request: h11.Request) -> None:
        self._bound(len(request.headers))
        self._reads_no_more = any(name == b"transfer-encoding" for name, _ in request.headers)
        if self._reads_no_more and not request.target.partition(b"?")[0].endswith(b"/e_stop"):
            self._refuse(NO_LENGTH)

    def _bound(self, num_headers: int) -> None:
        if num_headers > MAX_HEADERS:
            self._refuse(TOO_MANY_HEADERS)

    def _refuse(self, refusal: tuple[int, bytes]) -> None:
        self.refusal, self._reads_no_more = refusal, True
        raise h11.RemoteProtocolError(refusal[1].decode(), refusal[0])


class HttpProtocol(H11Protocol, SmallReads):
    """Uvicorn's protocol on h11. A request that breaks off, or follows another, is answered once.

    One line is logged. An application that still handles a request of the connection sees a disconnect.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.conn: _Connection = _Connection(h11.SERVER)

    def send_400_response(self, msg: str) -> None:
        """Answers that this is not HTTP, or why the request is refused, and closes the connection."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        with suppress(h11.LocalProtocolError):  # it has been answered
            if self.conn.refusal is None:
                super().send_400_response(msg)
            else:
                self._answer(*self.conn.refusal)
        self.transport.close()

    def _answer(self, status: int, text: bytes) -> None:
        headers = [("Content-Type", "text/plain; charset=utf-8"), ("Connection", "close")]
        response = h11.Response(status_code=status, headers=[*headers, ("Content-Length", str(len(text)))])
        for event in (response, h11.Data(data=text), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")


def _without_trace(record: logging.LogRecord) -> bool:
    """Reduce the log of a websocket text that is not UTF-8 to one line; return True, to keep the record."""
    if record.exc_info and isinstance(record.exc_info[1], UnicodeDecodeError):
        record.exc_info = record.exc_text = None
    return True


logging.getLogger("uvicorn.error").addFilter(_without_trace)
