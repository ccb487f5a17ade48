# SPDX-License-Identifier: Apache-2.0
"""The robot's socket: connects lazily, reconnects by itself, and reports the connection's state."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import zmq

from outrider.core.errors import ConfigError, LinkError, ProtocolError
from outrider.core.frames import MAX_FRAME_BYTES, CloudFrame, EdgeFrame
from outrider.core.ports import FrameLink
from outrider.core.values import LinkState
from outrider.wire.closing import close_once
from outrider.wire.codec import decode_cloud_frame, encode, wire_bytes
from outrider.wire.endpoint import check_endpoint, is_ipv6
from outrider.wire.keys import ClientKeys
from outrider.wire.monitor import Monitor

HEARTBEAT_INTERVAL_MS = 500
HEARTBEAT_TIMEOUT_MS = 2000
HANDSHAKE_TIMEOUT_MS = 5000
"""A connection that is not up by then is made anew; by default ZeroMQ would wait for 30 s."""
_RECONNECT_MS = 100
_RECONNECT_MAX_MS = 1000
_LINGER_MS = 200
_QUEUED_FRAMES = 256
_QUEUED_REPLIES = 16_384
"""More than arrive while a draft model reads a prompt: libzmq 4.3.5 aborts the process if a connection ends
while its inbox is full.
"""
_WAKE_BYTES = 4096
_FORKED = "this link was opened before a fork: connect anew in this process"
_log = logging.getLogger(__name__)
_READABLE, _WRITABLE = int(zmq.POLLIN), int(zmq.POLLOUT)
_WATCHED_EVENTS = (
    zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_DISCONNECTED
    | zmq.EVENT_CONNECT_RETRIED
    | zmq.EVENT_CLOSED
)
"""Without HANDSHAKE_FAILED_PROTOCOL: when libzmq 4.3.5 reports it, it forgets that a message was forged. It
then keeps the connection, and aborts the process if the connection ends within a heartbeat.
"""


class DealerLink(FrameLink):
    """A FrameLink to a verifier. Use `send`, `receive` and `close` from one thread; the rest is
    thread-safe.

    `fault`: why the last message was not a frame of this protocol version; empty if it was. In a process
    forked since, it sends nothing, and `receive` raises LinkError.
    """

    def __init__(self, endpoint: str, keys: ClientKeys | None = None) -> None:
        """Start to connect, without waiting.

        Raises ConfigError for an endpoint that cannot be connected to.
        """
        check_endpoint(endpoint)
        self._endpoint, self.fault = endpoint, ""
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        configure_dealer(self._socket, endpoint, keys)
        self._watch = ConnectionWatch(self._socket)
        self._waker, self._woken = socket.socketpair()
        ends = (self._waker, self._woken)
        self._close = close_once(self, _close_link, self._watch, ends, self._socket, self._context)
        self._poller = zmq.Poller()
        for end in ends:
            end.setblocking(False)
        for source in (self._socket, self._woken):
            self._poller.register(source, zmq.POLLIN)
        self._has_dropped = False
        self._num_lapses = 0
        """How often the connection accepted frames again after it had refused some while it was up."""
        try:
            self._socket.connect(endpoint)
        except zmq.ZMQError as error:
            self.close()
            raise ConfigError(connect_message(endpoint, error)) from None

    @property
    def state(self) -> LinkState:
        return self._watch.state

    @property
    def generation(self) -> int:
        """How many times the connection has come up, or has accepted frames again.

        For a moment after libzmq has reported it up, and while too much is queued, it accepts none.
        """
        return self._watch.generation + self._num_lapses

    def send(self, frame: EdgeFrame) -> int:
        payload = encode(frame)
        if not self._watch.is_own:
            return 0
        self._keep_trying()
        try:
            self._socket.send(payload, zmq.DONTWAIT)
        except zmq.Again:
            self._has_dropped |= self.state is LinkState.CONNECTED
            return 0
        return wire_bytes(payload)

    def receive(self, timeout_s: float) -> tuple[CloudFrame, int] | None:
        """Return the next frame and its size in bytes, or None after `timeout_s`.

        Skips malformed frames; the first of a series is logged.
        """
        if not self._watch.is_own:
            raise LinkError(_FORKED)
        if timeout_s > 0.0:
            self._wait(timeout_s)
        self._keep_trying()
        events = int(self._socket.getsockopt(zmq.EVENTS))
        if self._has_dropped and events & _WRITABLE:
            self._has_dropped = False
            self._num_lapses += 1
        if not events & _READABLE:
            return None
        try:
            parts = self._socket.recv_multipart(zmq.DONTWAIT)
        except zmq.Again:  # the connection has ended since
            return None
        try:
            if len(parts) != 1:
                raise ProtocolError("a frame has one part")
            frame = decode_cloud_frame(parts[0])
        except ProtocolError as error:
            if not self.fault:
                _log.warning("the verifier at %s is not understood: %s", self._endpoint, error)
            self.fault = str(error)
            return None
        self.fault = ""
        return frame, wire_bytes(parts[0])

    def _keep_trying(self) -> None:
        """Reconnect if libzmq does not: after a protocol violation by the peer it gives up for good."""
        if self._watch.is_given_up():
            with contextlib.suppress(zmq.ZMQError):  # libzmq has dropped the endpoint already
                self._socket.disconnect(self._endpoint)
            self._socket.connect(self._endpoint)

    def _wait(self, timeout_s: float) -> None:
        ready = dict(self._poller.poll(int(timeout_s * 1000)))
        if self._woken.fileno() in ready:
            self._woken.recv(_WAKE_BYTES)

    def wake(self) -> None:
        """End the `receive` that waits, or the next one. Thread-safe."""
        with contextlib.suppress(OSError):  # closed, or already woken so often that its buffer is full
            self._waker.send(b"!")

    def close(self) -> None:
        """Close the sockets. A second call has no effect. A link that is dropped unclosed is closed then."""
        self._close()


def _close_link(
    watch: ConnectionWatch,
    ends: tuple[socket.socket, socket.socket],
    dealer: zmq.Socket[Any],
    context: zmq.Context[zmq.Socket[bytes]],
) -> None:
    watch.close()
    for end in ends:
        end.close()
    dealer.close(linger=_LINGER_MS)
    context.term()


class ConnectionWatch:
    """The state of one socket's connection, from libzmq's events. Call `close` from the socket's thread."""

    def __init__(self, socket: zmq.Socket[Any], clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._monitor = Monitor(socket, _WATCHED_EVENTS)
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._state = LinkState.CONNECTING
        self._generation = 0
        self._ended_s: float | None = None
        """When the connection ended; None while it is up, and while libzmq reconnects."""

    @property
    def is_own(self) -> bool:
        """Whether this process opened the socket. One that was forked since would wait for it for ever."""
        return os.getpid() == self._pid

    @property
    def state(self) -> LinkState:
        """The state of the connection; LOST in a process forked since."""
        self._read()
        return self._state if self.is_own else LinkState.LOST

    @property
    def generation(self) -> int:
        """How many times the connection has come up."""
        self._read()
        return self._generation

    def is_given_up(self) -> bool:
        """Return whether libzmq has not reconnected in time, so that the socket must; True once per end."""
        self._read()
        if self._ended_s is None or self._clock() - self._ended_s < _RECONNECT_MAX_MS / 1000:
            return False
        self._ended_s = None
        return True

    def close(self) -> bool:
        """Stop watching; return False if that was done before. Close the socket next."""
        with self._lock:
            if self._monitor.closed:
                return False
            self._monitor.close()
            self._state = LinkState.LOST
            return True

    def _read(self) -> None:
        if not self.is_own:
            return
        with self._lock:
            for event in self._monitor.read():
                self._on_event(event)

    def _on_event(self, event: int) -> None:
        self._ended_s = self._clock() if event == zmq.EVENT_DISCONNECTED else None
        if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            self._state = LinkState.CONNECTED
            self._generation += 1
        elif event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
            self._state = LinkState.REFUSED
        elif event == zmq.EVENT_DISCONNECTED and self._state is LinkState.CONNECTING:  # during the handshake
            self._state = LinkState.MISMATCHED
        elif event == zmq.EVENT_CLOSED and self._state is LinkState.MISMATCHED:  # nothing is listening now
            self._state = LinkState.CONNECTING
        elif event == zmq.EVENT_DISCONNECTED and self._state is LinkState.CONNECTED:
            self._state = LinkState.LOST


def connect_message(endpoint: str, error: zmq.ZMQError) -> str:
    """Return why an endpoint cannot be connected to, and what to do."""
    return f"cannot connect to {endpoint}: {error}; give the address of what listens: tcp://HOST:PORT"


def configure_dealer(socket: zmq.Socket[Any], endpoint: str, keys: ClientKeys | None) -> None:
    """Set the options of a robot's socket before it connects to a checked endpoint.

    IMMEDIATE: nothing is queued for a connection that is down; the machines repeat lost frames.
    """
    socket.setsockopt(zmq.ROUTING_ID, b"O" + os.urandom(15))
    socket.setsockopt(zmq.IPV6, int(is_ipv6(endpoint)))
    socket.setsockopt(zmq.IMMEDIATE, 1)
    socket.setsockopt(zmq.RECONNECT_IVL, _RECONNECT_MS)
    socket.setsockopt(zmq.RECONNECT_IVL_MAX, _RECONNECT_MAX_MS)
    socket.setsockopt(zmq.CONNECT_TIMEOUT, HANDSHAKE_TIMEOUT_MS)
    socket.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_TIMEOUT_MS)
    socket.setsockopt(zmq.HEARTBEAT_IVL, HEARTBEAT_INTERVAL_MS)
    socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, HEARTBEAT_TIMEOUT_MS)
    socket.setsockopt(zmq.HEARTBEAT_TTL, HEARTBEAT_TIMEOUT_MS)
    socket.setsockopt(zmq.MAXMSGSIZE, MAX_FRAME_BYTES)
    socket.setsockopt(zmq.SNDHWM, _QUEUED_FRAMES)
    socket.setsockopt(zmq.RCVHWM, _QUEUED_REPLIES)
    socket.setsockopt(zmq.LINGER, _LINGER_MS)
    if keys is not None:
        socket.curve_publickey = keys.public.encode()
        socket.curve_secretkey = keys.secret.encode()
        socket.curve_serverkey = keys.server.encode()
