# SPDX-License-Identifier: Apache-2.0
"""Serves verifiers' figures to Prometheus: one page of text on the loopback interface."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector

from outrider.core.errors import ConfigError

_HOST = "127.0.0.1"
MAX_READERS, READER_S = 8, 10.0
"""The most connections to the page at a time, and how long one may be silent.

The limits leave file descriptors for the connections of robots.
"""
_COUNTERS = {
    "tokens": "Tokens that became final.",
    "rounds": "Drafts that were judged.",
    "jobs": "Verifications, steps and parts of prompts.",
    "failed_jobs": "Jobs that failed.",
    "aborted": "Verifications and steps aborted: for better ones, other robots or ended texts.",
    "received": "Frames received.",
    "malformed": "Messages that were no frames.",
    "flooded": "Frames dropped from peers beyond their rate.",
    "unknown_keys": "Connections that failed at their keys.",
    "revoked": "Connections ended, and messages not read, since their key was revoked.",
    "evicted": "Peers that gave up their place.",
    "bytes_up": "Bytes received.",
    "bytes_down": "Bytes sent.",
}
_SUMMARIES = {
    "batch_sessions": ("batches", "batched", "Sessions in a batch of verifications."),
    "batch_seconds": ("batches", "compute_s", "Time of the model for a batch of verifications."),
    "queue_wait_seconds": ("waits", "waited_s", "How long frames waited for the model."),
}
_REFUSED = "refused_"


Figures = Mapping[str, float]


class VerifierCollector(Collector):
    """Reads the figures of each verifier, by its name, at every request.

    They are up to half a second old. An empty name means that there is only one verifier; its figures get no
    label. A relay's socket has no model, so it lacks the model's figures.
    """

    def __init__(self, read: Callable[[], Mapping[str, Figures]], max_sessions: int) -> None:
        self._read = read
        self._max_sessions = max_sessions

    def collect(self) -> Iterable[Metric]:
        """Returns the verifiers' counters, summaries and gauges for Prometheus."""
        verifiers = self._read()
        names = ["replica"] if any(verifiers) else []
        labelled = [([name] if name else [], figures) for name, figures in verifiers.items()]
        for name, text in _COUNTERS.items():
            counter = CounterMetricFamily(f"outrider_{name}", text, labels=names)
            for label, figures in labelled:
                if name in figures:
                    counter.add_metric(label, figures[name])
            yield counter
        for name, (count, total, text) in _SUMMARIES.items():
            summary = SummaryMetricFamily(f"outrider_{name}", text, labels=names)
            for label, figures in labelled:
                if count in figures:
                    summary.add_metric(label, int(figures[count]), figures[total])
            yield summary
        open_sessions = GaugeMetricFamily("outrider_sessions", "Sessions that hold a place.", labels=names)
        places = GaugeMetricFamily("outrider_max_sessions", "Places for sessions.", labels=names)
        refusals = CounterMetricFamily("outrider_refusals", "Refusals by reason.", labels=[*names, "reason"])
        for label, figures in labelled:
            if "open_sessions" in figures:
                open_sessions.add_metric(label, figures["open_sessions"])
                places.add_metric(label, self._max_sessions)
            for name, value in figures.items():
                if name.startswith(_REFUSED):
                    refusals.add_metric([*label, name.removeprefix(_REFUSED)], value)
        yield from (open_sessions, places, refusals)


def only(figures: Callable[[], Figures]) -> Callable[[], Mapping[str, Figures]]:
    """Returns a function that reads the figures of a single verifier, for `VerifierCollector`."""
    return lambda: {"": figures()}


def check_port(port: int) -> None:
    """Raise ConfigError if `metrics_page` would raise it because the port is in use now."""
    with _naming(port), socket.create_server((_HOST, port)):
        pass


@contextmanager
def metrics_page(read: Callable[[], Mapping[str, Figures]], max_sessions: int, port: int) -> Iterator[None]:
    """Serves http://127.0.0.1:PORT/metrics inside the context; nothing for port 0.

    Raises ConfigError if the port is in use.
    """
    if not port:
        yield
        return
    registry = CollectorRegistry()
    registry.register(VerifierCollector(read, max_sessions))
    with _naming(port):
        server = make_server(_HOST, port, make_wsgi_app(registry), _PageServer, _PageHandler)
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _PageServer(ThreadingMixIn, WSGIServer):
    """Answers at most MAX_READERS connections at a time; further ones are closed at once."""

    daemon_threads = True

    def __init__(self, *given: Any) -> None:
        self._places = threading.Semaphore(MAX_READERS)
        super().__init__(*given)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread has started that would release the semaphore
            self._places.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing about a connection that failed."""


class _PageHandler(WSGIRequestHandler):
    timeout = READER_S

    def log_message(self, format: str, *arguments: Any) -> None:
        """Log nothing about a request."""


@contextmanager
def _naming(port: int) -> Iterator[None]:
    """Raises ConfigError if the system refuses the port inside the context."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"metrics_port={port} cannot be used ({error.strerror}): choose another") from None
