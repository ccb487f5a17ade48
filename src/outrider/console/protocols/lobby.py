# SPDX-License-Identifier: Apache-2.0
"""Accepted connections until they are served, in the order of what they ask for: a stop goes first.

To serve a connection takes some hundred times longer than to accept it. So who opens connections on end
would have a stop wait behind hundreds of them, were they served as they come. Here the first bytes of each
are looked at, and not taken; a connection that is closed without any costs next to nothing. With TLS the
first bytes tell nothing, and all are served as they come.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

SERVED_AT_ONCE = 4
"""In a turn of the loop: a request is read some turns later, and may not be dropped before for newer ones."""
LOOKED_AT_BYTES = 4096
STOP = b"stop"


@dataclass(eq=False)
class _Waiting:
    peer: str
    socket: socket.socket
    since_s: float = field(default_factory=time.monotonic)
    asks: bool = False
    """Whether first bytes have come."""
    for_stop: bool = False


class Lobby:
    """Keeps at most `room` connections; for a newer one closes the oldest of the peer that has the most here.

    `serve(connection, peer)` is called for each, in the loop's thread as all methods are.
    """

    def __init__(self, room: int, serve: Callable[[socket.socket, str], None]) -> None:
        self._room, self._serve = room, serve
        self._waiting: dict[_Waiting, None] = {}
        self._stops: deque[_Waiting] = deque()
        self._others: deque[_Waiting] = deque()
        self._serving: asyncio.Handle | None = None

    def add(self, accepted: socket.socket, peer: str) -> None:
        """Takes in a connection that has just been accepted."""
        accepted.setblocking(False)
        if len(self._waiting) >= self._room:
            self.drop_one()
        waiting = _Waiting(peer, accepted)
        self._waiting[waiting] = None
        self._look(waiting)

    def drop_one(self) -> bool:
        """Closes the oldest of the most crowded peer, a stop last of all; returns whether there was any."""
        candidates = [one for one in self._waiting if not one.for_stop] or list(self._waiting)
        counts = Counter(one.peer for one in candidates)
        most = max(counts.values(), default=0)
        oldest = next((one for one in candidates if counts[one.peer] == most), None)
        if oldest is not None:
            self._close(oldest)
        return oldest is not None

    def drop_since(self, since_s: float) -> None:
        """Closes what has waited since before a time of the monotonic clock, in seconds."""
        for waiting in [one for one in self._waiting if one.since_s < since_s]:
            self._close(waiting)

    def close(self) -> None:
        """Closes all that wait."""
        for waiting in list(self._waiting):
            self._close(waiting)

    def _look(self, waiting: _Waiting) -> None:
        loop = asyncio.get_running_loop()
        try:
            first = waiting.socket.recv(LOOKED_AT_BYTES, socket.MSG_PEEK)
        except BlockingIOError:
            loop.add_reader(waiting.socket, self._look, waiting)
            return
        except OSError:
            first = b""
        if not first:
            self._close(waiting)
            return
        loop.remove_reader(waiting.socket)
        waiting.asks, waiting.for_stop = True, STOP in first
        (self._stops if waiting.for_stop else self._others).append(waiting)
        self._serve_soon()

    def _serve_soon(self) -> None:
        if self._serving is None:
            self._serving = asyncio.get_running_loop().call_soon(self._serve_some)

    def _serve_some(self) -> None:
        self._serving = None
        for _ in range(SERVED_AT_ONCE):
            if queue := self._stops or self._others:
                waiting = queue.popleft()
                del self._waiting[waiting]
                self._serve(waiting.socket, waiting.peer)
        if self._stops or self._others:
            self._serve_soon()

    def _close(self, waiting: _Waiting) -> None:
        del self._waiting[waiting]
        if waiting.asks:
            (self._stops if waiting.for_stop else self._others).remove(waiting)
        else:
            asyncio.get_running_loop().remove_reader(waiting.socket)
        waiting.socket.close()
