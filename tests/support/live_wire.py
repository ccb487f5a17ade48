"""Verifiers and robots over real sockets, and sockets of misbehaving peers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import zmq
from support.served_verifier import serve_verifier
from support.toy_models import ToyModel
from support.toys import toy_pair

from outrider.core.frames import Open, Ping, Rules
from outrider.decoding.config import DecodingConfig
from outrider.decoding.drivers.serving import serve_frames
from outrider.decoding.drivers.verifier_service import VerifierService
from outrider.decoding.protocol.limits import CloudLimits
from outrider.runtime.wiring.decoders import connect_decoder
from outrider.runtime.wiring.verifier import Verifier, open_verifier
from outrider.wire.client import DealerLink
from outrider.wire.gate import GateLimits
from outrider.wire.server import RouterServer

SEED = 3
TARGET, DRAFT = toy_pair(SEED, 0.7, eos_bias=-9.0)
RULES = Rules("wait", "greedy", 0.0, 1.0, 0, 0, True, "none")
OPENING = Open(1, 4, 0, "find it", b"", (), 8, "toy", RULES)
NO_LIMIT = GateLimits(units_per_s=1e9, burst_units=1e9)
TIMEOUT_MS = 20_000
"""How long a test waits for a socket before it fails. No passing test waits this long."""


def connect(context: zmq.Context, endpoint: str) -> zmq.Socket:
    """Returns the socket of a peer that may misbehave, connected to an endpoint."""
    peer = context.socket(zmq.DEALER)
    peer.setsockopt(zmq.SNDHWM, 0)
    peer.setsockopt(zmq.LINGER, 0)
    peer.connect(endpoint)
    return peer


@contextmanager
def serving(endpoint: str, **options) -> Iterator[Verifier]:
    """Serves a verifier in a thread, and yields it for its figures."""
    verifier = open_verifier(TARGET, endpoint, **options)
    stop = threading.Event()
    thread = threading.Thread(target=verifier.serve, args=(stop,))
    thread.start()
    try:
        yield verifier
    finally:
        stop.set()
        thread.join(10.0)
        assert not thread.is_alive()


@contextmanager
def answering(
    endpoint: str, limits: GateLimits, sessions: CloudLimits | None = None
) -> Iterator[RouterServer]:
    """Serves frames with the given limits, with a verifier in a thread."""
    server = RouterServer(endpoint, limits=limits)
    stop = threading.Event()
    thread = threading.Thread(target=serve_frames, args=(VerifierService(TARGET, sessions), server, stop))
    thread.start()
    try:
        yield server
    finally:
        stop.set()
        thread.join()
        server.close()


@contextmanager
def connected(endpoint: str, strategy: str = "sd", draft: ToyModel = DRAFT, **options):
    """Yields a robot's decoder."""
    decoder = connect_decoder(endpoint, draft, DecodingConfig(strategy=strategy), **options)
    try:
        yield decoder
    finally:
        decoder.close()


def next_frames(server: RouterServer) -> list:
    """Waits for the server's next frames and returns them."""
    for _ in range(TIMEOUT_MS // 100):
        received = server.receive(0.1)
        if received:
            return received
    raise AssertionError("no frame was received")


def is_answered(link: DealerLink) -> bool:
    """Returns whether the verifier answers a ping in time."""
    for _ in range(TIMEOUT_MS // 100):
        link.send(Ping(0, 0))
        if link.receive(0.1) is not None:
            return True
    return False


@contextmanager
def verifier(endpoint: str, **options) -> Iterator[None]:
    """Serves a verifier as `outrider verifier` does, in a thread of this process."""
    stop, ready = threading.Event(), threading.Event()
    thread = threading.Thread(
        target=serve_verifier,
        args=(options.pop("model", TARGET), endpoint),
        kwargs={"stop": stop, "on_ready": ready.set, **options},
    )
    thread.start()
    try:
        assert ready.wait(10.0)
        yield
    finally:
        stop.set()
        thread.join(10.0)
        assert not thread.is_alive()
