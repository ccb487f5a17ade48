# SPDX-License-Identifier: Apache-2.0
"""The server's side of an HTTP connection on which a client sends what is no HTTP."""

from __future__ import annotations

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
