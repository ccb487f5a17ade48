# SPDX-License-Identifier: Apache-2.0
"""Verifications that run as one batch: judges them together, from exits and from the target's logits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import islice

import torch

from outrider.core.ports import Array, ExitInfo, Reading
from outrider.decoding.acceptance.confidence import CONFIDENCE_DIGITS, token_confidence
from outrider.decoding.acceptance.coupled import (
    Draw,
    Draws,
    columns_of,
    decide,
    decide_exit,
    decide_exit_here,
    draws_on,
    joined,
)
from outrider.decoding.acceptance.rejection import Outcome, judge_decided
from outrider.decoding.acceptance.schemes import Residue
from outrider.decoding.drafting.retrieval.reuse import SHORTEST, longest_run
from outrider.decoding.execution.cached_sequence import RowRequest
from outrider.decoding.jobs import Aborted, ExitHint, Interrupted, Judgement, Verify
from outrider.decoding.protocol.prefix_digest import common_length

OnHint = Callable[[Verify, ExitHint], bool]
"""Called with a job and an exit's hint.

Returns whether to abort the job; only a job alone in its batch is.
"""
Decided = Sequence[tuple[int, float]]
"""For each row of logits the chosen token and its margin."""
_Rows = tuple[int, Array]
"""A job's index in the batch, and an exit's logits for it."""


class VerificationBatch:
    """The jobs of one batch, each with the rows requested of its sequence.

    The rows of deterministic schemes are numbered consecutively across all jobs.
    """

    def __init__(
        self,
        jobs: Sequence[Verify],
        requests: Sequence[RowRequest],
        exits: ExitInfo | None,
        vocab_size: int,
        on_hint: OnHint,
        device: torch.device,
    ) -> None:
        """Copy what the exits need to `device` now, so that no exit waits for a copy."""
        self._jobs, self._exits, self._on_hint = jobs, exits, on_hint
        self._alone = len(jobs) == 1
        self._vocab_size, self._on_host = vocab_size, device.type == "cpu"
        self._job_of_chunk = [
            job_index for job_index, request in enumerate(requests) if request.chunk is not None
        ]
        self._row_numbers: dict[int, range] = {}
        self._exit_numbers: dict[int, range] = {}
        """Job index to the numbers of its exit rows, for deterministic schemes; numbered across all jobs."""
        self._num_tested: dict[int, int] = {}
        """Job index to the number of its exit rows, for schemes that test distributions."""
        self._number(requests)
        self._draws = draws_on(
            device, _draws_of([jobs[job_index] for job_index in self._row_numbers]), vocab_size
        )
        self._exit_draws = self._draws
        if exits is not None and self._draws.drawn:
            numbers = [
                self._row_numbers[job_index][-len(own) :] for job_index, own in self._exit_numbers.items()
            ]
            self._exit_draws = self._draws.part(numbers, shortlist_on(exits, device))
        known = [job_index for job_index in self._exit_numbers if requests[job_index].known is not None]
        firsts = self._decide(known, [requests[job_index].known[None] for job_index in known], 1)
        self._known = {job_index: choice for job_index, [(choice, _)] in firsts.items()}
        """Job index to the target's choice in the first row, if the cache already has that row."""
        self._known_rows = {
            job_index: requests[job_index].known.float().cpu()
            for job_index in self._num_tested
            if requests[job_index].known is not None
        }
        """The same rows for schemes that test distributions.

        Copied here, before the device has the batch to run.
        """

    def _number(self, requests: Sequence[RowRequest]) -> None:
        num_rows = num_own = 0
        for job_index, (job, request) in enumerate(zip(self._jobs, requests, strict=True)):
            is_read = job.hints and request.chunk is not None and self._exits is not None
            if job.scheme.deterministic:
                self._row_numbers[job_index] = range(num_rows, num_rows + len(job.draft) + 1)
                num_rows += len(job.draft) + 1
                if is_read:
                    self._exit_numbers[job_index] = range(num_own, num_own + request.num_new)
                    num_own += request.num_new
            elif is_read:
                self._num_tested[job_index] = request.num_new

    @property
    def reads_exits(self) -> bool:
        """Whether any of the jobs wants hints."""
        return bool(self._exit_numbers or self._num_tested)

    def read(self, index: int, rows: Sequence[tuple[int, Array]]) -> Reading | None:
        """Return what an `ExitReader` returns, for the chunks of `requests` in their order.

        Only choices are copied to the host where tokens are chosen. On the CPU they are reported at once
        and the result is None.
        """
        chosen, tested = [], []
        for number, logits in rows:
            job_index = self._job_of_chunk[number]
            if job_index in self._exit_numbers:
                chosen.append((job_index, _last(logits, len(self._exit_numbers[job_index]))))
            elif job_index in self._num_tested:
                tested.append((job_index, _last(logits, self._num_tested[job_index])))
        if tested or (chosen and not self._on_host):
            return self._reading(index, chosen, tested)
        if chosen:
            self._hint_all(index, chosen, *decide_exit_here(*self._exit_arguments(chosen)))
        return None

    def _reading(self, index: int, chosen: Sequence[_Rows], tested: Sequence[_Rows]) -> Reading:
        """Read first the choices of deterministic schemes,
        then the logits for those that test distributions.
        """
        table = [decide_exit(*self._exit_arguments(chosen)).flatten()] if chosen else []
        rows = [logits.float().flatten() for _, logits in tested]
        return Reading(joined([*table, *rows]), partial(self._report_exit, index, chosen, tested))

    def _exit_arguments(self, chosen: Sequence[_Rows]) -> tuple[Array, Draws]:
        """Return the arguments of `decide_exit`."""
        draws = self._exit_draws
        if draws.drawn:
            draws = draws.part([self._exit_numbers[job_index] for job_index, _ in chosen])
        return chosen[0][1] if len(chosen) == 1 else torch.cat([rows for _, rows in chosen]), draws

    def judge(self, rows: Sequence[Array | Exception]) -> list[Judgement | Exception]:
        """Return each job's judgement from its logits (len(draft) + 1, V), or the error that prevented it."""
        chosen = [job_index for job_index in self._row_numbers if not isinstance(rows[job_index], Exception)]
        decided = self._decide(chosen, [rows[job_index] for job_index in chosen])
        return [
            self._judged(job_index, own_rows, decided.get(job_index))
            for job_index, own_rows in enumerate(rows)
        ]

    def _decide(
        self, job_indices: Sequence[int], rows: Sequence[Array], count: int | None = None
    ) -> dict[int, Decided]:
        """Decide the first `count` rows of each job, or all. One copy to the host serves all of them."""
        if not job_indices:
            return {}
        numbers = [self._row_numbers[job_index][:count] for job_index in job_indices]
        table = iter(decide(joined(rows), self._draws.part(numbers)))
        return {
            job_index: list(islice(table, len(own)))
            for job_index, own in zip(job_indices, numbers, strict=True)
        }

    def _judged(
        self, job_index: int, rows: Array | Exception, decided: Decided | None
    ) -> Judgement | Exception:
        job = self._jobs[job_index]
        if isinstance(rows, Exception):
            return rows
        try:
            if decided is None:
                return judgement_of(job, _outcome(job, rows), rows.argmax(-1).tolist())
            outcome = judge_decided(decided, job.draft, job.bonus)
        except Exception as error:
            return error
        return judgement_of(job, outcome, [choice for choice, _ in decided])

    def _report_exit(self, index: int, chosen: Sequence[_Rows], tested: Sequence[_Rows], read: Array) -> None:
        assert self._exits is not None
        shortlist = self._exits.token_ids
        start = sum(2 * len(self._exit_numbers[job_index]) for job_index, _ in chosen)
        if chosen:
            self._hint_all(index, chosen, *columns_of(read[:start].view(-1, 2)))
        for job_index, logits in tested:
            job, end = self._jobs[job_index], start + logits.numel()
            rows = read[start:end].view(logits.shape)
            hint = judge_exit(job, self._known_rows.get(job_index), rows, shortlist, self._vocab_size)
            if hint is not None:
                self._report(job, hint._replace(exit=index))
            start = end

    def _hint_all(
        self, index: int, exit_rows: Sequence[_Rows], shortlisted: Sequence[int], sure: Sequence[float]
    ) -> None:
        """Report an exit's hint for each deterministic job. The first row may be known already."""
        assert self._exits is not None
        token_at, start = shortlist_of(self._exits).__getitem__, 0
        for job_index, _ in exit_rows:
            end = start + len(self._exit_numbers[job_index])
            choices = tuple(map(token_at, shortlisted[start:end]))
            confidences = tuple([round(confidence, CONFIDENCE_DIGITS) for confidence in sure[start:end]])
            if job_index in self._known:
                choices, confidences = (self._known[job_index], *choices), (1.0, *confidences)
            accepted = common_length(self._jobs[job_index].draft, choices)
            chance = math.prod(confidences[: accepted + 1])
            self._report(
                self._jobs[job_index],
                ExitHint(index, accepted, choices[accepted], chance, choices, confidences),
            )
            start = end

    def _report(self, job: Verify, hint: ExitHint) -> None:
        """Report a hint, unless its confidence is NaN. Raises Aborted if a job that runs alone should be
        aborted, and Interrupted if the listener fails; either ends the forward pass.
        """
        if math.isnan(hint.confidence):
            return
        try:
            should_abort = self._on_hint(job, hint)
        except Exception as error:
            raise Interrupted(error) from error
        if should_abort and self._alone:
            raise Aborted


