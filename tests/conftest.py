"""Fixtures for all tests. This file also puts `tests/` on the import path, for `support`."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    import zmq

# Parallel workers get one core each. Set this before anything imports a library that reads it.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# Keep the tests away from the user's own memories and journal.
_OWN = tempfile.mkdtemp(prefix="outrider-tests-")
atexit.register(shutil.rmtree, _OWN, ignore_errors=True)
os.environ["OUTRIDER_MEMORY"] = f"{_OWN}/memory.db"
os.environ["OUTRIDER_JOURNAL"] = f"{_OWN}/robot.journal"

# Programs under test would inherit an ignored SIGHUP from `nohup`. A handler is not inherited.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)

# Format tables as for a pipe, regardless of the terminal.
os.environ.pop("COLUMNS", None)

# Use the same examples everywhere; no test may fail because the machine is busy.
settings.register_profile(
    "outrider", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("outrider")


def pytest_collection_finish() -> None:
    """Excludes all that is imported and collected from garbage collection: it lives until the end."""
    gc.freeze()


@pytest.fixture(scope="session")
def tiny_model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with `target/`, `draft/` and `tokenizer/` of tiny random models. Read-only."""
    import torch
    from support.tiny_models import build_tiny_pair

    torch.set_num_threads(1)
    return build_tiny_pair(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def endpoint() -> str:
    """Returns an endpoint with a free port."""
    from outrider.runtime.common.ports import free_port

    return f"tcp://127.0.0.1:{free_port()}"


@pytest.fixture
def peer_sockets() -> Iterator[zmq.Context]:
    """Yields a context for sockets of misbehaving peers."""
    import zmq

    context = zmq.Context()
    yield context
    context.destroy(linger=0)


@pytest.fixture
def signals() -> Iterator[None]:
    """Restores the signal handlers that `serve` replaces."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    handlers = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, handlers, strict=True):
        signal.signal(number, handler)
