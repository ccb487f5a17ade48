"""Verifications that run together: what the early exits and the target's rows say of all of them at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial

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
        self._chosen = frozenset(place for place, job in enumerate(jobs) if job.scheme in DETERMINISTIC)
        """Whose tokens are choices of the target, not tests of distributions."""
        self._shortlist: Array = None
        self._decided_known: dict[int, Array] = {}

    @property
    def listens(self) -> bool:
        """Whether any of the jobs wants hints."""
        return self._exits is not None and any(job.hints for job in self._jobs)

    def read(self, index: int, rows: Sequence[tuple[int, Array]]) -> Reading | None:
        """An `ExitReader` for the chunks of `asked`, in their order. Choices cross to the host decided."""
        heard = [
            (place, _last(logits, self._asked[place].num_new))
            for place, logits in ((self._of_chunk[number], logits) for number, logits in rows)
            if self._jobs[place].hints
        ]
        if not heard:
            return None
        chosen = [one for one in heard if one[0] in self._chosen]
        places = [place for place, _ in chosen]
        if len(chosen) == len(heard):
            return Reading(self._decided_exit(chosen), partial(self._hear_choices, index, places))
        tested = [one for one in heard if one[0] not in self._chosen]
        parts = [self._decided_exit(chosen).flatten()] if chosen else []
        parts += [logits.float().flatten() for _, logits in tested]
        return Reading(_joined(parts), partial(self._hear, index, places, [place for place, _ in tested]))

    def judge(self, rows: Sequence[Array | Exception]) -> list[Judgement | Exception]:
        """Each job's judgement from its rows (len(draft) + 1, V), or why there is none."""
        chosen = [
            place
            for place, one in enumerate(rows)
            if not isinstance(one, Exception) and place in self._chosen
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

    def _decided_exit(self, heard: Sequence[tuple[int, Array]]) -> Array:
        """Of every row of these jobs, also those that are final already: the choice and how sure it is."""
        assert self._exits is not None
        numbers = [number for place, rows in heard for number in self._numbers[place][-rows.shape[0] :]]
        logits = _joined([rows for _, rows in heard])
        if self._shortlist is None:
            self._shortlist = self._exits.token_ids.to(logits.device)
        table = decide_exit(logits, self._draws, numbers, self._shortlist)
        if all(self._asked[place].known is None for place, _ in heard):
            return table
        parts = zip(heard, table.split([rows.shape[0] for _, rows in heard]), strict=True)
        return torch.cat([part for (place, _), own in parts for part in (*self._known(place), own)])

    def _known(self, place: int) -> list[Array]:
        """What the row before an exit's own decides where it is final."""
        known = self._asked[place].known
        if known is not None and place not in self._decided_known:
            decided = decide(known[None], self._draws, self._numbers[place][:1]).float()
            decided[:, 1] = 1.0
            self._decided_known[place] = decided
        return [] if known is None else [self._decided_known[place]]

    def _hear_choices(self, index: int, places: Sequence[int], table: Array) -> None:
        assert self._exits is not None
        rows, shortlist, start = table.tolist(), shortlist_of(self._exits), 0
        for place in places:
            end = start + len(self._numbers[place])
            first = start + (self._asked[place].known is not None)
            choices = [int(choice) for choice, _ in rows[start:end]]
            choices[first - start :] = [shortlist[choice] for choice in choices[first - start :]]
            self._hint(index, self._jobs[place], tuple(choices), tuple(sure for _, sure in rows[start:end]))
            start = end

    def _hear(self, index: int, chosen: Sequence[int], tested: Sequence[int], read: Array) -> None:
        """First the choices of those that choose, then the distributions for those that test them."""
        assert self._exits is not None
        shortlist = self._exits.token_ids
        start = sum(2 * len(self._numbers[place]) for place in chosen)
        self._hear_choices(index, chosen, read[:start].view(-1, 2))
        for place in tested:
            end = start + self._asked[place].num_new * len(shortlist)
            rows = read[start:end].view(-1, len(shortlist))
            hint = judge_exit(self._jobs[place], self._asked[place].known, rows, shortlist, self._vocab_size)
            if hint is not None:
                self._on_hint(self._jobs[place], replace(hint, exit=index))
            start = end

    def _hint(
        self, index: int, job: Verify, choices: tuple[int, ...], confidences: tuple[float, ...]
    ) -> None:
        accepted = 0
        while accepted < len(job.draft) and job.draft[accepted] == choices[accepted]:
            accepted += 1
        sure = math.prod(confidences[: accepted + 1])
        self._on_hint(job, ExitHint(index, accepted, choices[accepted], sure, choices, confidences))


def _joined(parts: Sequence[Array]) -> Array:
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))


def _last(rows: Array, count: int) -> Array:
    return rows if rows.shape[0] == count else rows[-count:]


@lru_cache(maxsize=8)
def shortlist_of(exits: ExitInfo) -> tuple[int, ...]:
    """The ids of a shortlist as the host's own numbers."""
    return tuple(exits.token_ids.tolist())
