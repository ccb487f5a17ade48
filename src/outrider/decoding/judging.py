"""Verifications that run together: what the early exits and the target's rows say of all of them at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import accumulate, chain
from typing import NamedTuple

import torch

from outrider.core.ports import Array, ExitInfo, Reading
from outrider.decoding.acceptance import judge_decided
from outrider.decoding.config import DETERMINISTIC
from outrider.decoding.decisions import Draw, Draws, columns_of, decide, decide_exit, decide_exit_here
from outrider.decoding.jobs import ExitHint, Judgement, Verify
from outrider.decoding.schemes import judge, judge_exit, kept_run
from outrider.decoding.sequence import Asked

OnHint = Callable[[Verify, ExitHint], None]
Decided = Sequence[tuple[int, float]]
"""Of each row a choice, and by how much it was made."""


class _Heard(NamedTuple):
    """A chunk whose job wants hints: the job's place, and its rows' numbers, of which an exit has the `own`.

    `chooses`: its tokens are choices of the target, not tests of distributions.
    """

    place: int
    numbers: range
    own: range
    chooses: bool


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
        ends = list(accumulate(len(job.draft) + 1 for job in jobs))
        self._numbers = list(map(range, [0, *ends], ends))
        self._draws = _draws_of(jobs, vocab_size)
        self._heard = [
            self._hears(place) if exits is not None and jobs[place].hints else None
            for place, one in enumerate(asked)
            if one.chunk is not None
        ]
        """Of each chunk."""
        self._tests = any(one is not None and not one.chooses for one in self._heard)
        self._known = {
            one.place: decide(asked[one.place].known[None], self._draws, one.numbers[:1])[0][0]
            for one in self._heard
            if one is not None and one.chooses and len(one.own) < len(one.numbers)
        }
        """The choices of rows that are final before the exits' own."""
        self._known_rows = {
            one.place: asked[one.place].known.float().cpu()
            for one in self._heard
            if one is not None and not one.chooses and len(one.own) < len(one.numbers)
        }
        """The same rows where they are tested: a device is waited for here, before it has the batch to do."""

    def _hears(self, place: int) -> _Heard:
        chooses = self._jobs[place].scheme in DETERMINISTIC
        numbers = self._numbers[place]
        return _Heard(place, numbers, numbers[-self._asked[place].num_new :], chooses)

    @property
    def listens(self) -> bool:
        """Whether any of the jobs wants hints."""
        return self._exits is not None and any(job.hints for job in self._jobs)

    def read(self, index: int, rows: Sequence[tuple[int, Array]]) -> Reading | None:
        """An `ExitReader` for the chunks of `asked`, in their order. Choices cross to the host decided; where
        the rows are the host's already, nothing is left to be heard.
        """
        heard = [
            (one, _last(logits, len(one.own)))
            for number, logits in rows
            if (one := self._heard[number]) is not None
        ]
        if not heard:
            return None
        if self._tests or heard[0][1].device.type != "cpu":
            return self._reading(index, heard)
        self._hint_all(index, heard, *decide_exit_here(*self._asked_of_exit(heard)))
        return None

    def _reading(self, index: int, heard: Sequence[tuple[_Heard, Array]]) -> Reading:
        """First the choices of those that choose, then the distributions for those that test them."""
        chosen = [one for one in heard if one[0].chooses]
        tested = [one for one in heard if not one[0].chooses]
        table = [decide_exit(*self._asked_of_exit(chosen)).flatten()] if chosen else []
        rows = [logits.float().flatten() for _, logits in tested]
        return Reading(_joined([*table, *rows]), partial(self._hear, index, chosen, tested))

    def _asked_of_exit(
        self, heard: Sequence[tuple[_Heard, Array]]
    ) -> tuple[Array, Draws, Sequence[int], Array]:
        """What `decide_exit` takes."""
        assert self._exits is not None
        numbers: Sequence[int] = heard[0][0].own
        logits = heard[0][1]
        if len(heard) > 1:
            numbers = list(chain.from_iterable(one.own for one, _ in heard))
            logits = torch.cat([rows for _, rows in heard])
        return logits, self._draws, numbers, shortlist_on(self._exits, logits.device)

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
        numbers = _in_turn([self._numbers[place] for place in places])
        table = decide(_joined(rows), self._draws, numbers)
        parts: dict[int, Decided] = {}
        start = 0
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
        kept = kept_run(job.draft, [choice for choice, _ in decided], outcome.accepted)
        return Judgement(outcome.accepted, outcome.next_token, None, outcome.margin, kept)

    def _hear(
        self,
        index: int,
        chosen: Sequence[tuple[_Heard, Array]],
        tested: Sequence[tuple[_Heard, Array]],
        read: Array,
    ) -> None:
        assert self._exits is not None
        shortlist = self._exits.token_ids
        start = sum(2 * len(one.own) for one, _ in chosen)
        if chosen:
            self._hint_all(index, chosen, *columns_of(read[:start].view(-1, 2)))
        for one, _ in tested:
            job, end = self._jobs[one.place], start + len(one.own) * len(shortlist)
            rows = read[start:end].view(-1, len(shortlist))
            hint = judge_exit(job, self._known_rows.get(one.place), rows, shortlist, self._vocab_size)
            if hint is not None:
                self._on_hint(job, replace(hint, exit=index))
            start = end

    def _hint_all(
        self,
        index: int,
        heard: Sequence[tuple[_Heard, Array]],
        places: Sequence[int],
        sure: Sequence[float],
    ) -> None:
        """Tell what an exit expects of each job that chooses; its first row may be final already."""
        assert self._exits is not None
        token_at, start = shortlist_of(self._exits).__getitem__, 0
        for one, _ in heard:
            job, end = self._jobs[one.place], start + len(one.own)
            choices, confidences = tuple(map(token_at, places[start:end])), tuple(sure[start:end])
            if one.place in self._known:
                choices, confidences = (self._known[one.place], *choices), (1.0, *confidences)
            accepted = 0
            while accepted < len(job.draft) and job.draft[accepted] == choices[accepted]:
                accepted += 1
            chance = math.prod(confidences[: accepted + 1])
            self._on_hint(job, ExitHint(index, accepted, choices[accepted], chance, choices, confidences))
            start = end


def _draws_of(jobs: Sequence[Verify], vocab_size: int) -> Draws:
    """Of all rows in turn; where nothing is drawn, of none."""
    if all(job.sampling.temperature == 0.0 for job in jobs):
        return Draws((), vocab_size)
    draws = [
        Draw(job.sampling, len(job.tokens) + offset) for job in jobs for offset in range(len(job.draft) + 1)
    ]
    return Draws(draws, vocab_size)


def _joined(parts: Sequence[Array]) -> Array:
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))


def _in_turn(ranges: Sequence[range]) -> Sequence[int]:
    return ranges[0] if len(ranges) == 1 else list(chain.from_iterable(ranges))


def _last(rows: Array, count: int) -> Array:
    return rows if rows.shape[0] == count else rows[-count:]


@lru_cache(maxsize=8)
def shortlist_on(exits: ExitInfo, device: torch.device) -> Array:
    """A shortlist on a device: to bring it there is to wait for that."""
    return exits.token_ids.to(device)


@lru_cache(maxsize=8)
def shortlist_of(exits: ExitInfo) -> tuple[int, ...]:
    """The ids of a shortlist as the host's own numbers."""
    return tuple(exits.token_ids.tolist())
