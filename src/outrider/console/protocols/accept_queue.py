# SPDX-License-Identifier: Apache-2.0
"""Queue of accepted connections until they are served; requests for a stop go first.

To serve a connection takes some hundred times longer than to accept it. In order of arrival, a client that
keeps opening connections would make a stop wait behind hundreds of them. So the first bytes of each
connection are peeked at, and stay unread; a connection that closes without any costs next to nothing. A
request for a stop is never closed for another one: if nothing else waits, accepting pauses until one is
served. With TLS the first bytes reveal nothing, and all connections are served in order.
"""

from __future__ import annotations

import asyncio
import math
import re
import socket
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

SERVED_AT_ONCE = 4
"""Per turn of the loop: a request is read some turns later, and must not be dropped for newer ones before."""
PEEK_BYTES = 4096
STOP = re.compile(rb"POST [^ ]*/e_stop[ ?]|POST .*\"stop\"", re.S)
"""Matches a stop sent to the console, or by an agent, whose request body names the tool."""


@dataclass(eq=False)
class _Waiting:
    peer: str
    socket: socket.socket
    since_s: float = field(default_factory=time.monotonic)
    asks: bool = False
    """Whether first bytes have come."""


class AcceptQueue:
    """Keeps at most `room` connections: for a newer one, closes the oldest of the peer that has the most.

    A connection that asks for a stop is never closed. `serve(connection, peer)` is called for each
    connection. All methods run in the loop's thread.
    """

    def __init__(self, room: int, serve: Callable[[socket.socket, str], None]) -> None:
        self._room, self._serve = room, serve
        self._num_ordinary = 0
        self._ordinary: dict[str, dict[_Waiting, None]] = {}
        """The connections that ask for no stop, by peer, oldest first."""
        self._stops: deque[_Waiting] = deque()
        self._order: deque[_Waiting] = deque()
        """Of the others, those whose first bytes have come."""
        self._serving: asyncio.Handle | None = None

    @property
    def is_full(self) -> bool:
        """Whether requests for a stop fill all the room."""
        return len(self._stops) >= self._room

    def add(self, accepted: socket.socket, peer: str) -> None:
        """Takes in a connection that has just been accepted."""
        accepted.setblocking(False)
        if len(self._stops) + self._num_ordinary >= self._room:
            self.drop_oldest()
        waiting = _Waiting(peer, accepted)
        self._ordinary.setdefault(peer, {})[waiting] = None
        self._num_ordinary += 1
        self._look(waiting)

    def drop_oldest(self) -> bool:
        """Closes the oldest connection, but no stop, of the most crowded peer. Returns whether it did."""
        most = max(self._ordinary.values(), key=len, default=None)
        if most is not None:
            self._close(next(iter(most)))
        return most is not None

    def drop_since(self, since_s: float) -> None:
        """Closes the others that have waited since before `since_s` (seconds of the monotonic clock)."""
        late = [waiting for some in self._ordinary.values() for waiting in some if waiting.since_s < since_s]
        for waiting in late:
            self._close(waiting)

    def close(self) -> None:
        """Closes all waiting connections."""
        self.drop_since(math.inf)
        while self._stops:
            self._stops.popleft().socket.close()

    def _look(self, waiting: _Waiting) -> None:
        loop = asyncio.get_running_loop()
        try:
            first = waiting.socket.recv(PEEK_BYTES, socket.MSG_PEEK)
        except BlockingIOError:
            loop.add_reader(waiting.socket, self._look, waiting)
            return
        except OSError:
            first = b""
        if not first:
            self._close(waiting)
            return
        loop.remove_reader(waiting.socket)
        waiting.asks = True
        if STOP.match(first):
            self._leave(waiting)
            self._stops.append(waiting)
        else:
            self._order.append(waiting)
        self._serve_soon()

    def _serve_soon(self) -> None:
        if self._serving is None:
            self._serving = asyncio.get_running_loop().call_soon(self._serve_some)

    def _serve_some(self) -> None:
        self._serving = None
        num_served = 0
        while num_served < SERVED_AT_ONCE and (self._stops or self._order):
            waiting = self._stops.popleft() if self._stops else self._next()
            if waiting is not None:
                self._serve(waiting.socket, waiting.peer)
                num_served += 1
        if self._stops or self._order:
            self._serve_soon()

    def _next(self) -> _Waiting | None:
        """Return the other connection that has waited longest; None if it was closed meanwhile."""
        waiting = self._order.popleft()
        if waiting not in self._ordinary.get(waiting.peer, {}):
            return None
        self._leave(waiting)
        return waiting

    def _leave(self, waiting: _Waiting) -> None:
        some = self._ordinary[waiting.peer]
        del some[waiting]
        self._num_ordinary -= 1
        if not some:
            del self._ordinary[waiting.peer]

    def _close(self, waiting: _Waiting) -> None:
        self._leave(waiting)
        if not waiting.asks:
            asyncio.get_running_loop().remove_reader(waiting.socket)
        waiting.socket.close()
