# SPDX-License-Identifier: Apache-2.0
"""Tracks the open connections of robots with keys, and ends those whose key has been revoked."""

from __future__ import annotations

import contextlib
import os
import socket
from dataclasses import dataclass
from typing import Any

from outrider.core.frames import Peer
from outrider.wire.keys import KnownRobots

CHECK_S = 1.0
MAX_CONNECTIONS = 4096


@dataclass(frozen=True)
class _Connection:
    """A file descriptor of libzmq and its remote address, because the number may be reused."""

    descriptor: int
    far_end: Any


class Connections:
    """The connections of the newest MAX_CONNECTIONS peers. Use it from the server socket's thread."""

    def __init__(self, known: KnownRobots) -> None:
        self._known = known
        self._open: dict[Peer, _Connection] = {}
        self._checked_s = 0.0

    def admits(self, peer: Peer, descriptor: int) -> bool:
        """Return whether to read a peer's message from this connection.

        False if the connection is new and its key has been revoked; the connection is then shut down.
        """
        connection = self._open.get(peer)
        if connection is not None and connection.descriptor == descriptor:
            return True
        if peer.user.encode() not in self._known:
            _shut_down(_Connection(descriptor, _far_end(descriptor)))
            return False
        self._open.pop(peer, None)
        if len(self._open) >= MAX_CONNECTIONS:
            del self._open[next(iter(self._open))]
        self._open[peer] = _Connection(descriptor, _far_end(descriptor))
        return True

    def end_revoked(self, now_s: float) -> list[Peer]:
        """End the connections with revoked keys, at most every CHECK_S; return their peers."""
        if now_s - self._checked_s < CHECK_S:
            return []
        self._checked_s = now_s
        revoked = [peer for peer in self._open if peer.user.encode() not in self._known]
        for peer in revoked:
            _shut_down(self._open.pop(peer))
        return revoked


def _far_end(descriptor: int) -> Any:
    """Return a socket's remote address; None if it is not a socket or no longer connected."""
    try:
        with socket.socket(fileno=os.dup(descriptor)) as connection:
            return connection.getpeername()
    except OSError:
        return None


def _shut_down(connection: _Connection) -> None:
    """Shut a connection down. libzmq then closes it, and checks the key of a peer that reconnects."""
    if connection.far_end is None or _far_end(connection.descriptor) != connection.far_end:
        return
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(connection.descriptor)) as ended:
        ended.shutdown(socket.SHUT_RDWR)
