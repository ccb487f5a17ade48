"""A verifier behind a real socket, in a thread of the test."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from outrider.decoding.drivers.serving import serve_frames
from outrider.decoding.drivers.verifier_service import VerifierService
from outrider.wire.server import RouterServer


@contextmanager
def serving(service: VerifierService) -> Iterator[str]:
    """Serves in a thread of this process and yields the endpoint."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        endpoint = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
    server, stop = RouterServer(endpoint, None), threading.Event()
    thread = threading.Thread(target=serve_frames, args=(service, server, stop))
    thread.start()
    try:
        yield endpoint
    finally:
        stop.set()
        thread.join()
        server.close()
