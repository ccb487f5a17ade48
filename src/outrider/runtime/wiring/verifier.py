# SPDX-License-Identifier: Apache-2.0
"""A complete verifier: model, service and socket, with figures that any thread may read while it serves."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from outrider.core.frames import CloudFrame, EdgeFrame, Peer
from outrider.core.ports import FrameServer, LanguageModel
from outrider.decoding.aggregation.service import AggregationService, JointService
from outrider.decoding.drivers.serving import serve_frames
from outrider.decoding.drivers.verifier_service import VerifierService
from outrider.decoding.protocol.limits import CloudLimits
from outrider.runtime.common.cloud_drafts import NO_DRAFTS, CloudDrafts
from outrider.runtime.wiring.knowledge import Knowledge
from outrider.wire.keys import load_server_keys
from outrider.wire.server import RouterServer

_log = logging.getLogger(__name__)
_SAMPLE_PERIOD_S = 0.5
LOG_PERIOD_S = 30.0


class Verifier:
    """A service with its socket.

    Call `serve` once, in one thread; it closes the socket. `figures` is thread-safe.
    """

    def __init__(self, service: VerifierService | JointService, server: RouterServer) -> None:
        self._service = service
        self._server = server
        self._stats = service.stats
        self._sampled_s = time.monotonic()

    def serve(self, stop: threading.Event) -> None:
        """Serve until `stop` is set, then close the socket."""
        try:
            serve_frames(self._service, _Watched(self._server, self._sample), stop)
        finally:
            self._server.close()
            self._stats = self._service.stats

    def close(self) -> None:
        """Close the socket. `serve` does so itself at its end."""
        self._server.close()

    def figures(self) -> dict[str, float]:
        """Returns the counters of the service and the socket; the service's are up to half a second old."""
        return asdict(self._stats) | self._server.counters.values()

    def _sample(self) -> None:
        """Sample the service's counters. Only the serving thread may read them, so this runs in it."""
        now_s = time.monotonic()
        if now_s - self._sampled_s >= _SAMPLE_PERIOD_S:
            self._sampled_s, self._stats = now_s, self._service.stats


def open_verifier(
    model: LanguageModel,
    endpoint: str,
    limits: CloudLimits | None = None,
    key_file: Path | None = None,
    knowledge: Knowledge | None = None,
    drafts: CloudDrafts = NO_DRAFTS,
) -> Verifier:
    """Returns a verifier whose socket is bound.

    With `knowledge` it also writes answers together with robots (`decoding.aggregation`). With `drafts` it
    also drafts. Raises ConfigError if the endpoint cannot be bound or the key file is wrong, and ModelError
    for a draft with another tokenizer.
    """
    verifier = VerifierService(model, limits, draft=drafts.model, draft_apart=drafts.apart, head=drafts.head)
    service = _service(verifier, limits, knowledge)
    keys = load_server_keys(key_file) if key_file is not None else None
    return Verifier(service, RouterServer(endpoint, keys, key_file=key_file))


def _service(
    verifier: VerifierService, limits: CloudLimits | None, knowledge: Knowledge | None
) -> VerifierService | JointService:
    if knowledge is None:
        return verifier
    return JointService(verifier, AggregationService(knowledge.model, knowledge.documents(), limits))


class _Watched:
    """A FrameServer that calls `on_turn` before each `receive`."""

    def __init__(self, server: FrameServer, on_turn: Callable[[], None]) -> None:
        self._server = server
        self._on_turn = on_turn

    def receive(self, timeout_s: float) -> list[tuple[Peer, EdgeFrame]]:
        self._on_turn()
        return self._server.receive(timeout_s)

    def send(self, peer: Peer, frame: CloudFrame) -> None:
        self._server.send(peer, frame)

    def close(self) -> None:
        self._server.close()


def log_figures(verifier: Verifier, served: threading.Event, period_s: float = LOG_PERIOD_S) -> None:
    """Log the figures that have changed, once per period and at the end. Blocks until `served` is set."""
    logged: dict[str, float] = {}
    while True:
        ended = served.wait(period_s)
        figures = {name: value for name, value in verifier.figures().items() if math.isfinite(value)}
        changed = [f"{name} {value:g}" for name, value in figures.items() if value != logged.get(name, 0)]
        if changed:
            _log.info("since the start: %s", ", ".join(changed))
        logged = figures
        if ended:
            return
