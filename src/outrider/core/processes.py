# SPDX-License-Identifier: Apache-2.0
"""Worker processes that end with the process that started them, however it ends."""

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
    """Start processes inside this block so that they do not handle SIGINT.

    Ctrl-C sends it to every process of a terminal. Only this process handles it, and ends the others;
    otherwise each would print a trace, above all during its imports.
    """
    resource_tracker.ensure_running()  # first: starting it later would unblock all signals in some Pythons
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def work_through(work: Callable[[Task], Result], tasks: Sequence[Task], processes: int) -> Iterator[Result]:
    """Yield the results as they become available, from `processes` processes, but no more than tasks.

    With one process the tasks run in this one, in order. Raises what a task raises, and OutriderError if a
    worker was killed, because its task would never end.
    """
    processes = min(processes, len(tasks))
    yield from _by_workers(work, tasks, processes) if processes > 1 else map(work, tasks)


def work_apart(work: Callable[[Task], Result], task: Task) -> Result:
    """Return the result of a task run in its own process, with its own memory. Raises like `work_through`."""
    [result] = _by_workers(work, [task], 1)
    return result


def _by_workers(work: Callable[[Task], Result], tasks: Sequence[Task], processes: int) -> Iterator[Result]:
    """Yield the results of new processes; none outlives this one, even after kill -9."""
    earlier = multiprocessing.active_children()
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), end_with_parent)
    with interrupts_blocked():  # submitting a task starts processes
        coming = {pool.submit(work, task) for task in tasks}
    workers = [child for child in multiprocessing.active_children() if child not in earlier]
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
    """Called in a child process of `multiprocessing`: end it once its parent is gone.

    A worker that waits for its next task would wait forever, because it holds the other end of the pipe
    itself.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    sentinel = parent.sentinel

    def wait() -> None:
        multiprocessing.connection.wait([sentinel])
        os._exit(1)

    threading.Thread(target=wait, name="parent", daemon=True).start()
