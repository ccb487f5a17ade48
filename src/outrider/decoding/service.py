"""The cloud side complete: the machine with its model. Drivers hand it frames and carry its replies."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from outrider.core.errors import OutriderError
from outrider.core.frames import EdgeFrame, Peer
from outrider.core.ports import FrameServer, LanguageModel
from outrider.decoding.cloud import CloudLimits, CloudMachine, Reply
from outrider.decoding.jobs import CloudJob, Judgement
from outrider.decoding.workers import TargetWorker

_log = logging.getLogger(__name__)
_IDLE_WAIT_S = 0.1


@dataclass(frozen=True)
class ServiceStats:
    """Counters since the start. `smallest_margin`: how near to a tie any verified decision was."""

    frames: int
    jobs: int
    failed_jobs: int
    open_sessions: int
    smallest_margin: float


class VerifierService:
    """Not thread-safe. `clock` gives monotonic seconds."""

    def __init__(
        self,
        model: LanguageModel,
        limits: CloudLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._machine = CloudMachine(model.name, model.tokenizer, limits or CloudLimits())
        self._worker = TargetWorker(model)
        self._clock = clock
        self._frames = self._jobs = self._failed_jobs = 0
        self._smallest_margin = float("inf")

    def receive(self, peer: Peer, frame: EdgeFrame) -> list[Reply]:
        self._frames += 1
        replies = self._machine.receive(peer, frame, self._clock())
        self._worker.keep_only(self._machine.keys)
        return replies

    def next_job(self) -> CloudJob | None:
        """What the model should do now, if anything."""
        return self._machine.next_job()

    def run(self, job: CloudJob) -> Judgement | Exception | None:
        """Let the model do a job. A failure is a result: one session's input must not end the others'."""
        self._jobs += 1
        try:
            return self._worker.run(job)
        except Exception as error:
            self._failed_jobs += 1
            if not isinstance(error, OutriderError):
                _log.exception("a model job failed")
            return error

    def finish(self, job: CloudJob, result: Judgement | Exception | None, compute_s: float) -> list[Reply]:
        """Tell the machine what came of a job."""
        if isinstance(result, Exception):
            return self._machine.fail(job, result)
        if result is not None:
            self._smallest_margin = min(self._smallest_margin, result.margin)
        return self._machine.complete(job, result, compute_s)

    def step(self) -> list[Reply] | None:
        """Do one job from start to end; None where there is none."""
        job = self.next_job()
        if job is None:
            return None
        started_s = self._clock()
        result = self.run(job)
        return self.finish(job, result, self._clock() - started_s)

    def evict_idle(self) -> None:
        self._machine.evict_idle(self._clock())
        self._worker.keep_only(self._machine.keys)

    @property
    def stats(self) -> ServiceStats:
        return ServiceStats(
            self._frames, self._jobs, self._failed_jobs, len(self._machine.keys), self._smallest_margin
        )


def serve_frames(service: VerifierService, server: FrameServer, stop: threading.Event) -> None:
    """Serve until `stop` is set: take what has arrived, run one job, repeat."""
    busy = False
    while not stop.is_set():
        for peer, frame in server.receive(0.0 if busy else _IDLE_WAIT_S):
            _send_all(server, service.receive(peer, frame))
        replies = service.step()
        busy = replies is not None
        _send_all(server, replies or [])
        if not busy:
            service.evict_idle()


def _send_all(server: FrameServer, replies: list[Reply]) -> None:
    for reply in replies:
        server.send(reply.peer, reply.frame)
