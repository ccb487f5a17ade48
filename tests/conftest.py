"""Fixtures for every part. This file also puts `tests/` on the import path, for `support`."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Workers that run beside each other have a core each: before anything loads the libraries that ask.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# Not the memories and the journal of whoever runs the tests.
_OWN = tempfile.mkdtemp(prefix="outrider-tests-")
atexit.register(shutil.rmtree, _OWN, ignore_errors=True)
os.environ["OUTRIDER_MEMORY"] = f"{_OWN}/memory.db"
os.environ["OUTRIDER_JOURNAL"] = f"{_OWN}/robot.journal"

# What `nohup` has ignored, programs under test would ignore too; what is caught, they have as usual.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)

# Tables as where they are piped, whatever the terminal that the tests run in.
os.environ.pop("COLUMNS", None)

# The same examples everywhere, and no verdict that hangs on how busy the machine is.
settings.register_profile(
    "outrider", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("outrider")


def pytest_collection_finish() -> None:
    """What has been imported and collected stays to the end: no collection of garbage looks at it again."""
    gc.freeze()


@pytest.fixture(scope="session")
def tiny_model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`target/`, `draft/` and `tokenizer/` with tiny random weights; not to be written to."""
    import torch
    from support.tiny_models import build_tiny_pair

    torch.set_num_threads(1)
    return build_tiny_pair(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def endpoint() -> str:
    """Where nobody listens yet."""
    from outrider.runtime.common.ports import free_port

    return f"tcp://127.0.0.1:{free_port()}"


@pytest.fixture
def signals() -> Iterator[None]:
    """Puts back what `serve` sets."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    handlers = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, handlers, strict=True):
        signal.signal(number, handler)
