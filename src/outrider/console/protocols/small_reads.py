# SPDX-License-Identifier: Apache-2.0
"""What comes by one connection is read in small pieces, each in a turn of its own."""

from __future__ import annotations

import asyncio

READ_BYTES = 1024
"""Of one connection in one turn of the event loop. 256 KiB of tiny parts would take most of a second."""


class SmallReads(asyncio.BufferedProtocol):
    """For a protocol that has a `transport` and takes bytes by `data_received`."""

    transport: asyncio.Transport

    def data_received(self, data: bytes) -> None:
        """Takes what has come."""
        raise NotImplementedError

    def get_buffer(self, sizehint: int) -> memoryview:
        """Returns where the next piece goes, which bounds its size."""
        self._piece = memoryview(bytearray(READ_BYTES))  # a part of it is no copy, as TLS needs it
        return self._piece

    def buffer_updated(self, nbytes: int) -> None:
        """Hands the piece on; what comes after the end is dropped."""
        if not self.transport.is_closing():
            self.data_received(bytes(self._piece[:nbytes]))
