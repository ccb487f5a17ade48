# SPDX-License-Identifier: Apache-2.0
"""The verifier's socket for many peers.

Each peer is limited, and everything refused or dropped is counted.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import zmq
from zmq.auth.thread import ThreadAuthenticator

from outrider.core.errors import ConfigError, ProtocolError
from outrider.core.frames import MAX_FRAME_BYTES, MAX_SHORT_TEXT, CloudFrame, EdgeFrame, Peer, Refused
from outrider.core.ports import FrameServer
from outrider.wire.client import HANDSHAKE_TIMEOUT_MS
from outrider.wire.closing import close_once
from outrider.wire.codec import decode_edge_frame, encode
from outrider.wire.connections import Connections
from outrider.wire.endpoint import check_guarded, is_ipv6
from outrider.wire.gate import GateLimits, PeerGate
from outrider.wire.keys import KnownRobots, ServerKeys
from outrider.wire.monitor import Monitor

_FRAMES_PER_CALL = 64
_QUEUED_REPLIES_PER_PEER = 256
_QUEUED_FRAMES_PER_PEER = 16_384
"""Frames of up to MAX_FRAME_BYTES each, more than a robot sends during a forward pass. If a connection
breaks while its inbox is full, libzmq 4.3.5 aborts the process; and heartbeats behind a full inbox are not
read.
"""
_KEEPALIVE_S = 10
_READABLE = int(zmq.POLLIN)
_WATCHED_EVENTS = zmq.EVENT_ACCEPTED | zmq.EVENT_HANDSHAKE_SUCCEEDED
"""Without the events of failures: when libzmq 4.3.5 reports a forged message, it forgets that it was
forged, and never frees the connection's descriptor.
"""


@dataclass
class ServerCounters:
    """Counts of a verifier's socket since it was bound. Written by its thread, readable from any.

    `received`: frames passed on. `malformed`: messages that are not frames. `flooded`: messages dropped
    from peers beyond their rate. `stale`: frames of an old epoch. `refused`: refusals by reason, malformed
    messages included. `unreachable`, `stalled`: replies dropped because the peer is gone or does not read.
    `evicted`: peers that vanished. `unknown_keys`: connections without an accepted key within the handshake
    timeout. `revoked`: connections ended, and messages ignored, after their key was revoked. `bytes_up`,
    `bytes_down`: of all messages, without the transport's overhead.
    """

    received: int = 0
    malformed: int = 0
    flooded: int = 0
    stale: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    unreachable: int = 0
    stalled: int = 0
    evicted: int = 0
    unknown_keys: int = 0
    revoked: int = 0
    bytes_up: int = 0
    bytes_down: int = 0

    def values(self) -> dict[str, int]:
        """Return all counts in one flat dictionary."""
        flat = {name: value for name, value in vars(self).items() if name != "refused"}
        return flat | {f"refused_{reason}": count for reason, count in dict(self.refused).items()}


class RouterServer(FrameServer):
    """A FrameServer. Use it from one thread; only `counters` may be read from any.

    For a peer that has vanished, or has too many sessions, `receive` returns frames that close them. Two
    limits are beyond ZeroMQ. It bounds the size of a message's parts but not their number, so a robot with
    a key can fill the memory with an endless message. And a robot that floods faster than it is read and
    then disconnects may end the process (see _QUEUED_FRAMES_PER_PEER). Revoke such a robot's key.
    """

    def __init__(
        self,
        endpoint: str,
        keys: ServerKeys | None = None,
        limits: GateLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
        key_file: Path | None = None,
    ) -> None:
        """`key_file`: the file of `keys`. Robots added to it are admitted. Connections of revoked robots
        are ended by the first `receive` after at most a second.

        Raises ConfigError for a malformed, busy or unguarded endpoint.
        """
        check_guarded(endpoint, keys is not None)
        self.counters = ServerCounters()
        self._gate = PeerGate(limits or GateLimits())
        self._clock = clock
        self._context = zmq.Context()
        known = KnownRobots(keys, key_file) if keys is not None else None
        self._connections = Connections(known) if known is not None else None
        self._authenticator = start_authenticator(self._context, known) if known is not None else None
        self._socket = self._context.socket(zmq.ROUTER)
        configure_router(self._socket, endpoint, keys)
        # No event waits for longer than the model computes.
        self._monitor = Monitor(self._socket, _WATCHED_EVENTS, unbounded=True)
        self._close = close_once(
            self, _close_server, self._socket, self._monitor, self._authenticator, self._context
        )
        self._accepted_s: deque[float] = deque()
        """When each connection that has not yet proved its key was accepted."""
        try:
            self._socket.bind(endpoint)
        except zmq.ZMQError as error:
            self.close()
            raise ConfigError(bind_message(endpoint, error)) from None

    def receive(self, timeout_s: float) -> list[tuple[Peer, EdgeFrame]]:
        ready = self._socket.poll(int(timeout_s * 1000))
        now_s = self._clock()
        received = [*self._evicted(now_s), *self._revoked(now_s)]
        self._count_failed_handshakes(now_s)
        for _ in range(_FRAMES_PER_CALL if ready else 0):
            try:
                parts = self._socket.recv_multipart(zmq.DONTWAIT, copy=False)
            except zmq.Again:
                break
            received += self._frames_of(parts, now_s)
            # Asking is four times as fast as waiting for the error.
            if not int(self._socket.get(zmq.EVENTS)) & _READABLE:
                break
        return received

    def send(self, peer: Peer, frame: CloudFrame) -> None:
        """Send a frame without blocking; if the peer is gone or stalled, drop it and count that."""
        if isinstance(frame, Refused):
            self.counters.refused[frame.reason] = self.counters.refused.get(frame.reason, 0) + 1
        payload = encode(frame)
        self.counters.bytes_down += len(payload)
        try:
            self._socket.send_multipart([peer.route, payload], zmq.DONTWAIT)
        except zmq.Again:
            self.counters.stalled += 1
        except zmq.ZMQError as error:
            if error.errno != zmq.EHOSTUNREACH:
                raise
            self.counters.unreachable += 1
            self._gate.on_unreachable(peer, self._clock())

    def close(self) -> None:
        """Close the sockets and the authenticator. A second call has no effect.

        A server that is dropped unclosed is closed then.
        """
        self._close()

    def _frames_of(self, parts: list[zmq.Frame], now_s: float) -> list[tuple[Peer, EdgeFrame]]:
        """Return a message as frames: none, or its own after those that close older sessions."""
        peer = Peer(self._user(parts[-1]), parts[0].bytes)
        num_bytes = sum(len(part) for part in parts)
        self.counters.bytes_up += num_bytes
        if self._connections is not None and not self._connections.admits(peer, descriptor_of(parts[-1])):
            self.counters.revoked += 1
            return []
        if not self._gate.admits(peer, num_bytes, now_s):
            self.counters.flooded += 1
            return []
        try:
            frame = _frame(parts)
        except ProtocolError as error:
            self.counters.malformed += 1
            self._gate.on_malformed(peer, now_s)
            self.send(peer, Refused(0, 0, "protocol", str(error)[:MAX_SHORT_TEXT]))
            return []
        self.counters.received += 1
        self.counters.stale += self._gate.is_stale(peer, frame)
        return [*self._gate.on_frame(peer, frame, now_s), (peer, frame)]

    def _evicted(self, now_s: float) -> list[tuple[Peer, EdgeFrame]]:
        evicted = self._gate.evict(now_s)
        self.counters.evicted += len(evicted)
        return [(peer, close) for peer, closes in evicted for close in closes]

    def _revoked(self, now_s: float) -> list[tuple[Peer, EdgeFrame]]:
        peers = self._connections.end_revoked(now_s) if self._connections is not None else []
        self.counters.revoked += len(peers)
        return [(peer, close) for peer in peers for close in self._gate.forget(peer)]

    def _count_failed_handshakes(self, now_s: float) -> None:
        """Count the connections whose handshake has not succeeded within the timeout."""
        for event in self._monitor.read():
            if event == zmq.EVENT_ACCEPTED:
                self._accepted_s.append(now_s)
            elif self._accepted_s:
                self._accepted_s.popleft()
        while self._accepted_s and now_s - self._accepted_s[0] > HANDSHAKE_TIMEOUT_MS / 1000:
            self._accepted_s.popleft()
            self.counters.unknown_keys += 1

    def _user(self, part: zmq.Frame) -> str:
        return str(part.get("User-Id")) if self._connections is not None else ""


def _close_server(
    router: zmq.Socket[Any],
    monitor: Monitor,
    authenticator: ThreadAuthenticator | None,
    context: zmq.Context[zmq.Socket[bytes]],
) -> None:
    monitor.close()
    router.close(linger=200)
    if authenticator is not None:
        authenticator.stop()
    context.term()


def descriptor_of(part: zmq.Frame) -> int:
    """Return the file descriptor of the connection that a message came from."""
    return int(part.get(zmq.SRCFD))


def _frame(parts: list[zmq.Frame]) -> EdgeFrame:
    if len(parts) != 2:
        raise ProtocolError("a frame has one part")
    return decode_edge_frame(parts[1].bytes)


def configure_router(socket: zmq.Socket[Any], endpoint: str, keys: ServerKeys | None) -> None:
    """Set the options of a socket for robots before it is bound to a checked endpoint.

    HANDOVER: a robot that reconnects with its secret random routing id replaces its old connection at once.
    MANDATORY: a reply that cannot be sent raises an error instead of being dropped. A peer that vanishes is
    detected by its heartbeats (their TTL), or else by TCP.
    """
    socket.setsockopt(zmq.IPV6, int(is_ipv6(endpoint)))
    socket.setsockopt(zmq.ROUTER_HANDOVER, 1)
    socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
    socket.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_TIMEOUT_MS)
    socket.setsockopt(zmq.TCP_KEEPALIVE, 1)
    socket.setsockopt(zmq.TCP_KEEPALIVE_IDLE, _KEEPALIVE_S)
    socket.setsockopt(zmq.TCP_KEEPALIVE_INTVL, _KEEPALIVE_S)
    socket.setsockopt(zmq.MAXMSGSIZE, MAX_FRAME_BYTES)
    socket.setsockopt(zmq.SNDHWM, _QUEUED_REPLIES_PER_PEER)
    socket.setsockopt(zmq.RCVHWM, _QUEUED_FRAMES_PER_PEER)
    if keys is not None:
        socket.curve_server = True
        socket.curve_publickey = keys.public.encode()
        socket.curve_secretkey = keys.secret.encode()


class _Credentials:
    """Callback of the authenticator for every new connection."""

    def __init__(self, known: KnownRobots) -> None:
        self._known = known

    def callback(self, domain: str, key: bytes) -> bool:
        return key in self._known


def start_authenticator(context: zmq.Context[zmq.Socket[bytes]], known: KnownRobots) -> ThreadAuthenticator:
    """Return an authenticator that checks the key of every new connection of a context."""
    authenticator = ThreadAuthenticator(context)
    authenticator.start()
    authenticator.configure_curve_callback("*", credentials_provider=_Credentials(known))
    return authenticator


def check_bindable(endpoint: str) -> None:
    """Raise ConfigError if a checked TCP endpoint is at no address of this machine. Its port stays unused."""
    with zmq.Context() as context, context.socket(zmq.ROUTER) as probe:
        probe.setsockopt(zmq.IPV6, int(is_ipv6(endpoint)))
        try:
            probe.bind(f"{endpoint.rpartition(':')[0]}:*")
        except zmq.ZMQError as error:
            raise ConfigError(bind_message(endpoint, error)) from None


def bind_message(endpoint: str, error: zmq.ZMQError) -> str:
    """Return why an endpoint cannot be bound, and what to do."""
    if error.errno == zmq.EADDRINUSE:
        return f"{endpoint} is in use: stop what listens there, or choose another port with --endpoint"
    why = zmq.strerror(error.errno or 0)
    return f"cannot bind {endpoint}: {why}; bind an address of this machine, for example tcp://127.0.0.1:5757"
