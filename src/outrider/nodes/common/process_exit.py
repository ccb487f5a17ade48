# SPDX-License-Identifier: Apache-2.0
"""Ends a node's process: what requests it, and an end that no thread of it can delay."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator

from outrider.runtime.common.ending_signals import on_ending_signals, set_in_handler, when_parent_ends

# The interpreter's exit status after an uncaught exception.
BROKEN = 1
# The time for an orderly end when the parent process is gone; nothing else would kill this process.
ORPHAN_S = 15.0

_SIGEV_THREAD = 2
_NS_PER_S = 10**9


class _Notice(ctypes.Structure):
    """Linux's `struct sigevent` of 64 bytes: the action when a timer ends."""

    _fields_ = (
        ("argument", ctypes.c_long),
        ("signal", ctypes.c_int),
        ("kind", ctypes.c_int),
        ("function", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("unused", ctypes.c_char * 32),
    )


class _Times(ctypes.Structure):
    """`struct itimerspec`."""

    _fields_ = (
        ("period_s", ctypes.c_long),
        ("period_ns", ctypes.c_long),
        ("delay_s", ctypes.c_long),
        ("delay_ns", ctypes.c_long),
    )


class Ending:
    """Sets `requested` when this process should end. Make one, in the main thread.

    The causes are a signal, an uncaught exception in a thread, and the end of the process that it belongs
    to. Exceptions that Python cannot propagate (`sys.unraisablehook`: destructors, callbacks from C) are
    printed by Python and end nothing: no command to the robot comes from such code.
    """

    def __init__(self) -> None:
        self.requested = threading.Event()
        self.status = 0
        self._is_signalled = False  # at once; a handler sets `requested` a moment later
        self._interrupts = False
        on_ending_signals(self._on_signal)
        threading.excepthook = self._on_thread_error
        when_parent_ends(self._on_orphaned)

    @contextlib.contextmanager
    def interrupting(self) -> Iterator[None]:
        """Inside, a request to end raises KeyboardInterrupt, once; also a request from before."""
        self._interrupts = True
        try:
            if self._is_signalled or self.requested.is_set():
                raise KeyboardInterrupt
            yield
        finally:
            self._interrupts = False

    def _on_signal(self, *_: object) -> None:
        self._is_signalled = True
        set_in_handler(self.requested)
        if self._interrupts:
            self._interrupts = False
            raise KeyboardInterrupt

    def _on_thread_error(self, error: threading.ExceptHookArgs) -> None:
        if error.exc_type is SystemExit:
            return
        self.status = BROKEN
        self.requested.set()  # first: if nothing reads the output, this thread goes no further
        name = error.thread.name if error.thread else "unknown"
        trace = traceback.format_exception(error.exc_type, error.exc_value, error.exc_traceback)
        print(f"thread {name} failed: this process ends\n{''.join(trace)}", file=sys.stderr, flush=True)
        self._request_end()

    def _on_orphaned(self) -> None:
        self.status = BROKEN
        with contextlib.suppress(OSError, AttributeError):
            end_process_after(ORPHAN_S, BROKEN)
        self._request_end()

    def _request_end(self) -> None:
        """Send the signal as another process would: the main thread may be loading a model."""
        self.requested.set()
        os.kill(os.getpid(), signal.SIGTERM)


def end_process_after(delay_s: float, status: int) -> None:
    """Exit with `status` after `delay_s` seconds, if the process has not ended by then.

    A call into C that holds the interpreter blocks every thread and signal handler of Python. The C
    library's timer needs neither: it calls `_exit(status)` from its own thread. Raises OSError if the
    system gives no timer.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    notice = _Notice(status, 0, _SIGEV_THREAD, ctypes.cast(libc._exit, ctypes.c_void_p))
    times = _Times(0, 0, *divmod(round(delay_s * _NS_PER_S), _NS_PER_S))
    timer = ctypes.c_void_p()
    result = libc.timer_create(time.CLOCK_MONOTONIC, ctypes.byref(notice), ctypes.byref(timer))
    if result != 0 or libc.timer_settime(timer, 0, ctypes.byref(times), None) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"no timer: {os.strerror(number)}")
