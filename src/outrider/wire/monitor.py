# SPDX-License-Identifier: Apache-2.0
"""Reads the events of a socket's connections.

libzmq 4.3.5 reports an event by a send that blocks while MAX_UNREAD others are unread. Meanwhile it serves
no connection of the context, and holds a lock without which neither the events can be disabled nor the
socket closed.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import zmq
from zmq.utils.monitor import parse_monitor_message

MAX_UNREAD = 2000
_READABLE = int(zmq.POLLIN)


class Monitor:
    """The events of one socket. For one thread at a time; `close` is for the socket's own."""

    def __init__(self, socket: zmq.Socket[Any], events: int, unbounded: bool = False) -> None:
        """`events`: which are reported. `unbounded`: any number may be unread, so that libzmq never waits."""
        self._socket = socket
        self._reader: zmq.Socket[bytes] = socket.context.socket(zmq.PAIR, socket_class=zmq.Socket)
        if unbounded:
            self._reader.setsockopt(zmq.RCVHWM, 0)
        endpoint = f"inproc://monitor-{int(socket.FD)}"
        socket.monitor(endpoint, events)
        self._reader.connect(endpoint)

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._reader.closed

    def read(self) -> Iterator[int]:
        """Yield the events that have been reported since the last call."""
        while not self.closed and int(self._reader.getsockopt(zmq.EVENTS)) & _READABLE:
            yield parse_monitor_message(self._reader.recv_multipart())["event"]

    def close(self) -> None:
        """Stop reporting. Close the socket next."""
        for _ in islice(self.read(), MAX_UNREAD):  # libzmq may be waiting
            pass
        self._socket.monitor(None, 0)
        self._reader.close(linger=0)
