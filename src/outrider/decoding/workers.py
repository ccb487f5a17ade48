"""Run the machines' jobs on models. A worker owns its caches; no cache state lives in the machines."""

from __future__ import annotations

from collections.abc import Collection

from outrider.core.ports import LanguageModel
from outrider.decoding.acceptance import greedy_token, judge_greedy
from outrider.decoding.jobs import (
    CloudJob,
    EdgeJob,
    Judgement,
    PrefillDraft,
    PrefillTarget,
    SessionKey,
)
from outrider.decoding.sequence import CachedSequence


class DraftWorker:
    """The edge's draft model with one sequence."""

    def __init__(self, model: LanguageModel) -> None:
        self._sequence = CachedSequence(model)

    def run(self, job: EdgeJob) -> int | None:
        """The drafted token, or None after a prefill. Raises FrameError or ConfigError for a bad prompt."""
        if isinstance(job, PrefillDraft):
            self._sequence.prefill(job.prompt, job.max_new_tokens)
            return None
        return greedy_token(self._sequence.logits(job.tokens, 0)[0])


class TargetWorker:
    """The cloud's target model with one sequence per session."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self._sequences: dict[SessionKey, CachedSequence] = {}

    def run(self, job: CloudJob) -> Judgement | None:
        """The judgement of a draft, or None after a prefill. Raises FrameError or ConfigError."""
        if isinstance(job, PrefillTarget):
            if job.key not in self._sequences:
                self._sequences[job.key] = CachedSequence(self._model)
            self._sequences[job.key].prefill(job.prompt, job.max_new_tokens)
            return None
        logits = self._sequences[job.key].logits(job.tokens + job.draft, len(job.draft))
        return judge_greedy(logits, job.draft)

    def keep_only(self, keys: Collection[SessionKey]) -> None:
        """Free the caches of all other sessions."""
        for key in [key for key in self._sequences if key not in keys]:
            del self._sequences[key]
