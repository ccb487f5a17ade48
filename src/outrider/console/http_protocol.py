# SPDX-License-Identifier: Apache-2.0
"""The server's side of a connection on which a client sends what is no HTTP, or no text."""

from __future__ import annotations

import logging
from contextlib import suppress

from h11 import LocalProtocolError
from uvicorn.protocols.http.h11_impl import H11Protocol


class HttpProtocol(H11Protocol):
    """Uvicorn's, by h11. What breaks off within a request, or follows on one, is answered once, and one line
    is logged of it: to the application at work on that request the client has gone.
    """

    def send_400_response(self, msg: str) -> None:
        """Answers that this is no HTTP, and closes the connection."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        with suppress(LocalProtocolError):  # it has been answered
            super().send_400_response(msg)
        self.transport.close()


def _without_trace(record: logging.LogRecord) -> bool:
    """Leaves one line of a websocket text that is no UTF-8: the trace says nothing more of the client."""
    if record.exc_info and isinstance(record.exc_info[1], UnicodeDecodeError):
        record.exc_info = record.exc_text = None
    return True


logging.getLogger("uvicorn.error").addFilter(_without_trace)
