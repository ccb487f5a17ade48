# SPDX-License-Identifier: Apache-2.0
"""Run the machines' jobs on models. A worker owns its caches; no cache state lives in the machines."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from outrider.core.errors import OutOfMemoryError, RoomError
from outrider.core.ports import Array, Chunk, LanguageModel, ModelSession, Pause
from outrider.core.values import Successors
from outrider.decoding.execution.batch_verification import OnHint, VerificationBatch
from outrider.decoding.execution.cached_sequence import Asked, CachedSequence, rows_after
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
    """The edge's draft model: a sequence for each branch drafted at once, if the model gains by it."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self.forget()

    def forget(self) -> None:
        """Nothing of any text is in the caches."""
        self._sequences = [CachedSequence(self._model)]
        self._prefill: PrefillDraft | None = None
        self._num_prefilled = 0
        self._in_turn = True

    def run(self, job: EdgeJob, pause: Pause | None = None) -> EdgeResult:
        """With a `pause` now and then, in which it may be broken off by what that raises.

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
        """What follows each prefix: in one forward, as FSD's appendix C suggests. In turn where
        the model gains nothing by it, and for the rest of a text for whose branches there is no room.
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
        """For each prefix a sequence of its own, the one that has most of it."""
        free = [self._sequence(index, pause) for index in range(len(prefixes))]
        free += self._sequences[len(prefixes) : self._num_prefilled]
        chosen = []
        for prefix in prefixes:
            chosen.append(max(free, key=lambda sequence: sequence.shared(prefix)))
            free.remove(chosen[-1])
        return chosen

    def _leave_branches(self) -> None:
        """All sequences but the first."""
        del self._sequences[1:]
        self._num_prefilled = min(self._num_prefilled, 1)

    def _sequence(self, index: int, pause: Pause | None) -> CachedSequence:
        """With the prompt in it."""
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
    """A prompt under way. The text after it may meanwhile have become another: `job` is the newest word."""

    job: PrefillTarget
    parts: Iterator[None]


class Anchor(NamedTuple):
    """The last logits `row` (V,) by which the target wrote a text: those after its first `tokens`."""

    epoch: int
    tokens: Tokens
    row: Array


class TargetWorker:
    """The cloud's target model with one sequence per session."""

    def __init__(self, model: LanguageModel, keeps_anchors: bool = False) -> None:
        """`keeps_anchors`: whether `anchor` is wanted."""
        self._model, self._keeps_anchors = model, keeps_anchors
        self._anchors: dict[SessionKey, Anchor] = {}
        self._sequences: dict[SessionKey, CachedSequence] = {}
        self._prefills: dict[SessionKey, _Prefill] = {}
        self._prompted: dict[SessionKey, PrefillTarget] = {}
        """Of which prompt a sequence has all: the job, without the text after it."""

    def run(self, jobs: Sequence[TargetJob], on_hint: OnHint) -> list[CloudResult]:
        """What comes of each job: a part of each prefill, and all verifications in one forward.

        One job's failure is its own result and no other's. What `on_hint` raises ends the forward and comes
        out as it is; all sessions are then as they were.
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
        """Return where a draft head may go on; None before a session's first prompt."""
        return self._anchors.get(key)

    def _prefill(self, job: PrefillTarget) -> CloudResult:
        """The next part of a prompt and of the text after it; of the first one where another prompt's was
        under way.
        """
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
        """The text's last token is left to the forward that asks what comes after it."""
        sequence, prompt = self._sequences[prefill.job.key], replace(prefill.job, tokens=())
        if self._prompted.pop(prompt.key, None) != prompt:
            yield from sequence.prefill_parts(prompt.prompt, prompt.max_new_tokens)
        while sequence.shared(prefill.job.tokens[:-1]) < len(prefill.job.tokens) - 1:
            yield
            sequence.catch_up(prefill.job.tokens[:-1])

    def _verify(self, jobs: Sequence[Verify], on_hint: OnHint) -> list[Judgement | Exception]:
        """Each job's judgement on a sequence of its own, all in one forward."""
        sequences = [self._sequences[job.key] for job in jobs]
        asked = [
            sequence.ask(job.tokens + job.draft, len(job.draft))
            for job, sequence in zip(jobs, sequences, strict=True)
        ]
        try:
            batch = self._batch(jobs, asked, on_hint)
        except Exception as error:
            return [error] * len(jobs)
        new = iter(self._forward(jobs, asked, batch, on_hint))
        rows: list[Array | Exception] = []
        for sequence, one in zip(sequences, asked, strict=True):
            own = None if one.chunk is None else next(new)
            rows.append(own if isinstance(own, Exception) else sequence.answer(one, own))
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
        """Keep the row after some tokens of the text; the rows beside it need not be kept."""
        if self._keeps_anchors and row is not None:
            self._anchors[job.key] = Anchor(job.epoch, tokens, row.clone())

    def _batch(self, jobs: Sequence[Verify], asked: Sequence[Asked], on_hint: OnHint) -> VerificationBatch:
        device = self._sequences[jobs[0].key].device
        return VerificationBatch(jobs, asked, self._model.exits, self._model.vocab_size, on_hint, device)

    def _forward(
        self, jobs: Sequence[Verify], asked: Sequence[Asked], batch: VerificationBatch, on_hint: OnHint
    ) -> list[Array | Exception]:
        """The rows of each chunk. Where the batch fails, each runs alone, so that one may fail alone."""
        chunks = [one.chunk for one in asked if one.chunk is not None]
        try:
            return self._run(chunks, batch) if chunks else []
        except Aborted as aborted:
            return [aborted] * len(chunks)
        except Interrupted as interrupted:
            raise interrupted.error from None
        except Exception:
            return self._each_alone(jobs, asked, on_hint)

    def _each_alone(
        self, jobs: Sequence[Verify], asked: Sequence[Asked], on_hint: OnHint
    ) -> list[Array | Exception]:
        rows: list[Array | Exception] = []
        done: list[tuple[ModelSession, int]] = []
        try:
            for job, one in zip(jobs, asked, strict=True):
                if one.chunk is not None:
                    done.append((one.chunk.session, one.chunk.session.length))
                    rows.append(self._alone(one.chunk, self._batch([job], [one], on_hint)))
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
        return self._model.forward_together(chunks, batch.read if batch.listens else None)
