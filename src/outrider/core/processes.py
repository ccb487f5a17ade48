# SPDX-License-Identifier: Apache-2.0
"""Worker processes that end with the process that started them, however that ends."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.pool import IMapIterator, Pool
from multiprocessing.process import BaseProcess
from typing import TypeVar

from outrider.core.errors import OutriderError

LOOKED_AFTER_S = 1.0
"""So often it is seen whether workers are still there."""

Task = TypeVar("Task")
Result = TypeVar("Result")


def worker_pool(processes: int) -> Pool:
    """A pool of new processes, none of which outlives this one, by kill -9 too."""
    with deaf_to_interrupts():
        return multiprocessing.get_context("spawn").Pool(processes, initializer=end_with_parent)


@contextmanager
def deaf_to_interrupts() -> Iterator[None]:
    """Processes that are started inside do not hear Ctrl-C, which a terminal sends to all of them: it is for
    this process, which ends them. Each would print a trace, and most of all while it still imports.
    """
    resource_tracker.ensure_running()  # before: some Pythons let every signal through once they start it
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def work_through(work: Callable[[Task], Result], tasks: Sequence[Task], processes: int) -> Iterator[Result]:
    """The results as they come, by no more processes than tasks; where that is one, by this process, in the
    order of the tasks.

    Raises what a task raises, and OutriderError where a worker was killed, whose task nobody would end.
    """
    processes = min(processes, len(tasks))
    if processes <= 1:
        yield from map(work, tasks)
        return
    others = multiprocessing.active_children()
    with worker_pool(processes) as pool:
        workers = [one for one in multiprocessing.active_children() if one not in others]
        yield from _results(pool.imap_unordered(work, tasks), workers)


def _results(coming: IMapIterator[Result], workers: Sequence[BaseProcess]) -> Iterator[Result]:
    while True:
        try:
            result = coming.next(LOOKED_AFTER_S)
        except StopIteration:
            return
        except multiprocessing.TimeoutError:
            if all(worker.is_alive() for worker in workers):
                continue
            raise OutriderError(
                "a worker was killed, perhaps for want of memory: use fewer processes, and run it again"
            ) from None
        yield result


def end_with_parent() -> None:
    """In a process that `multiprocessing` started: end it once the one that started it is gone.

    A worker that waits for its next task would wait for ever: it holds the other end of the pipe itself.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    sentinel = parent.sentinel

    def wait() -> None:
        multiprocessing.connection.wait([sentinel])
        os._exit(1)

    threading.Thread(target=wait, name="parent", daemon=True).start()
