# SPDX-License-Identifier: Apache-2.0
"""The open connections of robots with keys; ends those whose key is no longer on the verifier's list."""

from __future__ import annotations

import contextlib
import os
import socket
from dataclasses import dataclass
from typing import Any

from outrider.core.frames import Peer
from outrider.wire.keys import KnownRobots

LOOK_S = 1.0
MAX_CONNECTIONS = 4096


@dataclass(frozen=True)
class _Connection:
    """A file descriptor of libzmq's, and the far end that it had: the number may be given again."""

    descriptor: int
    far_end: Any


class Connections:
    """Those of the newest MAX_CONNECTIONS peers. Belongs to the thread of the server's socket."""

    def __init__(self, known: KnownRobots) -> None:
        self._known = known
        self._open: dict[Peer, _Connection] = {}
        self._looked_s = 0.0

    def admits(self, peer: Peer, descriptor: int) -> bool:
        """Whether to read the peer's message, which came by this connection; False where it is new and
        its key has been revoked.
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
        """End the connections whose key is not on the list any more, looked at every LOOK_S; the peers."""
        if now_s - self._looked_s < LOOK_S:
            return []
        self._looked_s = now_s
        revoked = [peer for peer in self._open if peer.user.encode() not in self._known]
        for peer in revoked:
            _shut_down(self._open.pop(peer))
        return revoked


def _far_end(descriptor: int) -> Any:
    """The address at the other end of a socket; None of what is none, or is connected no more."""
    try:
        with socket.socket(fileno=os.dup(descriptor)) as connection:
            return connection.getpeername()
    except OSError:
        return None


def _shut_down(connection: _Connection) -> None:
    """libzmq reads the end of the stream and closes it; the peer that connects again is asked for its key."""
    if connection.far_end is None or _far_end(connection.descriptor) != connection.far_end:
        return
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(connection.descriptor)) as ended:
        ended.shutdown(socket.SHUT_RDWR)
