# SPDX-License-Identifier: Apache-2.0
"""Worker processes that end with the process that started them, however that ends."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import TypeVar

from outrider.core.errors import OutriderError

Task = TypeVar("Task")
Result = TypeVar("Result")


@contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Processes that are started inside block SIGINT, which Ctrl-C sends to every process of a terminal: this
    process alone handles it, and ends them. Each would print a trace else, most of all while it imports.
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
    yield from _by_workers(work, tasks, processes) if processes > 1 else map(work, tasks)


def work_apart(work: Callable[[Task], Result], task: Task) -> Result:
    """The result of a process of its own, with memory of its own. Raises as `work_through`."""
    [result] = _by_workers(work, [task], 1)
    return result


def _by_workers(work: Callable[[Task], Result], tasks: Sequence[Task], processes: int) -> Iterator[Result]:
    """The results of new processes, none of which outlives this one, by kill -9 too."""
    others = multiprocessing.active_children()
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), end_with_parent)
    with interrupts_blocked():  # they are started as the tasks are handed in
        coming = {pool.submit(work, task) for task in tasks}
    workers = [one for one in multiprocessing.active_children() if one not in others]
    try:
        for done in as_completed(coming):
            coming.discard(done)
            yield done.result()
    except BrokenProcessPool:
        raise OutriderError(
            "a worker was killed, perhaps for want of memory: free some, or use fewer processes"
        ) from None
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.terminate()


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
