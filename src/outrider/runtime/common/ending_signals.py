# SPDX-License-Identifier: Apache-2.0
"""Handles requests to end this process: signals, and the end of the process that it belongs to."""

from __future__ import annotations

import _thread
import contextlib
import errno
import math
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

# All signals that end a process and can be caught, except those of its own timers and failed writes.
ENDING_SIGNALS = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGABRT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGXCPU,
    signal.SIGPWR,
)
# The exit status of a node that could not start. A new start would not help.
COULD_NOT_START = 2
# The exit statuses of a run whose goal was not reached, and of one that a signal ended.
NOT_REACHED, STOPPED = 1, 130
# Holds the id of the process with which Outrider's processes end.
PARENT_VARIABLE = "OUTRIDER_PARENT_PID"
# Signals within this time of the first repeat its request: a terminal, a shell, a service manager and an
# impatient person may each send one.
REPEATED_S = 1.0
# How late `wait_for_ending` may notice an event.
POLL_S = 0.5
# How long `_end_at_once` waits for buffered output to be written. Nothing may be reading it.
FLUSH_S = 0.5

Handler = Callable[[int, FrameType | None], Any]


@dataclass
class _FirstSignal:
    """The time of the signal that later ones may repeat, on the monotonic clock."""

    at_s: float = -math.inf
    has_interrupted: bool = False

    def is_repeated(self) -> bool:
        return time.monotonic() - self.at_s < REPEATED_S


_first = _FirstSignal()


def on_ending_signals(handler: Handler) -> dict[int, Any]:
    """Handle every ending signal. Returns the previous handlers. SIGHUP stays ignored under nohup.

    A handler must take no lock; see `set_in_handler`.

    Once the terminal has gone, output is discarded: a failed write must not abort work before its results
    are saved.
    """

    def handle(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            _leave_lost_terminal()
        handler(number, frame)

    before: dict[int, Any] = {number: signal.getsignal(number) for number in ENDING_SIGNALS}
    if before[signal.SIGHUP] is signal.SIG_IGN:
        del before[signal.SIGHUP]
    for number in before:
        signal.signal(number, handle)
    return before


def _leave_lost_terminal() -> None:
    for descriptor in (1, 2):
        try:
            os.write(descriptor, b"")
        except OSError as error:
            if error.errno == errno.EIO:
                with Path(os.devnull).open("wb") as nowhere:
                    os.dup2(nowhere.fileno(), descriptor)


def set_in_handler(event: threading.Event) -> None:
    """Set an event on behalf of a signal handler, in another thread, and so a moment later.

    The handler may have interrupted `event.wait` where it holds the event's lock, for which `event.set`
    would wait forever.
    """
    _thread.start_new_thread(event.set, ())


def wait_for_ending(event: threading.Event) -> None:
    """Wait for an event that a signal handler sets.

    A signal just before a wait does not interrupt it, and its handler runs only after the wait. So no wait
    in the main thread may be without an end.
    """
    while not event.wait(POLL_S):
        pass


@contextlib.contextmanager
def stopping_on_signals(stopping: threading.Event) -> Iterator[None]:
    """Set the event on an ending signal inside the context. Does nothing outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = on_ending_signals(lambda *_: set_in_handler(stopping))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def interrupted_by_signals() -> Iterator[None]:
    """Raise KeyboardInterrupt on an ending signal inside the context, so that the code closes its resources.

    Signals that repeat it within REPEATED_S are ignored, because they would interrupt the closing; a later
    one raises again. Does nothing outside the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _first.at_s, _first.has_interrupted = -math.inf, False
    before = on_ending_signals(_interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def exit_on_signals() -> None:
    """Handle ending signals while the interpreter exits, where a KeyboardInterrupt would print a trace.

    Signals that repeat an earlier one are ignored. A later one ends the process at once, even if its exit
    hangs; one that is the first does so after REPEATED_S, so that an exit can still finish.
    """
    signal.signal(signal.SIGALRM, _end_at_once)
    on_ending_signals(_end_exit)


def _end_exit(number: int, frame: FrameType | None) -> None:
    if _first.is_repeated():
        return
    if math.isfinite(_first.at_s):
        _end_at_once(number, frame)
    _first.at_s = time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, REPEATED_S)


def _end_at_once(number: int, frame: FrameType | None) -> None:
    """End the process. Its output is flushed by another thread: a third one may hold its lock for ever."""
    flushed = _thread.allocate_lock()
    flushed.acquire()

    def flush() -> None:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
        flushed.release()

    with contextlib.suppress(RuntimeError):  # no thread starts any more
        _thread.start_new_thread(flush, ())
        flushed.acquire(timeout=FLUSH_S)
    os._exit(STOPPED)


def _interrupt(number: int, _: FrameType | None) -> None:
    """Raise KeyboardInterrupt. Other signals do so by SIGINT, which an event loop may handle instead."""
    if number != signal.SIGINT:
        signal.raise_signal(signal.SIGINT)
        return
    if _first.is_repeated():
        return
    _first.at_s = time.monotonic()
    _first.has_interrupted = True
    raise KeyboardInterrupt


def was_interrupted() -> bool:
    """Whether the last `interrupted_by_signals` was interrupted.

    A library in C that calls Python may turn the KeyboardInterrupt into another exception.
    """
    return _first.has_interrupted


def belonging_to_this_process(env: Mapping[str, str]) -> dict[str, str]:
    """Returns an environment in which Outrider's processes end when this one does, even by kill -9."""
    return {**env, PARENT_VARIABLE: str(os.getpid())}


def when_parent_ends(act: Callable[[], None]) -> None:
    """Call `act`, in another thread, once the process of PARENT_VARIABLE has ended; never without one.

    It waits for a descriptor of the process. A death signal (PR_SET_PDEATHSIG) would come when the thread
    that started this process ends, and never from a process that is not its parent.
    """
    text = os.environ.get(PARENT_VARIABLE, "")
    if not text.isdigit() or not hasattr(os, "pidfd_open"):
        return
    try:
        descriptor = os.pidfd_open(int(text))
    except ProcessLookupError:
        act()
        return
    except OSError:  # an older kernel, or one that forbids it
        return

    def wait() -> None:
        select.select([descriptor], [], [])
        os.close(descriptor)
        act()

    threading.Thread(target=wait, name="parent", daemon=True).start()
