# SPDX-License-Identifier: Apache-2.0
"""Closes sockets whose owner is dropped unclosed."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from typing import Any


def close_once(owner: object, close: Callable[..., None], *arguments: Any) -> Callable[[], None]:
    """Return a function that calls `close(*arguments)` once: when it is called, or when `owner` is dropped.

    `close` closes the sockets before their context. The garbage collector closes them in no particular
    order, and would wait for ever in a context that still has open sockets. Nothing is closed at the end of
    the interpreter, when a thread may still be using them, nor in a process forked since.
    """
    process = os.getpid()

    def close_in_own_process() -> None:
        if os.getpid() == process:
            close(*arguments)

    finalizer = weakref.finalize(owner, close_in_own_process)
    finalizer.atexit = False
    return finalizer
