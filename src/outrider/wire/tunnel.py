# SPDX-License-Identifier: Apache-2.0
"""Carries a console between a robot and a relay: messages of bytes, encrypted with the link's own keys.

The robot opens two connections. Urgent messages (a stop) have their own, so they never queue behind others.
Everything runs on one event loop.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import zmq
import zmq.asyncio
from zmq.auth.thread import ThreadAuthenticator

from outrider.core.errors import ConfigError, LinkError
from outrider.core.frames import Peer
from outrider.core.token_bucket import TokenBucket
from outrider.core.values import LinkState
from outrider.wire.client import ConnectionWatch, configure_dealer
from outrider.wire.closing import close_once
from outrider.wire.connections import Connections
from outrider.wire.endpoint import check_endpoint
from outrider.wire.keys import ClientKeys, KnownRobots, load_server_keys
from outrider.wire.server import bind_message, configure_router, descriptor_of, start_authenticator

MAX_TO_ROBOT_BYTES = 8 * 1024
UNITS_PER_S, BURST_UNITS, BYTES_PER_UNIT = 4000.0, 8000.0, 4096
"""A robot's message costs one unit plus one for each 4 KiB; messages beyond the rate are dropped."""
_RUN_BYTES = 15
_URGENT, _ORDINARY = b"U", b"O"
_QUEUED_TO_RELAY = 64
_QUEUED_TO_ROBOT = 512


class RobotTunnel:
    """The robot's end. Reconnects by itself until `close`."""

    def __init__(self, endpoint: str, keys: ClientKeys) -> None:
        """Start to connect, without waiting.

        Raises ConfigError for a malformed endpoint, LinkError if the system has no sockets left.
        """
        check_endpoint(endpoint)
        self._context, run = zmq.Context(), os.urandom(_RUN_BYTES)
        try:
            self._lanes = {lane: self._made(endpoint, keys, lane + run) for lane in (_URGENT, _ORDINARY)}
            self._watch = ConnectionWatch(self._lanes[_ORDINARY])
            for socket in self._lanes.values():
                socket.connect(endpoint)
        except zmq.ZMQError as error:
            self._context.destroy(linger=0)
            raise LinkError(f"the relay {endpoint} cannot be dialled now ({error})") from None
        lanes = tuple(self._lanes.values())
        self._close = close_once(self, _close_robot_end, self._watch, lanes, self._context)

    @property
    def state(self) -> LinkState:
        """The state of the connection for ordinary messages."""
        return self._watch.state

    async def receive(self, urgent: bool) -> bytes:
        """Return the next message from the connection for urgent or for ordinary ones."""
        while True:
            parts = await self._lanes[_lane(urgent)].recv_multipart()
            if len(parts) == 1:
                return parts[0]

    def send(self, message: bytes, urgent: bool = False) -> bool:
        """Send a message without blocking; return False if the relay is absent or does not keep up."""
        return _sent(self._lanes[_lane(urgent)], [message])

    def close(self) -> None:
        """Close the connections. A second call has no effect. A tunnel dropped unclosed is closed then."""
        self._close()

    def _made(self, endpoint: str, keys: ClientKeys, routing_id: bytes) -> zmq.asyncio.Socket:
        socket = zmq.asyncio.Socket(self._context, zmq.DEALER)
        configure_dealer(socket, endpoint, keys)
        socket.setsockopt(zmq.ROUTING_ID, routing_id)
        socket.setsockopt(zmq.MAXMSGSIZE, MAX_TO_ROBOT_BYTES)
        socket.setsockopt(zmq.SNDHWM, _QUEUED_TO_RELAY)
        return socket


class RelayTunnel:
    """The relay's end: robots with a key connect to it.

    A peer is a robot's name in the key file, and an id that separates this run of it from others.
    """

    def __init__(self, endpoint: str, key_file: Path) -> None:
        """`key_file`: the verifier's, with the admitted robots. It is read again when it changes.

        Raises ConfigError for a malformed or busy endpoint, and for a bad key file.
        """
        check_endpoint(endpoint, to_bind=True)
        keys = load_server_keys(key_file)
        self._known = KnownRobots(keys, key_file)
        self._connections = Connections(self._known)
        self._budgets: dict[str, TokenBucket] = {}
        self._context = zmq.Context()
        self._authenticator = start_authenticator(self._context, self._known)
        self._socket = zmq.asyncio.Socket(self._context, zmq.ROUTER)
        self._close = close_once(self, _close_relay_end, self._socket, self._authenticator, self._context)
        configure_router(self._socket, endpoint, keys)
        self._socket.setsockopt(zmq.SNDHWM, _QUEUED_TO_ROBOT)
        try:
            self._socket.bind(endpoint)
        except zmq.ZMQError as error:
            self.close()
            raise ConfigError(bind_message(endpoint, error)) from None

    @property
    def robots(self) -> tuple[str, ...]:
        """The names of all admitted robots."""
        return self._known.names

    async def receive(self) -> tuple[Peer, bytes]:
        """Return the next message of an admitted robot within its rate."""
        while True:
            parts = await self._socket.recv_multipart(copy=False)
            peer = self._sender(parts)
            if peer is not None:
                return peer, parts[-1].bytes
            await asyncio.sleep(0)

    def send(self, peer: Peer, message: bytes, urgent: bool = False) -> bool:
        """Send a message without blocking; return False if the robot is absent or does not keep up."""
        return _sent(self._socket, [_lane(urgent) + peer.route, message])

    def end_revoked(self) -> None:
        """End the connections of robots whose key is no longer in the file."""
        self._connections.end_revoked(time.monotonic())

    def close(self) -> None:
        """Close the socket. A second call has no effect. A tunnel dropped unclosed is closed then."""
        self._close()

    def _sender(self, parts: list[zmq.Frame]) -> Peer | None:
        """Return the sender of a message; None if the message is to be ignored."""
        route, last = parts[0].bytes, parts[-1]
        user = str(last.get("User-Id"))
        name = self._known.name_of(user.encode())
        if not self._connections.admits(Peer(user, route), descriptor_of(last)) or name is None:
            return None
        is_ours = len(parts) == 2 and len(route) == 1 + _RUN_BYTES and route[:1] in (_URGENT, _ORDINARY)
        return Peer(name, route[1:]) if is_ours and self._within_rate(name, len(last)) else None

    def _within_rate(self, name: str, num_bytes: int) -> bool:
        now_s = time.monotonic()
        budget = self._budgets.setdefault(name, TokenBucket(UNITS_PER_S, BURST_UNITS, now_s))
        return budget.take(1.0 + num_bytes / BYTES_PER_UNIT, now_s)


def _close_robot_end(
    watch: ConnectionWatch,
    lanes: tuple[zmq.asyncio.Socket, ...],
    context: zmq.Context[zmq.Socket[bytes]],
) -> None:
    watch.close()
    for socket in lanes:
        socket.close(linger=0)
    context.term()


def _close_relay_end(
    router: zmq.asyncio.Socket,
    authenticator: ThreadAuthenticator,
    context: zmq.Context[zmq.Socket[bytes]],
) -> None:
    router.close(linger=0)
    authenticator.stop()
    context.term()


def _lane(urgent: bool) -> bytes:
    return _URGENT if urgent else _ORDINARY


def _sent(socket: zmq.asyncio.Socket, parts: list[bytes]) -> bool:
    sending: Any = socket.send_multipart(parts, zmq.DONTWAIT)
    return bool(sending.done() and sending.exception() is None)
