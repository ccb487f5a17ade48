# SPDX-License-Identifier: Apache-2.0
"""A verifier in a process of its own for the time of a measurement."""

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
"""Enough to load published weights on a machine that has much else to do."""


@contextmanager
def verifier_process(make_service: Callable[..., FrameService], *arguments: object) -> Iterator[str]:
    """The endpoint of a verifier whose service is made in the new process; both must be picklable.

    Raises LinkError where it does not start.
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
        if not ready.is_set():  # it loads, and hears nothing until it has
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
    """In the other process: serve until told to stop, or until the first one is gone."""
    end_with_parent()
    service, server, done = make_service(*arguments), RouterServer(endpoint, None), threading.Event()
    serving = threading.Thread(target=serve_frames, args=(service, server, done))
    serving.start()
    ready.set()
    stop.wait()
    done.set()
    serving.join()
    server.close()
