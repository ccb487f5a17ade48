"""A verifier behind a real socket, in a thread of the test."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from outrider.core.ports import LanguageModel
from outrider.decoding.drivers.serving import serve_frames
from outrider.decoding.drivers.verifier_service import VerifierService
from outrider.decoding.protocol.limits import CloudLimits
from outrider.runtime.common.cloud_drafts import CloudDrafts
from outrider.runtime.wiring.knowledge import Knowledge
from outrider.runtime.wiring.verifier import open_verifier
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


def serve_verifier(
    model: LanguageModel,
    endpoint: str,
    *,
    stop: threading.Event,
    limits: CloudLimits | None = None,
    key_file: Path | None = None,
    knowledge: Knowledge | None = None,
    draft: LanguageModel | None = None,
    on_ready: Callable[[], None] = lambda: None,
) -> None:
    """Serves a model as `outrider verifier` does, with or without a draft model, until `stop` is set."""
    verifier = open_verifier(model, endpoint, limits, key_file, knowledge, CloudDrafts(draft))
    on_ready()
    verifier.serve(stop)
