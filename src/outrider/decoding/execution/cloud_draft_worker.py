# SPDX-License-Identifier: Apache-2.0
"""Runs the cloud's own draft model, beside the target: one sequence for each session."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from outrider.core.ports import Array, LanguageModel
from outrider.decoding.acceptance.schemes import Choices
from outrider.decoding.execution.cached_sequence import CachedSequence
from outrider.decoding.jobs import CloudDraft, SessionKey


class CloudDraftWorker:
    """Drafts for many texts, all in one forward."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self._sequences: dict[SessionKey, tuple[int, CachedSequence]] = {}
        """By session the epoch whose prompt a sequence holds."""

    def run(self, jobs: Sequence[CloudDraft]) -> list[Choices | Exception]:
        """What comes of each job. One that fails fails alone."""
        try:
            return list(self._together(jobs))
        except Exception as error:
            return [error] if len(jobs) == 1 else [self.run([job])[0] for job in jobs]

    def keep_only(self, keys: Collection[SessionKey]) -> None:
        """Free the caches of all other sessions."""
        for key in [key for key in self._sequences if key not in keys]:
            del self._sequences[key]

    def _together(self, jobs: Sequence[CloudDraft]) -> list[Choices]:
        sequences = [self._sequence(job) for job in jobs]
        asked = [one.ask(job.prefix, 0) for one, job in zip(sequences, jobs, strict=True)]
        chunks = [one.chunk for one in asked if one.chunk is not None]
        new = iter(self._model.forward_together(chunks) if chunks else [])
        rows: list[Array] = [
            sequence.answer(one, None if one.chunk is None else next(new))[0]
            for sequence, one in zip(sequences, asked, strict=True)
        ]
        return [
            job.scheme.propose(row, job.sampling, len(job.prefix), job.num_choices)
            for job, row in zip(jobs, rows, strict=True)
        ]

    def _sequence(self, job: CloudDraft) -> CachedSequence:
        """With the prompt in it."""
        epoch, sequence = self._sequences.pop(job.key, (None, None))
        sequence = sequence or CachedSequence(self._model)
        if epoch != job.epoch:
            sequence.prefill(job.prompt, job.max_new_tokens)
        self._sequences[job.key] = job.epoch, sequence
        return sequence