def _outcome(job: Verify, logits: Array) -> Outcome:
    """Return the outcome of a job's scheme on the target's logits (len(draft) + 1, V)."""
    return job.scheme.judge(logits, job.draft, job.evidence, len(job.tokens), job.sampling, job.bonus)


def judgement_of(job: Verify, outcome: Outcome, choices: Sequence[int]) -> Judgement:
    """Return an outcome as the judgement of a job; `choices`: the target's likeliest token in each row."""
    residue = None
    if outcome.residue is not None:
        row = outcome.residue.clone()  # a view would keep all the other rows in memory
        residue = Residue(row, len(job.tokens) + outcome.accepted, job.sampling)
    kept = kept_run(job.draft, choices, outcome.accepted)
    return Judgement(outcome.accepted, outcome.next_token, residue, outcome.margin, kept)


def kept_run(draft: Sequence[int], choices: Sequence[int], accepted: int) -> tuple[int, ...]:
    """Return (start, end) of the longest run after the first rejected token that equals the target's
    choices.

    Empty if there is none. No random draw depends on it.
    """
    first = accepted + 1
    rest = draft[first:]
    if len(rest) < SHORTEST:
        return ()
    return tuple(first + offset for offset in longest_run(rest, choices[first : len(draft)]))


def judge_exit(
    job: Verify, known: Array, exit_logits: Array, token_ids: Array, vocab_size: int
) -> ExitHint | None:
    """Return an exit's hint for a scheme that tests distributions.

    None if the verdict would hold no token of the cloud's own. All on the host: `exit_logits` (M, S) over
    the shortlist `token_ids` (S,); `known` (V,), float32, is the final row before them, if any.
    """
    rows = torch.full((len(exit_logits), vocab_size), -torch.inf, dtype=torch.float32)
    rows[:, token_ids] = exit_logits.float()
    confidences = token_confidence(exit_logits.float())
    if known is not None:
        rows = torch.cat((known[None], rows))
        confidences = torch.cat((torch.ones(1, dtype=torch.float32), confidences))
    outcome = _outcome(job, rows)
    if outcome.next_token is None:
        return None
    confidence = round(float(confidences[: outcome.accepted + 1].prod()), CONFIDENCE_DIGITS)
    return ExitHint(0, outcome.accepted, outcome.next_token, confidence)


def _draws_of(jobs: Sequence[Verify]) -> list[Draw]:
    """Return a draw for every row of the jobs in order; none if every temperature is 0."""
    if all(job.sampling.temperature == 0.0 for job in jobs):
        return []
    return [
        Draw(job.sampling, len(job.tokens) + offset) for job in jobs for offset in range(len(job.draft) + 1)
    ]


def _last(rows: Array, count: int) -> Array:
    return rows if rows.shape[0] == count else rows[-count:]


@lru_cache(maxsize=8)
def shortlist_on(exits: ExitInfo, device: torch.device) -> Array:
    """Return the shortlist on a device. Cached, because the first copy waits for the device."""
    return exits.token_ids.to(device)


@lru_cache(maxsize=8)
def shortlist_of(exits: ExitInfo) -> tuple[int, ...]:
    """Return the ids of the shortlist on the host."""
    return tuple(exits.token_ids.tolist())
