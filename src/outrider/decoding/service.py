"""The cloud side complete: the machine with its model. Drivers hand it frames and carry its replies."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from outrider.core.errors import OutriderError
from outrider.core.frames import EdgeFrame, Peer
from outrider.core.ports import FrameServer, LanguageModel
from outrider.decoding.cloud import CloudLimits, CloudMachine, Reply
from outrider.decoding.jobs import CloudJob, ExitHint, Judgement, Verify
from outrider.decoding.workers import OnHint, TargetWorker

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


class FrameService(Protocol):
    """What answers frames by running a model: a verifier, or a peer with documents of its own."""

    def receive(self, peer: Peer, frame: EdgeFrame) -> list[Reply]: ...

    def step(self, send: Callable[[Reply], None]) -> bool:
        """Do one job; False where there is none."""

    def next_look_s(self) -> float | None:
        """How long to wait at most before the next `step`; None: until a frame comes."""

    def evict_idle(self) -> None: ...


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
        return self._machine.next_job(self._clock())

    def next_look_s(self) -> float | None:
        """How long to wait at most before asking for a job again, in seconds; None: until a frame comes."""
        now_s = self._clock()
        at_s = self._machine.next_look_s(now_s)
        return None if at_s is None else max(0.0, at_s - now_s)

    def run(self, job: CloudJob, on_hint: OnHint) -> Judgement | Exception | None:
        """Let the model do a job. A failure is a result: one session's input must not end the others'."""
        self._jobs += 1
        try:
            return self._worker.run(job, on_hint)
        except Exception as error:
            self._failed_jobs += 1
            if not isinstance(error, OutriderError):
                _log.exception("a model job failed")
            return error

    def hint(self, job: CloudJob, hint: ExitHint) -> list[Reply]:
        """What an early exit says to the outside, if anything."""
        return self._machine.hint(job, hint, self._clock()) if isinstance(job, Verify) else []

    def finish(self, job: CloudJob, result: Judgement | Exception | None, compute_s: float) -> list[Reply]:
        """Tell the machine what came of a job."""
        if isinstance(result, Exception):
            return self._machine.fail(job, result)
        if result is not None:
            self._smallest_margin = min(self._smallest_margin, result.margin)
        return self._machine.complete(job, result, compute_s, self._clock())

    def step(self, send: Callable[[Reply], None]) -> bool:
        """Do one job from start to end, sending hints in its midst; False where there is none."""
        job = self.next_job()
        if job is None:
            return False
        started_s = self._clock()
        result = self.run(job, lambda hint: _send_all(send, self.hint(job, hint)))
        _send_all(send, self.finish(job, result, self._clock() - started_s))
        return True

    def evict_idle(self) -> None:
        self._machine.evict_idle(self._clock())
        self._worker.keep_only(self._machine.keys)

    @property
    def stats(self) -> ServiceStats:
        return ServiceStats(
            self._frames, self._jobs, self._failed_jobs, len(self._machine.keys), self._smallest_margin
        )


def serve_frames(service: FrameService, server: FrameServer, stop: threading.Event) -> None:
    """Serve until `stop` is set: take what has arrived, run one job, repeat."""

    def send(reply: Reply) -> None:
        server.send(reply.peer, reply.frame)

    wait_s = 0.0
    while not stop.is_set():
        for peer, frame in server.receive(wait_s):
            _send_all(send, service.receive(peer, frame))
        if service.step(send):
            wait_s = 0.0
        else:
            service.evict_idle()
            look_s = service.next_look_s()
            wait_s = _IDLE_WAIT_S if look_s is None else min(_IDLE_WAIT_S, look_s)


def _send_all(send: Callable[[Reply], None], replies: list[Reply]) -> None:
    for reply in replies:
        send(reply)
