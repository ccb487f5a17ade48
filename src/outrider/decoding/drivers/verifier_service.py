# SPDX-License-Identifier: Apache-2.0
"""The verifier: the cloud's machine with its model. `serve_frames` is the loop,
`VerifierService.step` the order of one verification.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from outrider.core.errors import OutriderError
from outrider.core.frames import EdgeFrame, Peer, Unsettled, Verdict
from outrider.core.pairs import check_pair
from outrider.core.ports import FrameServer, LanguageModel
from outrider.decoding.acceptance.schemes import Choices
from outrider.decoding.cloud.machine import CloudMachine, Reply
from outrider.decoding.execution.batch_verification import OnHint
from outrider.decoding.execution.cloud_draft_worker import CloudDraftWorker
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
_IDLE_WAIT_S = 0.1


@dataclass(frozen=True)
class ServiceStats:
    """Counters since the start. `aborted`: verifications and steps that were aborted, for better ones, for
    other robots, or for nothing where their text has ended. `smallest_margin`: how near to a tie any verified
    decision was.

    `batches` of `batched` verifications took the model `compute_s`; of them `rounds` judged a draft, and
    `tokens` became final. `waits` frames had to wait for the model, `waited_s` together.
    """

    frames: int
    jobs: int
    failed_jobs: int
    aborted: int
    open_sessions: int
    smallest_margin: float
    batches: int = 0
    batched: int = 0
    rounds: int = 0
    tokens: int = 0
    compute_s: float = 0.0
    waits: int = 0
    waited_s: float = 0.0


class FrameService(Protocol):
    """What answers frames by running a model: a verifier, or a peer with documents of its own."""

    def receive(self, peer: Peer, frame: EdgeFrame) -> list[Reply]:
        """Takes a frame of a peer; returns what can be answered at once."""

    def step(self, send: Callable[[Reply], None]) -> bool:
        """Do what is next; False where there is nothing."""

    def next_look_s(self) -> float | None:
        """How long to wait at most before the next `step`; None: until a frame comes."""

    def evict_idle(self) -> None:
        """Closes the sessions that were idle for too long."""


@runtime_checkable
class Listener(Protocol):
    """A FrameService whose steps profit in their midst from what has arrived meanwhile."""

    def listen(self, take_in: Callable[[], None]) -> None:
        """From now on `take_in` is called there: it hands such frames to `receive`."""


class VerifierService:
    """Not thread-safe. `clock` gives monotonic seconds."""

    def __init__(
        self,
        model: LanguageModel,
        limits: CloudLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
        tuning: AdaptiveTuning = DEFAULT_TUNING,
        draft: LanguageModel | None = None,
    ) -> None:
        """`draft`: a draft model beside the target. Raises ModelError for one of another tokenizer."""
        if draft is not None:
            check_pair(model, draft)
        self._machine = CloudMachine(
            model.name,
            model.tokenizer,
            limits or CloudLimits(),
            branches=model.shares_prompts,
            tuning=tuning,
            drafts=draft is not None,
        )
        self._worker = TargetWorker(model)
        self._drafter = None if draft is None else CloudDraftWorker(draft)
        self._clock = clock
        self._take_in: Callable[[], None] = lambda: None
        self._running = False
        self._frames = self._jobs = self._failed_jobs = self._aborted = 0
        self._smallest_margin = float("inf")
        self._batches = self._batched = self._rounds = self._tokens = self._waits = 0
        self._compute_s = self._waited_s = 0.0
        self._prefill_s: dict[SessionKey, tuple[int, float]] = {}
        """Of prompts that are begun: the epoch, and what their parts have taken."""

    def receive(self, peer: Peer, frame: EdgeFrame) -> list[Reply]:
        """Takes a frame of a peer; returns what can be answered at once."""
        self._frames += 1
        replies = self._machine.receive(peer, frame, self._clock())
        if not self._running:
            self._drop_gone()
        return replies

    def next_jobs(self) -> list[CloudJob]:
        """What the model should do now as one batch, if anything."""
        jobs = self._machine.next_jobs(self._clock())
        self._waits += len(self._machine.waited_s)
        self._waited_s += sum(self._machine.waited_s)
        return jobs

    def next_look_s(self) -> float | None:
        """How long to wait at most before asking for a job again, in seconds; None: until a frame comes."""
        now_s = self._clock()
        at_s = self._machine.next_look_s(now_s)
        return None if at_s is None else max(0.0, at_s - now_s)

    def run(self, jobs: Sequence[CloudJob], on_hint: OnHint) -> list[CloudResult]:
        """Let the model do a batch. A failure is a result: one session's input must not end the others'.

        What `on_hint` raises comes out as it is: then tell `leave`.
        """
        self._running = True
        try:
            results = self._run(jobs, on_hint)
        finally:
            self._running = False
        self._jobs += len(jobs)
        for error in results:
            self._aborted += isinstance(error, Aborted)
            if isinstance(error, Exception) and not isinstance(error, Aborted):
                self._failed_jobs += 1
                if not isinstance(error, OutriderError):
                    _log.error("a model job failed", exc_info=error)
        return results

    def _run(self, jobs: Sequence[CloudJob], on_hint: OnHint) -> list[CloudResult]:
        """A batch is for one of the models."""
        drafts = [job for job in jobs if isinstance(job, CloudDraft)]
        if drafts and self._drafter is not None:
            return [*self._drafter.run(drafts)]
        return self._worker.run([job for job in jobs if not isinstance(job, CloudDraft)], on_hint)

    def leave(self, jobs: Sequence[CloudJob], compute_s: float) -> None:
        """A batch was left after so long by no will of its own: what it was to do is still to be done."""
        self._machine.charge(jobs, compute_s, whole=False)
        for job in jobs:
            self._machine.on_aborted(job, self._clock())

    def hint(self, job: Verify, hint: ExitHint) -> list[Reply]:
        """What an early exit says to the outside, if anything."""
        return self._machine.hint(job, hint, self._clock())

    def should_abort(self, job: Verify) -> bool:
        """Whether what early exits have said is reason to abort a verification."""
        return self._machine.should_abort(job)

    def finish(self, job: CloudJob, result: CloudResult, compute_s: float) -> list[Reply]:
        """Tell the machine what came of a job whose batch took so long."""
        if isinstance(job, CloudDraft) or isinstance(result, Choices):
            return self._finish_draft(job, result, compute_s)
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
            self._smallest_margin = min(self._smallest_margin, result.margin)
        return self._machine.complete(job, result, compute_s, self._clock())

    def _finish_draft(self, job: CloudJob, result: CloudResult, compute_s: float) -> list[Reply]:
        """A draft that failed costs speed alone."""
        if isinstance(job, CloudDraft):
            self._machine.drafted(job, result if isinstance(result, Choices) else None, compute_s)
        return []

    def finish_all(
        self, jobs: Sequence[CloudJob], results: Sequence[CloudResult], compute_s: float
    ) -> list[Reply]:
        """`finish` for a batch; its robots are charged for their parts of its time."""
        whole = not any(isinstance(result, Aborted) for result in results)
        self._machine.charge(jobs, compute_s, whole)
        done = zip(jobs, results, strict=True)
        replies = [reply for job, result in done for reply in self.finish(job, result, compute_s)]
        self._count(jobs, replies, compute_s, whole)
        return replies

    def _count(
        self, jobs: Sequence[CloudJob], replies: Sequence[Reply], compute_s: float, whole: bool
    ) -> None:
        verified = [job for job in jobs if isinstance(job, Verify)]
        if verified:
            self._batches += 1
            self._batched += len(verified)
            self._rounds += sum([bool(job.draft) for job in verified]) if whole else 0
            self._compute_s += compute_s
        for _, frame in replies:
            if isinstance(frame, (Verdict, Unsettled)):
                self._tokens += len(frame.tokens)

    def listen(self, take_in: Callable[[], None]) -> None:
        """`take_in` is called when an exit speaks of a job that runs alone."""
        self._take_in = take_in

    def step(self, send: Callable[[Reply], None]) -> bool:
        """Do one batch from start to end, sending hints in its midst; False where there is none."""
        jobs = self.next_jobs()
        if not jobs:
            return False
        started_s = self._clock()

        def on_hint(job: Verify, hint: ExitHint) -> bool:
            if len(jobs) == 1:  # others are never aborted, whatever comes for them
                self._take_in()
            _send_all(send, self.hint(job, hint))
            return self.should_abort(job)

        try:
            results = self.run(jobs, on_hint)
        except Exception:
            self.leave(jobs, self._clock() - started_s)
            raise
        _send_all(send, self.finish_all(jobs, results, self._clock() - started_s))
        return True

    def evict_idle(self) -> None:
        """Closes the sessions that were idle for too long, and frees their caches."""
        self._machine.evict_idle(self._clock())
        self._drop_gone()

    def _drop_gone(self) -> None:
        """Keep nothing of sessions that hold no place any more."""
        keys = self._machine.keys
        self._worker.keep_only(keys)
        if self._drafter is not None:
            self._drafter.keep_only(keys)
        for key in self._prefill_s.keys() - keys:
            del self._prefill_s[key]

    @property
    def stats(self) -> ServiceStats:
        """Returns the counts since the service was made."""
        return ServiceStats(
            self._frames,
            self._jobs,
            self._failed_jobs,
            self._aborted,
            len(self._machine.keys),
            self._smallest_margin,
            self._batches,
            self._batched,
            self._rounds,
            self._tokens,
            self._compute_s,
            self._waits,
            self._waited_s,
        )


def serve_frames(service: FrameService, server: FrameServer, stop: threading.Event) -> None:
    """Serve until `stop` is set: take what has arrived, run one batch, repeat. What arrives while a batch of
    one runs is taken when an exit speaks.
    """

    def send(reply: Reply) -> None:
        server.send(reply.peer, reply.frame)

    def take_in(wait_s: float = 0.0) -> None:
        for peer, frame in server.receive(wait_s):
            _send_all(send, service.receive(peer, frame))

    if isinstance(service, Listener):
        service.listen(take_in)
    wait_s = 0.0
    while not stop.is_set():
        take_in(wait_s)
        if service.step(send):
            wait_s = 0.0
        else:
            service.evict_idle()
            look_s = service.next_look_s()
            wait_s = _IDLE_WAIT_S if look_s is None else min(_IDLE_WAIT_S, look_s)


def _send_all(send: Callable[[Reply], None], replies: list[Reply]) -> None:
    for reply in replies:
        send(reply)
