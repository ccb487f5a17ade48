"""An end for this process with a status of its own, whatever its threads do."""

from __future__ import annotations

import ctypes
import os
import time

_SIGEV_THREAD = 2
_NS_PER_S = 10**9


class _Notice(ctypes.Structure):
    """Linux's `struct sigevent` of 64 bytes: what happens when a timer ends."""

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


def end_process_after(delay_s: float, status: int) -> None:
    """Exit with `status` in `delay_s` seconds, where the process has not ended by then.

    A call into C that keeps the interpreter to itself would hold up every thread and signal handler of
    Python. The C library's timer needs none of it: it calls `_exit(status)` from a thread of its own.
    Raises OSError where the system gives no timer.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    notice = _Notice(status, 0, _SIGEV_THREAD, ctypes.cast(libc._exit, ctypes.c_void_p))
    times = _Times(0, 0, *divmod(round(delay_s * _NS_PER_S), _NS_PER_S))
    timer = ctypes.c_void_p()
    made = libc.timer_create(time.CLOCK_MONOTONIC, ctypes.byref(notice), ctypes.byref(timer))
    if made != 0 or libc.timer_settime(timer, 0, ctypes.byref(times), None) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"no timer: {os.strerror(number)}")
