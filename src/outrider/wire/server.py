"""The verifier's socket: many peers, each bounded; what is not a frame is refused and counted."""

from __future__ import annotations

import zmq
from zmq.auth.thread import ThreadAuthenticator

from outrider.core.errors import ConfigError, ProtocolError
from outrider.core.frames import MAX_FRAME_BYTES, CloudFrame, EdgeFrame, Peer, Refused
from outrider.wire.client import HEARTBEAT_INTERVAL_MS, HEARTBEAT_TIMEOUT_MS
from outrider.wire.codec import decode_edge_frame, encode
from outrider.wire.endpoint import check_endpoint, is_loopback
from outrider.wire.keys import ServerKeys

_FRAMES_PER_CALL = 64
_QUEUED_FRAMES_PER_PEER = 256


class RouterServer:
    """A FrameServer. Belongs to one thread."""

    def __init__(self, endpoint: str, keys: ServerKeys | None = None) -> None:
        """Raises ConfigError for a malformed, busy or unguarded endpoint."""
        check_endpoint(endpoint)
        if keys is None and not is_loopback(endpoint):
            raise ConfigError(
                f"{endpoint} can be reached from other machines, which needs keys: "
                "give a key file (`outrider keys` makes one) or bind tcp://127.0.0.1:PORT"
            )
        self.malformed_frames = 0
        self._guarded = keys is not None
        self._context = zmq.Context()
        self._authenticator = _start_authenticator(self._context, keys) if keys is not None else None
        self._socket = self._context.socket(zmq.ROUTER)
        _configure(self._socket, keys)
        try:
            self._socket.bind(endpoint)
        except zmq.ZMQError as error:
            self.close()
            raise ConfigError(_bind_message(endpoint, error)) from None

    def receive(self, timeout_s: float) -> list[tuple[Peer, EdgeFrame]]:
        received: list[tuple[Peer, EdgeFrame]] = []
        if not self._socket.poll(int(timeout_s * 1000)):
            return received
        for _ in range(_FRAMES_PER_CALL):
            try:
                parts = self._socket.recv_multipart(zmq.DONTWAIT, copy=False)
            except zmq.Again:
                break
            peer = Peer(self._user(parts[-1]), parts[0].bytes)
            try:
                received.append((peer, _frame(parts)))
            except ProtocolError as error:
                self._refuse(peer, error)
        return received

    def send(self, peer: Peer, frame: CloudFrame) -> None:
        try:
            self._socket.send_multipart([peer.route, encode(frame)], zmq.DONTWAIT)
        except (zmq.Again, zmq.ZMQError):
            return

    def close(self) -> None:
        self._socket.close(linger=200)
        if self._authenticator is not None:
            self._authenticator.stop()
        self._context.term()

    def _user(self, part: zmq.Frame) -> str:
        return str(part.get("User-Id")) if self._guarded else ""

    def _refuse(self, peer: Peer, error: ProtocolError) -> None:
        self.malformed_frames += 1
        self.send(peer, Refused(0, 0, "protocol", str(error)[:500]))


def _frame(parts: list[zmq.Frame]) -> EdgeFrame:
    if len(parts) != 2:
        raise ProtocolError("a frame has one part")
    return decode_edge_frame(parts[1].bytes)


def _configure(socket: zmq.Socket, keys: ServerKeys | None) -> None:
    """HANDOVER: a robot that reconnects with its secret random routing id takes its old place at once."""
    socket.setsockopt(zmq.ROUTER_HANDOVER, 1)
    socket.setsockopt(zmq.HEARTBEAT_IVL, HEARTBEAT_INTERVAL_MS)
    socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, HEARTBEAT_TIMEOUT_MS)
    socket.setsockopt(zmq.MAXMSGSIZE, MAX_FRAME_BYTES)
    socket.setsockopt(zmq.SNDHWM, _QUEUED_FRAMES_PER_PEER)
    socket.setsockopt(zmq.RCVHWM, _QUEUED_FRAMES_PER_PEER)
    if keys is not None:
        socket.curve_server = True
        socket.curve_publickey = keys.public.encode()
        socket.curve_secretkey = keys.secret.encode()


class _KnownRobots:
    """Asked by the authenticator for every new connection."""

    def __init__(self, keys: ServerKeys) -> None:
        self._public_keys = frozenset(key.encode() for key in keys.robots.values())

    def callback(self, domain: str, key: bytes) -> bool:
        return key in self._public_keys


def _start_authenticator(context: zmq.Context, keys: ServerKeys) -> ThreadAuthenticator:
    authenticator = ThreadAuthenticator(context)
    authenticator.start()
    authenticator.configure_curve_callback("*", credentials_provider=_KnownRobots(keys))
    return authenticator


def _bind_message(endpoint: str, error: zmq.ZMQError) -> str:
    if error.errno == zmq.EADDRINUSE:
        return f"{endpoint} is in use: stop the other verifier or choose another port with --endpoint"
    return (
        f"cannot bind {endpoint}: {error}; bind an address of this machine, for example tcp://127.0.0.1:5757"
    )
