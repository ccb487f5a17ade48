# SPDX-License-Identifier: Apache-2.0
"""Waits for a condition that other threads or processes bring about."""

from __future__ import annotations

import time
from collections.abc import Callable

POLL_S = 0.01


def wait_until(condition: Callable[[], object], timeout_s: float) -> bool:
    """Block until a condition holds, for at most `timeout_s` seconds; return whether it does."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(POLL_S)
    return True
