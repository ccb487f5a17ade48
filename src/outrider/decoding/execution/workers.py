# SPDX-License-Identifier: Apache-2.0
"""Workers run the machines' jobs on models. A worker owns its caches; the machines hold no cache state."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from outrider.core.errors import OutOfMemoryError, RoomError
from outrider.core.ports import Array, Chunk, LanguageModel, ModelSession, Pause
from outrider.core.values import Successors
from outrider.decoding.execution.batch_verification import OnHint, VerificationBatch
from outrider.decoding.execution.cached_sequence import CachedSequence, RowRequest, rows_after
from outrider.decoding.jobs import (
    Aborted,
    CloudResult,
    EdgeJob,
    EdgeResult,
    Interrupted,
    Judgement,
    NoRoom,
    PrefillDraft,
    PrefillTarget,
    SessionKey,
    TargetJob,
    Unfinished,
    Verify,
)
from outrider.decoding.protocol.prefix_digest import Tokens

_log = logging.getLogger(__name__)


class DraftWorker:
    """The edge's draft model, with one sequence per branch if the model can share prompts between them."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self.forget()

    def forget(self) -> None:
        """Drop all cached text."""
        self._sequences = [CachedSequence(self._model)]
        self._prefill: PrefillDraft | None = None
        self._num_prefilled = 0
        self._in_turn = True

    def run(self, job: EdgeJob, pause: Pause | None = None) -> EdgeResult:
        """Run a job. `pause` is called now and then; an exception that it raises aborts the job.

        Raises FrameError or ConfigError for a prompt that cannot be used.
        """
        if isinstance(job, PrefillDraft):
            self._leave_branches()
            self._prefill, self._num_prefilled, self._in_turn = job, 0, not self._model.shares_prompts
            try:
                first = self._sequence(0, pause)
            except RoomError as error:
                _log.warning("the draft model drafts nothing of this text: %s", error)
                return NoRoom()
            return first.expected(job.num_expected) if job.num_expected else Successors()
        return tuple(
            job.scheme.propose(row, job.sampling, len(prefix), job.num_choices)
            for prefix, row in zip(job.prefixes, self._rows(job.prefixes, pause), strict=True)
        )

    def _rows(self, prefixes: Sequence[tuple[int, ...]], pause: Pause | None) -> list[Array]:
        """Return the logits after each prefix, in one forward pass as in FSD's appendix C.

        One pass per prefix if the model does not share prompts, or once memory for the branches has run
        out.
        """
        if not self._in_turn:
            try:
                return rows_after(self._model, self._nearest(prefixes, pause), prefixes, pause)
            except OutOfMemoryError as error:
                _log.warning("this text's branches are drafted one after the other: %s", error)
                self._in_turn = True
                self._leave_branches()
        first = self._sequence(0, pause)
        return [row for prefix in prefixes for row in rows_after(self._model, [first], [prefix], pause)]

    def _nearest(self, prefixes: Sequence[tuple[int, ...]], pause: Pause | None) -> list[CachedSequence]:
        """Return for each prefix its own sequence, the one that shares most with it."""
        free = [self._sequence(index, pause) for index in range(len(prefixes))]
        free += self._sequences[len(prefixes) : self._num_prefilled]
        chosen = []
        for prefix in prefixes:
            chosen.append(max(free, key=lambda sequence: sequence.shared(prefix)))
            free.remove(chosen[-1])
        return chosen

    def _leave_branches(self) -> None:
        """Drop all sequences but the first."""
        del self._sequences[1:]
        self._num_prefilled = min(self._num_prefilled, 1)

    def _sequence(self, index: int, pause: Pause | None) -> CachedSequence:
        """Return a sequence with the prompt cached."""
        assert self._prefill is not None
        while self._num_prefilled <= index:
            if self._num_prefilled == len(self._sequences):
                self._sequences.append(CachedSequence(self._model))
            sequence = self._sequences[self._num_prefilled]
            for _ in sequence.prefill_parts(self._prefill.prompt, self._prefill.max_new_tokens):
                if pause is not None:
                    pause()
            self._num_prefilled += 1
        return self._sequences[index]


@dataclass
class _Prefill:
    """A prefill in progress. `job` is the newest one: the text after the prompt may change meanwhile."""

    job: PrefillTarget
    parts: Iterator[None]


class Anchor(NamedTuple):
    """The target's newest logits `row` (V,) for a text: those after its first `tokens`."""

    epoch: int
    tokens: Tokens
    row: Array


