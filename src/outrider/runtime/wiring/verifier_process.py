# SPDX-License-Identifier: Apache-2.0
"""Runs a verifier in its own process for the duration of a measurement."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event

from outrider.core.errors import LinkError
from outrider.core.processes import end_with_parent, interrupts_blocked
from outrider.decoding.drivers.serving import FrameService, serve_frames
from outrider.runtime.common.ports import free_port
from outrider.wire.server import RouterServer

START_S = 1200.0
"""Long enough to load published weights on a busy machine."""


@contextmanager
def verifier_process(make_service: Callable[..., FrameService], *arguments: object) -> Iterator[str]:
    """Yields the endpoint of a verifier in a new process, which calls `make_service`.

    `make_service` and `arguments` must be picklable. Raises LinkError if it does not start.
    """
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    context = multiprocessing.get_context("spawn")
    ready, stop = context.Event(), context.Event()
    process = context.Process(
        target=_serve, args=(endpoint, ready, stop, make_service, arguments), daemon=True
    )
    with interrupts_blocked():
        process.start()
    try:
        _await_start(ready, process)
        yield endpoint
    finally:
        stop.set()
        if not ready.is_set():  # the process is loading, and would check `stop` only after that
            process.terminate()
        process.join()


def _await_start(ready: Event, process: BaseProcess) -> None:
    deadline_s = time.monotonic() + START_S
    while not ready.wait(0.1):
        if not process.is_alive() or time.monotonic() > deadline_s:
            raise LinkError("the verifier of the measurement did not start: see its error above")


def _serve(
    endpoint: str,
    ready: Event,
    stop: Event,
    make_service: Callable[..., FrameService],
    arguments: tuple[object, ...],
) -> None:
    """Serve in the new process, until `stop` is set or the parent process has ended."""
    end_with_parent()
    service, server, done = make_service(*arguments), RouterServer(endpoint, None), threading.Event()
    serving = threading.Thread(target=serve_frames, args=(service, server, done))
    serving.start()
    ready.set()
    stop.wait()
    done.set()
    serving.join()
    server.close()
