# SPDX-License-Identifier: Apache-2.0
"""Worker processes that end with the process that started them, however that ends."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.pool import Pool
from typing import TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


def worker_pool(processes: int) -> Pool:
    """A pool of new processes, none of which outlives this one, by kill -9 too."""
    return multiprocessing.get_context("spawn").Pool(processes, initializer=end_with_parent)


def work_through(work: Callable[[Task], Result], tasks: Sequence[Task], processes: int) -> Iterator[Result]:
    """The results as they come; in the order of the tasks, and in this process, where `processes` is 1."""
    if processes <= 1:
        yield from map(work, tasks)
        return
    with worker_pool(processes) as pool:
        yield from pool.imap_unordered(work, tasks)


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
