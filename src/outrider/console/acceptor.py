# SPDX-License-Identifier: Apache-2.0
"""Accepts connections to the console, or of agents, and keeps room for new ones.

A request has `request_s` from its connection to the last byte of its answer. If one peer, or all peers
together, have too many connections open, the oldest that is not long-lived (as a websocket is) is closed
for the new one. So the newest request, which may be an emergency stop, is always read, however many others
are unfinished. Requests for a stop are served before others that wait (see `AcceptQueue`).
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import resource
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from outrider.console.app import MAX_WEBSOCKETS
from outrider.console.protocols.accept_queue import AcceptQueue

REQUEST_S = 10.0
MAX_OPEN, MAX_OPEN_A_PEER = 2 * MAX_WEBSOCKETS, 48
SWEEP_PERIOD_S = 0.25
MAX_WAITING = 256
"""Maximum number of accepted connections that wait to be served."""
ACCEPTED_AT_ONCE = 512
RETRY_S = 0.05
NOTHING_TO_ACCEPT = (errno.EAGAIN, errno.EINTR, errno.ECONNABORTED)


@dataclass(eq=False)
class _Connection:
    peer: str
    socket: socket.socket
    since_s: float = field(default_factory=time.monotonic)
    transport: asyncio.Transport | None = None
    opening: asyncio.Task[None] | None = None

    def close(self) -> None:
        """Close at once; unsent data is lost."""
        if self.transport is not None:
            self.transport.abort()
        elif self.opening is not None:
            self.opening.cancel()

    def settle(self) -> None:
        """Close the socket if no transport took it over: the opening may be cancelled before it begins."""
        if self.transport is None:
            self.socket.close()


class ConnectionAcceptor:
    """Hands accepted connections to protocols, from `open` to `close`; both run in the loop's thread."""

    def __init__(self, listener: socket.socket, request_s: float = REQUEST_S) -> None:
        listener.setblocking(False)
        self._listener, self._request_s = listener, request_s
        self._connections: list[_Connection] = []
        max_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        bounded = max_files != resource.RLIM_INFINITY
        self._max_open = min(MAX_OPEN, max_files // 2) if bounded else MAX_OPEN
        self._queue = AcceptQueue(min(MAX_WAITING, max_files // 4) if bounded else MAX_WAITING, self._admit)

    def open(
        self, is_long_lived: Callable[[Any], bool], make: Callable[[], Any], context: ssl.SSLContext | None
    ) -> None:
        """Begin to accept. `is_long_lived` tells, by its protocol, whether a connection may stay open."""
        self._loop = asyncio.get_running_loop()
        self._is_long_lived_protocol, self._make, self._context = is_long_lived, make, context
        self._loop.add_reader(self._listener, self._accept)
        self._sweeping = self._loop.create_task(self._sweep())

    def close(self) -> None:
        """Accept no more connections; those under way stay with their protocols."""
        self._loop.remove_reader(self._listener)
        self._listener.close()
        self._queue.close()
        self._sweeping.cancel()

    def _accept(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            if self._queue.is_full:
                return
            try:
                accepted, address = self._listener.accept()
            except OSError as error:
                if error.errno not in NOTHING_TO_ACCEPT:
                    self._make_descriptors()
                return
            self._queue.add(accepted, peer_of(address[0]))

    def _make_descriptors(self) -> None:
        """Free a file descriptor, as none is left: drop a connection, or pause accepting for a while."""
        if self._queue.drop_oldest():
            return
        dropped = self._unfinished()
        self._drop_first(dropped)
        if not dropped:
            self._loop.remove_reader(self._listener)
            self._loop.call_later(RETRY_S, self._resume)

    def _resume(self) -> None:
        if self._listener.fileno() >= 0:
            self._loop.add_reader(self._listener, self._accept)

    def _admit(self, accepted: socket.socket, peer: str) -> None:
        self._make_room(peer)
        connection = _Connection(peer, accepted)
        self._connections.append(connection)
        connection.opening = self._loop.create_task(self._start_protocol(connection))
        connection.opening.add_done_callback(lambda _: connection.settle())

    async def _start_protocol(self, connection: _Connection) -> None:
        with contextlib.suppress(OSError, asyncio.CancelledError):  # also from a TLS handshake
            connection.transport, _ = await self._loop.connect_accepted_socket(
                self._make,
                connection.socket,
                ssl=self._context,
                ssl_handshake_timeout=self._request_s if self._context else None,
            )

    def _make_room(self, peer: str) -> None:
        self._connections = [known for known in self._connections if known.socket.fileno() >= 0]
        counts = Counter(known.peer for known in self._connections)
        if counts[peer] >= MAX_OPEN_A_PEER:
            self._drop_first(self._unfinished(peer))
        if len(self._connections) >= self._max_open:
            self._drop_first(self._of_the_largest_peer() or self._connections[::-1])

    def _unfinished(self, peer: str | None = None) -> list[_Connection]:
        """Return the connections that are not long-lived, oldest first: of one peer, or of all."""
        own = (known for known in self._connections if peer in (None, known.peer))
        return [known for known in own if not self._is_long_lived(known)]

    def _of_the_largest_peer(self) -> list[_Connection]:
        """Return the connections, not long-lived, of the peer that has most of them, oldest first."""
        unfinished = self._unfinished()
        counts = Counter(connection.peer for connection in unfinished)
        most = max(counts.values(), default=0)
        return [connection for connection in unfinished if counts[connection.peer] == most]

    def _is_long_lived(self, connection: _Connection) -> bool:
        transport = connection.transport
        if transport is None or transport.is_closing():
            return False
        return self._is_long_lived_protocol(transport.get_protocol())

    def _drop_first(self, candidates: list[_Connection]) -> None:
        if candidates:
            self._connections.remove(candidates[0])
            candidates[0].close()

    async def _sweep(self) -> None:
        """Close connections past their time limit, which a long-lived connection restarts while it is one."""
        while True:
            await asyncio.sleep(SWEEP_PERIOD_S)
            now_s = time.monotonic()
            self._queue.drop_since(now_s - self._request_s)
            for connection in list(self._connections):
                if self._is_long_lived(connection):
                    connection.since_s = now_s
                elif connection.since_s < now_s - self._request_s:
                    self._drop_first([connection])


@lru_cache
def peer_of(host: str) -> str:
    """Return the peer that an address counts for: an IPv4 address itself, an IPv6 address's /64 network."""
    address = ipaddress.ip_address(host.partition("%")[0])
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, 64), strict=False))
