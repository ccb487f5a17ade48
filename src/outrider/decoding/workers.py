"""Run the machines' jobs on models. A worker owns its caches; no cache state lives in the machines."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

from outrider.core.ports import Array, Chunk, LanguageModel
from outrider.core.values import Successors
from outrider.decoding.jobs import (
    CloudJob,
    CloudResult,
    EdgeJob,
    EdgeResult,
    ExitHint,
    PrefillDraft,
    PrefillTarget,
    SessionKey,
    Unfinished,
    Verify,
)
from outrider.decoding.schemes import draft_choices, judge, judge_exit
from outrider.decoding.sequence import CachedSequence

OnHint = Callable[[Verify, ExitHint], None]


class DraftWorker:
    """The edge's draft model with one sequence."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self.forget()

    def forget(self) -> None:
        """Nothing of any text is in the cache."""
        self._sequence = CachedSequence(self._model)

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
        self._prefills: dict[SessionKey, tuple[PrefillTarget, Iterator[None]]] = {}

    def run(self, jobs: Sequence[CloudJob], on_hint: OnHint) -> list[CloudResult]:
        """What comes of each job: a part of each prefill, and all verifications in one forward.

        One job's failure is its own result and no other's.
        """
        verifications = [job for job in jobs if isinstance(job, Verify)]
        judgements = iter(self._verify(verifications, on_hint))
        return [next(judgements) if isinstance(job, Verify) else self._prefill(job) for job in jobs]

    def keep_only(self, keys: Collection[SessionKey]) -> None:
        """Free the caches of all other sessions."""
        for key in [key for key in self._sequences if key not in keys]:
            del self._sequences[key]
            self._prefills.pop(key, None)

    def _prefill(self, job: PrefillTarget) -> CloudResult:
        """The next part of a prompt; of the first one where another job's was under way."""
        running, parts = self._prefills.pop(job.key, (None, iter(())))
        try:
            if running != job:
                if job.key not in self._sequences:
                    self._sequences[job.key] = CachedSequence(self._model)
                parts = self._sequences[job.key].prefill_parts(job.prompt, job.max_new_tokens)
            next(parts)
        except StopIteration:
            return None
        except Exception as error:
            return error
        self._prefills[job.key] = job, parts
        return Unfinished()

    def _verify(self, jobs: Sequence[Verify], on_hint: OnHint) -> Iterator[CloudResult]:
        asked = [
            self._sequences[job.key].ask(
                job.tokens + job.draft, len(job.draft), self._exit_reader(job, on_hint)
            )
            for job in jobs
        ]
        rows = iter(self._forward([one.chunk for one in asked if one.chunk is not None]))
        for job, one in zip(jobs, asked, strict=True):
            new = None if one.chunk is None else next(rows)
            try:
                if isinstance(new, Exception):
                    raise new
                yield judge(job, self._sequences[job.key].answer(one, new))
            except Exception as error:
                yield error

    def _forward(self, chunks: Sequence[Chunk]) -> list[Array | Exception]:
        """The rows of each chunk. Where the batch fails, each runs alone, so that one may fail alone."""
        try:
            return self._model.forward_together(chunks) if chunks else []
        except Exception:
            return [_alone(chunk) for chunk in chunks]

    def _exit_reader(self, job: Verify, on_hint: OnHint) -> Callable[[int, Array, Array], None] | None:
        exits = self._model.exits
        if exits is None or not job.hints:
            return None

        def read(index: int, known: Array, exit_logits: Array) -> None:
            hint = judge_exit(job, known, exit_logits, exits.token_ids, self._model.vocab_size)
            if hint is not None:
                on_hint(job, replace(hint, exit=index))

        return read


def _alone(chunk: Chunk) -> Array | Exception:
    try:
        return chunk.session.forward(chunk.token_ids, chunk.on_exit)
    except Exception as error:
        return error
