# SPDX-License-Identifier: Apache-2.0
"""Real models at the pace of other machines: the results are real, the time is a `ComputeProfile`'s."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from outrider.core.ports import FrameLink, LanguageModel, Pause
from outrider.decoding.config import DecodingConfig
from outrider.decoding.drivers.linked_decoder import MIN_POLL_S, LinkedDecoder
from outrider.decoding.drivers.verifier_service import VerifierService
from outrider.decoding.execution.batch_verification import OnHint
from outrider.decoding.execution.workers import DraftWorker, TargetWorker
from outrider.decoding.jobs import (
    Aborted,
    CloudResult,
    EdgeJob,
    EdgeResult,
    ExitHint,
    TargetJob,
    Unfinished,
    Verify,
)
from outrider.decoding.simulation.compute import ComputeProfile


class Pacer:
    """Waits until some time after `start`, and not at all if that has passed."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._start_s = 0.0
        self.late_s = 0.0

    def start(self) -> None:
        """Sets the start to the present time."""
        self._start_s = self._clock()

    @property
    def elapsed_s(self) -> float:
        """The seconds since the start."""
        return self._clock() - self._start_s

    def wait_until(self, after_s: float, pause: Pause | None = None) -> None:
        """Wait until `after_s` seconds after the start, with a `pause` now and then.

        `late_s` sums up by how much this machine was slower than the one it simulates.
        """
        left_s = self._start_s + after_s - self._clock()
        if left_s <= 0.0:
            self.late_s -= left_s
        while left_s > 0.0:
            self._sleep(left_s if pause is None else min(left_s, MIN_POLL_S))
            if pause is not None:
                pause()
            left_s = self._start_s + after_s - self._clock()


class PacedDraftWorker(DraftWorker):
    """Drafts at the pace of a profile."""

    def __init__(self, model: LanguageModel, compute: ComputeProfile, pacer: Pacer) -> None:
        super().__init__(model)
        self._compute = compute
        self._pacer = pacer

    def run(self, job: EdgeJob, pause: Pause | None = None) -> EdgeResult:
        self._pacer.start()
        whole_s = self._compute.draft_s(job)

        def left_s() -> float:
            return self._compute.draft_queue.left_s(self._pacer.elapsed_s, whole_s)

        def glance() -> None:
            if pause is not None and left_s() < whole_s:
                pause()

        try:
            choices = super().run(job, glance)
            self._pacer.wait_until(whole_s, glance)
        except Aborted:
            self._pacer.wait_until(left_s())
            raise
        return choices


class PacedTargetWorker(TargetWorker):
    """Verifies at the pace of a profile; an exit's hint is sent when its layer would be done."""

    def __init__(self, model: LanguageModel, compute: ComputeProfile, pacer: Pacer) -> None:
        super().__init__(model)
        self._compute = compute
        self._pacer = pacer
        exits = model.exits
        self._shares = () if exits is None else tuple(layer / exits.num_layers for layer in exits.layers)

    def run(self, jobs: Sequence[TargetJob], on_hint: OnHint) -> list[CloudResult]:
        self._pacer.start()
        hints: list[tuple[Verify, ExitHint]] = []

        def keep(job: Verify, hint: ExitHint) -> bool:
            hints.append((job, hint))
            return False

        results = super().run(jobs, keep)
        duration_s = max(
            0.0 if isinstance(result, Unfinished) else self._compute.target_s(job, len(self._shares))
            for job, result in zip(jobs, results, strict=True)
        )
        for job, hint in hints:
            after_s = duration_s * self._shares[hint.exit]
            self._pacer.wait_until(after_s)
            if on_hint(job, hint) and len(jobs) == 1:
                self._pacer.wait_until(self._compute.target_queue.left_s(after_s, duration_s))
                return [Aborted()]
        self._pacer.wait_until(duration_s)
        return results


class PacedDecoder(LinkedDecoder):
    """A LinkedDecoder whose draft takes the profile's time."""

    def __init__(
        self,
        link: FrameLink,
        draft: LanguageModel,
        config: DecodingConfig,
        compute: ComputeProfile,
        where: str,
        pacer: Pacer | None = None,
    ) -> None:
        super().__init__(link, draft, draft.tokenizer, config, 1, where)
        self.pacer = pacer or Pacer()
        if self._worker is not None:
            self._worker = PacedDraftWorker(draft, compute, self.pacer)


class PacedService(VerifierService):
    """A VerifierService whose target takes the profile's time."""

    def __init__(self, model: LanguageModel, compute: ComputeProfile, pacer: Pacer | None = None) -> None:
        super().__init__(model)
        self._worker = PacedTargetWorker(model, compute, pacer or Pacer())
