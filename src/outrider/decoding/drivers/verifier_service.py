# SPDX-License-Identifier: Apache-2.0
"""The verifier: the cloud's state machine with its models. `VerifierService.step` runs one batch,
`serving.serve_frames` is the loop around it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from outrider.core.errors import OutriderError
from outrider.core.frames import EdgeFrame, Peer, Unsettled, Verdict
from outrider.core.pairs import check_pair
from outrider.core.ports import DraftHead, LanguageModel
from outrider.decoding.acceptance.schemes import Choices
from outrider.decoding.cloud.machine import CloudMachine, HintedExit, Reply
from outrider.decoding.drivers.serving import FrameService, send_all
from outrider.decoding.execution.batch_verification import OnHint
from outrider.decoding.execution.cloud_draft_worker import CloudDraftWorker, HeadDraftWorker
from outrider.decoding.execution.draft_ahead import DraftAhead
from outrider.decoding.execution.workers import TargetWorker
from outrider.decoding.jobs import (
    Aborted,
    CloudDraft,
    CloudJob,
    CloudResult,
    ExitHint,
    PrefillTarget,
    SessionKey,
    Unfinished,
    Verify,
)
from outrider.decoding.protocol.limits import CloudLimits
from outrider.decoding.tuning import DEFAULT_TUNING, AdaptiveTuning

_log = logging.getLogger(__name__)


@dataclass
class ServiceStats:
    """Counters since the start. `aborted`: verifications and steps aborted, for a better one or because
    their text has changed or ended. `smallest_margin`: how near to a tie any verified decision was.

    `batches` of `batched` verifications took the model `compute_s`; of these verifications, `rounds` judged
    a draft. `tokens` became final, including those that robots draw. `waits` frames had to wait for the
    model, for `waited_s` in total.
    """

    frames: int = 0
    jobs: int = 0
    failed_jobs: int = 0
    aborted: int = 0
    open_sessions: int = 0
    smallest_margin: float = float("inf")
    batches: int = 0
    batched: int = 0
    rounds: int = 0
    tokens: int = 0
    compute_s: float = 0.0
    waits: int = 0
    waited_s: float = 0.0


class VerifierService(FrameService):
    """Runs the cloud's state machine with its models. For one thread. `clock` gives monotonic seconds."""

    def __init__(
        self,
        model: LanguageModel,
        limits: CloudLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
        tuning: AdaptiveTuning = DEFAULT_TUNING,
        draft: LanguageModel | None = None,
        draft_apart: bool = False,
        head: DraftHead | None = None,
    ) -> None:
        """`draft`: a draft model in addition to the target; `draft_apart`: it has its own device, so that
        it drafts while the target verifies. `head`: the target's draft head, instead of a draft model.
        Raises ModelError for a draft model with another tokenizer.
        """
        if draft is not None:
            check_pair(model, draft)
        self._machine = CloudMachine(
            model.name,
            model.tokenizer,
            limits or CloudLimits(),
            tuning=tuning,
            drafts=bool(draft or head),
        )
        self._scheduler = self._machine.scheduler
        self._worker = TargetWorker(model, keeps_anchors=head is not None)
        self._drafter: CloudDraftWorker | HeadDraftWorker | None = (
            CloudDraftWorker(draft) if draft else HeadDraftWorker(self._worker, head) if head else None
        )
        self._clock = clock
        self._lock = threading.RLock()
        """Guards the state machine: a draft model on its own device runs in another thread."""
        self._target_job: CloudJob | None = None
        """The target's running job, if it runs alone."""
        self._ahead: DraftAhead | None = None
        if isinstance(self._drafter, CloudDraftWorker) and draft_apart:
            self._ahead = DraftAhead(self._drafter, self._lock, self._next_ahead, self.finish_drafts, clock)
        self._poll: Callable[[], None] = lambda: None
        self._running = False
        self._stats = ServiceStats()
        self._prefill_s: dict[SessionKey, tuple[int, float]] = {}
        """Of each prompt that is partly read: the epoch, and the seconds that its parts have taken."""

    def receive(self, peer: Peer, frame: EdgeFrame) -> list[Reply]:
        self._stats.frames += 1
        with self._lock:
            replies = self._machine.receive(peer, frame, self._clock())
        if not self._running:
            self._drop_gone()
        return replies

    def next_jobs(self) -> list[CloudJob]:
        """Return the jobs that the model should run now as one batch."""
        with self._lock:
            jobs = self._scheduler.next_jobs(self._clock())
        self._stats.waits += len(self._scheduler.waited_s)
        self._stats.waited_s += sum(self._scheduler.waited_s)
        return jobs

    def jobs_ahead(self, running: CloudJob) -> list[CloudDraft]:
        """Return the jobs that a draft model on its own device should run as one batch during a job."""
        with self._lock:
            return self._scheduler.draft_ahead(running)

    def max_wait_s(self) -> float | None:
        now_s = self._clock()
        with self._lock:
            at_s = self._scheduler.next_ready_s(now_s)
        return None if at_s is None else max(0.0, at_s - now_s)

    def run(self, jobs: Sequence[CloudJob], on_hint: OnHint) -> list[CloudResult]:
        """Run a batch. A failure is a result: one session's input must not end the others.

        An exception of `on_hint` is passed on as it is: call `on_interrupted` then.
        """
        self._running = True
        try:
            results = self._run(jobs, on_hint)
        finally:
            self._running = False
        self._stats.jobs += len(jobs)
        self._note_failures(results)
        return results

    def _note_failures(self, results: Sequence[object]) -> None:
        for error in results:
            self._stats.aborted += isinstance(error, Aborted)
            if isinstance(error, Exception) and not isinstance(error, Aborted):
                self._stats.failed_jobs += 1
                if not isinstance(error, OutriderError):
                    _log.error("a model job failed", exc_info=error)

    def _run(self, jobs: Sequence[CloudJob], on_hint: OnHint) -> list[CloudResult]:
        """Run a batch; all its jobs are for one of the models."""
        drafts = [job for job in jobs if isinstance(job, CloudDraft)]
        if drafts and self._drafter is not None:
            return [*self.draft(drafts)]
        return self._worker.run([job for job in jobs if not isinstance(job, CloudDraft)], on_hint)

    def on_interrupted(self, jobs: Sequence[CloudJob], compute_s: float) -> None:
        """Record a batch that ended after `compute_s` by an error of `on_hint`. Its jobs remain
        to be done.
        """
        with self._lock:
            self._scheduler.charge(jobs, compute_s, whole=False)
            for job in jobs:
                self._machine.on_aborted(job, self._clock())

    def hint(self, job: Verify, hint: ExitHint) -> HintedExit:
        """Return the hints to send for an early exit, and whether to abort its verification."""
        with self._lock:
            return self._machine.hint(job, hint, self._clock())

    def finish(
        self, jobs: Sequence[CloudJob], results: Sequence[CloudResult], compute_s: float
    ) -> list[Reply]:
        """Report the results of a batch to the state machine, and charge its robots for their shares of its
        time. Return the replies.
        """
        whole = not any(isinstance(result, Aborted) for result in results)
        drafts = [job for job in jobs if isinstance(job, CloudDraft)]
        with self._lock:
            self._scheduler.charge(jobs, compute_s, whole)
            if drafts:
                self._record_drafts(drafts, results, compute_s)
                return []
            done = zip(jobs, results, strict=True)
            replies = [reply for job, result in done for reply in self._complete(job, result, compute_s)]
        self._count(jobs, replies, compute_s, whole)
        return replies

    def finish_drafts(
        self, jobs: Sequence[CloudDraft], results: Sequence[Choices | Exception], compute_s: float
    ) -> None:
        """Report a batch of drafts from a device of their own: its time is not charged."""
        self._note_failures(results)
        with self._lock:
            self._record_drafts(jobs, results, compute_s)

    def _record_drafts(
        self, jobs: Sequence[CloudDraft], results: Sequence[CloudResult], compute_s: float
    ) -> None:
        """Pass drafts to the state machine, text by text. A failed draft only costs speed."""
        of_text: dict[SessionKey, list[tuple[CloudDraft, Choices | None]]] = {}
        for job, result in zip(jobs, results, strict=True):
            choices = result if isinstance(result, Choices) else None
            of_text.setdefault(job.key, []).append((job, choices))
        for drafted in of_text.values():
            self._machine.drafted(drafted, compute_s)

    def _complete(self, job: CloudJob, result: CloudResult, compute_s: float) -> list[Reply]:
        """Pass the result of one of the target's jobs to the state machine. Return the replies."""
        assert not isinstance(job, CloudDraft) and not isinstance(result, Choices)
        if isinstance(job, PrefillTarget):
            epoch, before_s = self._prefill_s.pop(job.key, (job.epoch, 0.0))
            compute_s += before_s if epoch == job.epoch else 0.0
        if isinstance(result, Unfinished):
            self._prefill_s[job.key] = job.epoch, compute_s
            return []
        if isinstance(result, Aborted):
            self._machine.on_aborted(job, self._clock())
            return []
        if isinstance(result, Exception):
            return self._machine.fail(job, result)
        if result is not None:
            self._stats.smallest_margin = min(self._stats.smallest_margin, result.margin)
        return self._machine.complete(job, result, compute_s, self._clock())

    def _next_ahead(self) -> list[CloudDraft]:
        job = self._target_job
        return [] if job is None else self.jobs_ahead(job)

    def draft(self, jobs: Sequence[CloudDraft]) -> list[Choices | Exception]:
        """Run a batch of the draft model in this thread."""
        assert self._drafter is not None
        return self._drafter.run(jobs)

    def _count(
        self, jobs: Sequence[CloudJob], replies: Sequence[Reply], compute_s: float, whole: bool
    ) -> None:
        verified = [job for job in jobs if isinstance(job, Verify)]
        if verified:
            self._stats.batches += 1
            self._stats.batched += len(verified)
            self._stats.rounds += sum([bool(job.draft) for job in verified]) if whole else 0
            self._stats.compute_s += compute_s
        for _, frame in replies:
            if isinstance(frame, (Verdict, Unsettled)):
                self._stats.tokens += len(frame.tokens) + isinstance(frame, Unsettled)

    def set_poll(self, poll: Callable[[], None]) -> None:
        """Call `poll` at the exits of a job that runs alone."""
        self._poll = poll

    def step(self, send: Callable[[Reply], None]) -> bool:
        """Run one batch, sending hints as its exits predict. Return False if there is none."""
        jobs = self.next_jobs()
        if not jobs:
            return False
        started_s = self._clock()
        drafts = [job for job in jobs if isinstance(job, CloudDraft)]
        if drafts and self._ahead is not None:
            self._ahead.run_now(drafts)
            with self._lock:
                self._scheduler.charge(drafts, self._clock() - started_s)
            return True

        def on_hint(job: Verify, hint: ExitHint) -> bool:
            if len(jobs) == 1:  # larger batches are never aborted
                self._poll()
            replies, should_abort = self.hint(job, hint)
            send_all(send, replies)
            self._resume_drafting(jobs)
            return should_abort

        self._resume_drafting(jobs)
        try:
            results = self.run(jobs, on_hint)
        except Exception:
            self.on_interrupted(jobs, self._clock() - started_s)
            raise
        finally:
            self._target_job = None
        send_all(send, self.finish(jobs, results, self._clock() - started_s))
        return True

    def _resume_drafting(self, jobs: Sequence[CloudJob]) -> None:
        """Let a draft model on its own device draft on while a job of the target runs alone."""
        if self._ahead is not None and len(jobs) == 1:
            self._target_job = jobs[0]
            self._ahead.resume()

    def evict_idle(self) -> None:
        with self._lock:
            self._machine.evict_idle(self._clock())
        self._drop_gone()

    def _drop_gone(self) -> None:
        """Drop what belongs to sessions that no longer exist."""
        keys = self._machine.keys
        self._worker.keep_only(keys)
        if self._ahead is not None:
            self._ahead.keep_only(keys)
        elif self._drafter is not None:
            self._drafter.keep_only(keys)
        for key in self._prefill_s.keys() - keys:
            del self._prefill_s[key]

    @property
    def stats(self) -> ServiceStats:
        """The counts since the service was created."""
        return replace(self._stats, open_sessions=len(self._machine.keys))
