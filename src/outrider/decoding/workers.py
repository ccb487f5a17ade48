"""Run the machines' jobs on models. A worker owns its caches; no cache state lives in the machines."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from outrider.core.ports import Array, LanguageModel
from outrider.core.values import Successors
from outrider.decoding.jobs import (
    CloudJob,
    EdgeJob,
    EdgeResult,
    ExitHint,
    Judgement,
    PrefillDraft,
    PrefillTarget,
    SessionKey,
    Verify,
)
from outrider.decoding.schemes import draft_choices, judge, judge_exit
from outrider.decoding.sequence import CachedSequence

OnHint = Callable[[ExitHint], None]


class DraftWorker:
    """The edge's draft model with one sequence."""

    def __init__(self, model: LanguageModel) -> None:
        self._sequence = CachedSequence(model)

    def run(self, job: EdgeJob) -> EdgeResult:
        """Raises FrameError or ConfigError for a prompt that cannot be used."""
        if isinstance(job, PrefillDraft):
            self._sequence.prefill(job.prompt, job.max_new_tokens)
            return self._sequence.expected(job.num_expected) if job.num_expected else Successors()
        return tuple(
            draft_choices(
                self._sequence.logits(prefix, 0)[0], job.scheme, job.sampling, len(prefix), job.num_choices
            )
            for prefix in job.prefixes
        )


class TargetWorker:
    """The cloud's target model with one sequence per session."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self._sequences: dict[SessionKey, CachedSequence] = {}

    def run(self, job: CloudJob, on_hint: OnHint) -> Judgement | None:
        """The judgement of a draft, or None after a prefill. Raises FrameError or ConfigError."""
        if isinstance(job, PrefillTarget):
            if job.key not in self._sequences:
                self._sequences[job.key] = CachedSequence(self._model)
            self._sequences[job.key].prefill(job.prompt, job.max_new_tokens)
            return None
        sequence = self._sequences[job.key]
        logits = sequence.logits(job.tokens + job.draft, len(job.draft), self._exit_reader(job, on_hint))
        return judge(job, logits)

    def keep_only(self, keys: Collection[SessionKey]) -> None:
        """Free the caches of all other sessions."""
        for key in [key for key in self._sequences if key not in keys]:
            del self._sequences[key]

    def _exit_reader(self, job: Verify, on_hint: OnHint) -> Callable[[int, Array, Array], None] | None:
        exits = self._model.exits
        if exits is None or not job.hints:
            return None

        def read(index: int, known: Array, exit_logits: Array) -> None:
            hint = judge_exit(job, known, exit_logits, exits.token_ids, self._model.vocab_size)
            if hint is not None:
                on_hint(replace(hint, exit=index))

        return read
