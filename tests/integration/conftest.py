"""Fixtures of the tests that use real sockets."""

from __future__ import annotations

import pytest

from outrider.runtime.supervisor import free_port


@pytest.fixture
def endpoint() -> str:
    """Where nobody listens yet."""
    return f"tcp://127.0.0.1:{free_port()}"
