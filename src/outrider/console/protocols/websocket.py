# SPDX-License-Identifier: Apache-2.0
"""The server's side of a websocket: whole messages are counted where they are read, all frames here."""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from outrider.console.protocols.pace import MAX_MESSAGES_PER_S, Pace
from outrider.console.protocols.small_reads import SmallReads
from outrider.core.errors import ProtocolError

MAX_FRAMES_PER_S = 2 * MAX_MESSAGES_PER_S
"""Pings and parts of messages too; more than messages, so that a page that says too much is told that."""
UNREADABLE, GOODBYE_S = 1008, 1.0


class WebSocketProtocol(WebSocketsSansIOProtocol, SmallReads):
    """Uvicorn's, by websockets. A peer that sends more frames than a page does is told so, and closed."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._pace = Pace(MAX_FRAMES_PER_S, "frames")
        self._is_ended = False

    def handle_events(self) -> None:
        """Acts on the frames that have come: what is a stop among too many is one."""
        num_frames = len(self.conn.events)
        super().handle_events()
        try:
            self._pace.count(self.loop.time(), num_frames)
        except ProtocolError as error:
            self._end(str(error))

    def _end(self, reason: str) -> None:
        """Says goodbye, and reads no frame more; who still sends would lose that goodbye to a closed door."""
        if self._is_ended or self.transport.is_closing():
            return
        self._is_ended = self.close_sent = True
        self.conn.fail(UNREADABLE, reason)  # what comes from now on is dropped
        self.transport.write(b"".join(self.conn.data_to_send()))
        if self.close_timer is not None:
            self.close_timer.cancel()
        self.close_timer = self.loop.call_later(GOODBYE_S, self.transport.close)
        self.queue.put_nowait({"type": "websocket.disconnect", "code": UNREADABLE, "reason": reason})
