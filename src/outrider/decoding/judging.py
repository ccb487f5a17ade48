"""Verifications that run together: what the early exits and the target's rows say of all of them at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import torch

from outrider.core.ports import Array, ExitInfo, Reading
from outrider.decoding.acceptance import judge_decided
from outrider.decoding.config import DETERMINISTIC
from outrider.decoding.decisions import Draw, Draws, decide, decide_exit
from outrider.decoding.jobs import ExitHint, Judgement, Verify
from outrider.decoding.schemes import judge, judge_exit, kept_run
from outrider.decoding.sequence import Asked

OnHint = Callable[[Verify, ExitHint], None]
Decided = Sequence[Sequence[float]]


class JudgedBatch:
    """A batch's jobs, each with what is asked of its sequence. Rows are numbered through all of them."""

    def __init__(
        self,
        jobs: Sequence[Verify],
        asked: Sequence[Asked],
        exits: ExitInfo | None,
        vocab_size: int,
        on_hint: OnHint,
    ) -> None:
        self._jobs, self._asked, self._exits, self._on_hint = jobs, asked, exits, on_hint
        self._vocab_size = vocab_size
        sizes = [len(job.draft) + 1 for job in jobs]
        ends = [sum(sizes[: place + 1]) for place in range(len(jobs))]
        self._numbers = [range(end - size, end) for end, size in zip(ends, sizes, strict=True)]
        draws = [
            Draw(job.sampling, len(job.tokens) + offset)
            for job in jobs
            for offset in range(len(job.draft) + 1)
        ]
        self._draws = Draws(draws, vocab_size)
        self._of_chunk = [place for place, one in enumerate(asked) if one.chunk is not None]
        self._decided_known: dict[int, Array] = {}

    @property
    def listens(self) -> bool:
        """Whether any of the jobs wants hints."""
        return self._exits is not None and any(job.hints for job in self._jobs)

    def read(self, index: int, rows: Sequence[tuple[int, Array]]) -> Reading | None:
        """An `ExitReader` for the chunks of `asked`, in their order. Choices cross to the host decided."""
        heard = [(self._of_chunk[number], logits) for number, logits in rows]
        heard = [
            (place, logits[-self._asked[place].num_new :])
            for place, logits in heard
            if self._jobs[place].hints
        ]
        if not heard:
            return None
        places = [place for place, _ in heard]
        logits = _joined([logits for _, logits in heard])
        if all(self._jobs[place].scheme in DETERMINISTIC for place in places):
            return Reading(self._decided_exit(logits, places), partial(self._hear_decided, index, places))
        return Reading(logits, partial(self._hear, index, places))

    def judge(self, rows: Sequence[Array | Exception]) -> list[Judgement | Exception]:
        """Each job's judgement from its rows (len(draft) + 1, V), or why there is none."""
        chosen = [
            place
            for place, one in enumerate(rows)
            if not isinstance(one, Exception) and self._jobs[place].scheme in DETERMINISTIC
        ]
        decided = self._decide(chosen, [rows[place] for place in chosen])
        return [self._judged(place, one, decided.get(place)) for place, one in enumerate(rows)]

    def _decide(self, places: Sequence[int], rows: Sequence[Array]) -> dict[int, Decided]:
        """One copy to the host for all of them."""
        if not places:
            return {}
        numbers = [number for place in places for number in self._numbers[place]]
        table = decide(_joined(rows), self._draws, numbers).tolist()
        parts, start = {}, 0
        for place in places:
            size = len(self._numbers[place])
            parts[place] = table[start : start + size]
            start += size
        return parts

    def _judged(self, place: int, rows: Array | Exception, decided: Decided | None) -> Judgement | Exception:
        job = self._jobs[place]
        if isinstance(rows, Exception):
            return rows
        try:
            if decided is None:
                return judge(job, rows)
            outcome = judge_decided(decided, job.draft)
        except Exception as error:
            return error
        kept = kept_run(job.draft, [int(choice) for choice, _ in decided], outcome.accepted)
        return Judgement(outcome.accepted, outcome.next_token, None, outcome.margin, kept)

    def _decided_exit(self, logits: Array, places: Sequence[int]) -> Array:
        """Of every row of these jobs, also those that are final already: the choice and how sure it is."""
        assert self._exits is not None
        counts = [self._asked[place].num_new for place in places]
        numbers = [
            number
            for place, count in zip(places, counts, strict=True)
            for number in self._numbers[place][-count:]
        ]
        table = decide_exit(logits, self._draws, numbers, self._exits.token_ids)
        if all(self._asked[place].known is None for place in places):
            return table
        parts = zip(places, table.split(counts), strict=True)
        return torch.cat([part for place, own in parts for part in (*self._known(place), own)])

    def _known(self, place: int) -> list[Array]:
        """What the row before an exit's own decides where it is final."""
        known = self._asked[place].known
        if known is not None and place not in self._decided_known:
            decided = decide(known[None], self._draws, self._numbers[place][:1]).float()
            decided[:, 1] = 1.0
            self._decided_known[place] = decided
        return [] if known is None else [self._decided_known[place]]

    def _hear_decided(self, index: int, places: Sequence[int], table: Array) -> None:
        decided, start = table.tolist(), 0
        for place in places:
            size = len(self._numbers[place])
            self._hint(index, place, decided[start : start + size])
            start += size

    def _hear(self, index: int, places: Sequence[int], logits: Array) -> None:
        """Where some schemes need the distributions themselves."""
        for place, rows in zip(
            places, logits.split([self._asked[place].num_new for place in places]), strict=True
        ):
            job = self._jobs[place]
            if job.scheme in DETERMINISTIC:
                self._hear_decided(index, [place], self._decided_exit(rows, [place]))
                continue
            assert self._exits is not None
            hint = judge_exit(job, self._asked[place].known, rows, self._exits.token_ids, self._vocab_size)
            if hint is not None:
                self._on_hint(job, replace(hint, exit=index))

    def _hint(self, index: int, place: int, decided: Decided) -> None:
        job = self._jobs[place]
        choices = tuple(int(choice) for choice, _ in decided)
        confidences = tuple(confidence for _, confidence in decided)
        accepted = 0
        while accepted < len(job.draft) and job.draft[accepted] == choices[accepted]:
            accepted += 1
        sure = math.prod(confidences[: accepted + 1])
        self._on_hint(job, ExitHint(index, accepted, choices[accepted], sure, choices, confidences))


def _joined(parts: Sequence[Array]) -> Array:
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))