class TargetWorker:
    """The cloud's target model with one sequence per session."""

    def __init__(self, model: LanguageModel, keeps_anchors: bool = False) -> None:
        """`keeps_anchors`: whether `anchor` will be used."""
        self._model, self._keeps_anchors = model, keeps_anchors
        self._anchors: dict[SessionKey, Anchor] = {}
        self._sequences: dict[SessionKey, CachedSequence] = {}
        self._prefills: dict[SessionKey, _Prefill] = {}
        self._prompted: dict[SessionKey, PrefillTarget] = {}
        """By session the job, without its text, whose prompt is completely cached."""

    def run(self, jobs: Sequence[TargetJob], on_hint: OnHint) -> list[CloudResult]:
        """Return each job's result: a part of each prefill, and all verifications in one forward pass.

        One job's failure is its own result. An exception from `on_hint` ends the forward pass and
        propagates unchanged; all sessions are then as they were.
        """
        verifications = [job for job in jobs if isinstance(job, Verify)]
        judgements = iter(self._verify(verifications, on_hint) if verifications else ())
        return [next(judgements) if isinstance(job, Verify) else self._prefill(job) for job in jobs]

    def keep_only(self, keys: Collection[SessionKey]) -> None:
        """Free the caches of all other sessions."""
        for key in [key for key in self._sequences if key not in keys]:
            del self._sequences[key]
            self._prefills.pop(key, None)
            self._prompted.pop(key, None)
            self._anchors.pop(key, None)

    def anchor(self, key: SessionKey) -> Anchor | None:
        """Return where a draft head may start; None before the session's first prompt is cached."""
        return self._anchors.get(key)

    def _prefill(self, job: PrefillTarget) -> CloudResult:
        """Run the next part of a prompt and its text. A job with another prompt starts over."""
        prompt, running = replace(job, tokens=()), self._prefills.pop(job.key, None)
        try:
            if running is None or replace(running.job, tokens=()) != prompt:
                running = self._begin(job)
            running.job = job
            next(running.parts)
        except StopIteration:
            self._prompted[job.key] = prompt
            self._note_anchor(job, *self._sequences[job.key].end)
            return None
        except Exception as error:
            return error
        self._prefills[job.key] = running
        return Unfinished()

    def _begin(self, job: PrefillTarget) -> _Prefill:
        if job.key not in self._sequences:
            self._sequences[job.key] = CachedSequence(self._model)
        prefill = _Prefill(job, iter(()))
        prefill.parts = self._parts(prefill)
        return prefill

    def _parts(self, prefill: _Prefill) -> Iterator[None]:
        """Cache the prompt, then the text but for its last token: the next verification runs that one."""
        sequence, prompt = self._sequences[prefill.job.key], replace(prefill.job, tokens=())
        if self._prompted.pop(prompt.key, None) != prompt:
            yield from sequence.prefill_parts(prompt.prompt, prompt.max_new_tokens)
        while sequence.shared(prefill.job.tokens[:-1]) < len(prefill.job.tokens) - 1:
            yield
            sequence.catch_up(prefill.job.tokens[:-1])

    def _verify(self, jobs: Sequence[Verify], on_hint: OnHint) -> list[Judgement | Exception]:
        """Return each job's judgement, each on its own sequence, all in one forward pass."""
        sequences = [self._sequences[job.key] for job in jobs]
        requests = [
            sequence.request(job.tokens + job.draft, len(job.draft))
            for job, sequence in zip(jobs, sequences, strict=True)
        ]
        try:
            batch = self._batch(jobs, requests, on_hint)
        except Exception as error:
            return [error] * len(jobs)
        new = iter(self._forward(jobs, requests, batch, on_hint))
        rows: list[Array | Exception] = []
        for sequence, request in zip(sequences, requests, strict=True):
            own = None if request.chunk is None else next(new)
            rows.append(own if isinstance(own, Exception) else sequence.resolve(request, own))
        try:
            judged = batch.judge(rows)
        except Exception as error:
            return [error] * len(jobs)
        for job, own, judgement in zip(jobs, rows, judged, strict=True):
            if isinstance(judgement, Judgement) and not isinstance(own, Exception):
                accepted = judgement.accepted
                self._note_anchor(job, job.tokens + job.draft[:accepted], own[accepted])
        return judged

    def _note_anchor(self, job: TargetJob, tokens: Tokens, row: Array) -> None:
        """Keep a copy of the row after `tokens`, so that the other rows can be freed."""
        if self._keeps_anchors and row is not None:
            self._anchors[job.key] = Anchor(job.epoch, tokens, row.clone())

    def _batch(
        self, jobs: Sequence[Verify], requests: Sequence[RowRequest], on_hint: OnHint
    ) -> VerificationBatch:
        device = self._sequences[jobs[0].key].device
        return VerificationBatch(jobs, requests, self._model.exits, self._model.vocab_size, on_hint, device)

    def _forward(
        self,
        jobs: Sequence[Verify],
        requests: Sequence[RowRequest],
        batch: VerificationBatch,
        on_hint: OnHint,
    ) -> list[Array | Exception]:
        """Return the rows of each chunk.

        If the batch fails, run each chunk alone, so that each fails only by its own errors.
        """
        chunks = [request.chunk for request in requests if request.chunk is not None]
        try:
            return self._run(chunks, batch) if chunks else []
        except Aborted as aborted:
            return [aborted] * len(chunks)
        except Interrupted as interrupted:
            raise interrupted.error from None
        except Exception:
            return self._each_alone(jobs, requests, on_hint)

    def _each_alone(
        self, jobs: Sequence[Verify], requests: Sequence[RowRequest], on_hint: OnHint
    ) -> list[Array | Exception]:
        rows: list[Array | Exception] = []
        done: list[tuple[ModelSession, int]] = []
        try:
            for job, request in zip(jobs, requests, strict=True):
                if request.chunk is not None:
                    done.append((request.chunk.session, request.chunk.session.length))
                    rows.append(self._alone(request.chunk, self._batch([job], [request], on_hint)))
        except BaseException:
            for session, length in done:
                session.truncate(length)
            raise
        return rows

    def _alone(self, chunk: Chunk, batch: VerificationBatch) -> Array | Exception:
        try:
            return self._run([chunk], batch)[0]
        except Interrupted as interrupted:
            raise interrupted.error from None
        except Exception as error:
            return error

    def _run(self, chunks: Sequence[Chunk], batch: VerificationBatch) -> list[Array]:
        return self._model.forward_together(chunks, batch.read if batch.reads_exits else None)
