# SPDX-License-Identifier: Apache-2.0
"""Runs the cloud's own draft model, beside the target: one sequence for each session."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from outrider.core.ports import LanguageModel, Pause
from outrider.decoding.acceptance.schemes import Choices
from outrider.decoding.execution.cached_sequence import CachedSequence, rows_after
from outrider.decoding.jobs import Aborted, CloudDraft, SessionKey


class CloudDraftWorker:
    """Drafts for many texts, and at many places of each, all in one forward."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self._sequences: dict[SessionKey, tuple[int, list[CachedSequence]]] = {}
        """By session the epoch whose prompt the first sequence holds, and those beside it."""

    def run(self, jobs: Sequence[CloudDraft], pause: Pause | None = None) -> list[Choices | Exception]:
        """What comes of each job. One that fails fails alone. In a `pause` Aborted may give all up."""
        try:
            return list(self._together(jobs, pause))
        except Aborted:
            raise
        except Exception as error:
            return [error] if len(jobs) == 1 else [self.run([job], pause)[0] for job in jobs]

    def keep_only(self, keys: Collection[SessionKey]) -> None:
        """Free the caches of all other sessions."""
        for key in [key for key in self._sequences if key not in keys]:
            del self._sequences[key]

    def _together(self, jobs: Sequence[CloudDraft], pause: Pause | None) -> list[Choices]:
        free: dict[SessionKey, list[CachedSequence]] = {}
        sequences = [self._taken(job, free) for job in jobs]
        rows = rows_after(self._model, sequences, [job.prefix for job in jobs], pause)
        return [
            job.scheme.propose(row, job.sampling, len(job.prefix), job.num_choices)
            for job, row in zip(jobs, rows, strict=True)
        ]

    def _taken(self, job: CloudDraft, free: dict[SessionKey, list[CachedSequence]]) -> CachedSequence:
        """The sequence that has most of a prefix, of those of its session that no job of the batch has taken
        from `free`; where none is left, a further one that goes on from what another has.
        """
        of_session = self._of_session(job)
        left = free.setdefault(job.key, list(of_session))
        if left:
            best = max(left, key=lambda one: one.shared(job.prefix))
            left.remove(best)
            return best
        further = CachedSequence(self._model)
        if self._model.shares_prompts:
            further.follow(max(of_session, key=lambda one: one.shared(job.prefix)), job.prefix)
        else:
            further.prefill(job.prompt, job.max_new_tokens)
        of_session.append(further)
        return further

    def _of_session(self, job: CloudDraft) -> list[CachedSequence]:
        """With the prompt in them; the first one at least."""
        epoch, sequences = self._sequences.pop(job.key, (None, None))
        if epoch != job.epoch or sequences is None:
            sequences = (sequences or [CachedSequence(self._model)])[:1]
            sequences[0].prefill(job.prompt, job.max_new_tokens)
        self._sequences[job.key] = job.epoch, sequences
        return sequences
