# SPDX-License-Identifier: Apache-2.0
"""The cloud's draft model on its own device: it drafts while the target verifies.

As in Saguaro (arXiv 2603.03251), it drafts for likely outcomes: the likeliest nodes of the tree of all
drafts, and the outcomes that early exits predict.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from outrider.decoding.acceptance.schemes import Choices
from outrider.decoding.execution.cloud_draft_worker import CloudDraftWorker
from outrider.decoding.jobs import Aborted, CloudDraft, SessionKey

Finish = Callable[[Sequence[CloudDraft], Sequence[Choices | Exception], float], None]


class DraftAhead:
    """Runs a worker in a thread. `lock` also guards the caller's queue of jobs."""

    def __init__(
        self,
        worker: CloudDraftWorker,
        lock: threading.RLock,
        next_jobs: Callable[[], list[CloudDraft]],
        finish: Finish,
        clock: Callable[[], float],
    ) -> None:
        """Both callbacks run in the thread with the lock held.

        `next_jobs` returns the next batch; an empty one stops the thread's work. `finish` takes a batch,
        its results and its duration in seconds.
        """
        self._worker, self._lock = worker, lock
        self._next_jobs, self._finish, self._clock = next_jobs, finish, clock
        self._thread = ThreadPoolExecutor(1, "draft-ahead")
        self._task: Future[None] | None = None
        self._urgent: list[CloudDraft] = []
        self._running: list[CloudDraft] = []
        self._keys: frozenset[SessionKey] = frozenset()
        self._cached_keys = self._keys

    def resume(self) -> None:
        """Resume work if idle: there may be new jobs."""
        with self._lock:
            self._start()

    def run_now(self, jobs: Sequence[CloudDraft]) -> None:
        """Draft these jobs before any other. Returns when the thread has no more jobs; raises its error."""
        with self._lock:
            if not {_position_of(job) for job in jobs} <= {_position_of(job) for job in self._running}:
                self._urgent = list(jobs)
            task = self._start()
        task.result()

    def keep_only(self, keys: Collection[SessionKey]) -> None:
        """Free the caches of all other sessions, before the next batch."""
        with self._lock:
            self._keys = frozenset(keys)
            if self._keys != self._cached_keys:
                self._start()

    def _start(self) -> Future[None]:
        if self._task is None:
            self._task = self._thread.submit(self._draft)
        return self._task

    def _draft(self) -> None:
        try:
            self._draft_on()
        except BaseException:
            with self._lock:
                self._task, self._running = None, []
            raise

    def _draft_on(self) -> None:
        while jobs := self._next_batch():
            begun_s = self._clock()
            try:
                results = self._worker.run(jobs, self._pause)
            except Aborted:
                continue
            with self._lock:
                self._finish(jobs, results, self._clock() - begun_s)

    def _next_batch(self) -> list[CloudDraft]:
        with self._lock:
            if self._keys != self._cached_keys:
                self._worker.keep_only(self._keys)
                self._cached_keys = self._keys
            self._running = self._urgent or self._next_jobs()
            self._urgent = []
            if not self._running:
                self._task = None
            return self._running

    def _pause(self) -> None:
        if self._urgent:
            raise Aborted


def _position_of(job: CloudDraft) -> tuple[SessionKey, int, tuple[int, ...]]:
    """Return where a job drafts, without the number of choices it asks for."""
    return job.key, job.epoch, job.prefix
