# SPDX-License-Identifier: Apache-2.0
"""Decides all rows of a batch at once, on their device; only a few numbers per row are copied to the host.

On the CPU the noise comes from numpy, elsewhere from the same bits computed on the device (`philox`). Its
logarithms may differ there in the last bit, but no text depends on that: one target on one device makes all
final choices, and a draft on another device only affects which of its tokens are accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from itertools import chain, groupby
from operator import attrgetter
from typing import NamedTuple

import torch

from outrider.core.ports import Array
from outrider.decoding.acceptance.counter_rng import Purpose, gumbel_noise
from outrider.decoding.acceptance.philox import BLOCKS_AT_ONCE, generator_keys, uniform_rows
from outrider.decoding.acceptance.sampling import unchecked_scores
from outrider.decoding.protocol.sampling_rules import Sampling

NUMBERS_AT_ONCE = 1 << 23
_RULES = attrgetter("temperature", "top_k", "top_p")


class Draw(NamedTuple):
    """How the token of one row of logits is drawn."""

    sampling: Sampling
    position: int


class Draws:
    """How the tokens of some rows are drawn. The noise is computed on first use and then shared."""

    def __init__(self, samplings: Sequence[Sampling], noise: Callable[[], Array]) -> None:
        """`noise` returns float64 (R, S) for the R rows; it is called only if any temperature is above 0."""
        self.drawn = any(sampling.temperature > 0.0 for sampling in samplings)
        self._samplings = samplings
        self._make_noise = noise

    @cached_property
    def _noise(self) -> Array:
        return self._make_noise()

    def part(self, numbers: Sequence[range], token_ids: Array = None) -> Draws:
        """Return the draws of some rows, restricted to the tokens `token_ids` (S,) if given."""
        if not self.drawn:
            return self
        runs = _joined_runs(numbers)
        if token_ids is None and runs == [range(len(self._samplings))]:
            return self
        samplings = [sampling for run in runs for sampling in self._samplings[run.start : run.stop]]
        return Draws(samplings, lambda: _noise_part(self._noise, runs, token_ids))

    def noisy(self, logits: Array) -> Array:
        """Return what the coupled choice maximises, from logits (R, S):
        the logits themselves at temperature 0.
        """
        if not self.drawn:
            return logits
        parts, start = [], 0
        for (temperature, *_), alike in groupby(self._samplings, _RULES):
            sampling, *others = alike
            end = start + 1 + len(others)
            part = logits[start:end]
            if temperature > 0.0:
                parts.append(unchecked_scores(part, sampling).add_(self._noise[start:end]))
            else:
                parts.append(part.double())
            start = end
        return joined(parts)

    def in_logits(self, gaps: Sequence[float]) -> list[float]:
        """Convert gaps between noisy values, one per row, to gaps in logits."""
        return [
            gap * (sampling.temperature or 1.0) for gap, sampling in zip(gaps, self._samplings, strict=True)
        ]


def draws_on(device: torch.device, draws: Sequence[Draw], vocab_size: int) -> Draws:
    """Return draws for logits on a device.

    The inputs of their noise are copied there now, without waiting.
    """
    samplings = [draw.sampling for draw in draws]
    if device.type == "cpu" or not any(sampling.temperature > 0.0 for sampling in samplings):
        return Draws(samplings, partial(noise_here, draws, vocab_size))
    seeds = generator_keys(
        [sampling.seed for sampling in samplings], [draw.position for draw in draws], device
    )
    return Draws(samplings, partial(noise_there, seeds, vocab_size))


def noise_here(draws: Sequence[Draw], vocab_size: int) -> Array:
    """Return float64 (R, V) on the host: `counter_rng.gumbel_noise` per draw; 0 at temperature 0."""
    return torch.stack(
        [
            gumbel_noise(sampling.seed, position, vocab_size)
            if sampling.temperature > 0.0
            else torch.zeros(vocab_size, dtype=torch.float64)
            for sampling, position in draws
        ]
    )


def noise_there(keys: Array, vocab_size: int, blocks_at_once: int = BLOCKS_AT_ONCE) -> Array:
    """Return `noise_here` on the device of the `generator_keys`: the same bits, with the device's
    logarithms.

    `blocks_at_once`: as for `uniform_rows`.
    """
    return uniform_rows(keys, Purpose.NOISE, vocab_size, blocks_at_once).log_().neg_().log_().neg_()


def _joined_runs(numbers: Sequence[range]) -> list[range]:
    """Return the same numbers in the same order, in as few ranges as possible."""
    runs: list[range] = []
    for run in numbers:
        if runs and runs[-1].stop == run.start:
            runs[-1] = range(runs[-1].start, run.stop)
        else:
            runs.append(run)
    return runs


def _noise_part(noise: Array, runs: Sequence[range], token_ids: Array) -> Array:
    """Return parts of the noise, as slices: copying an index of rows to the device would block the host."""
    rows = joined([noise[run.start : run.stop] for run in runs])
    return rows if token_ids is None else rows.index_select(1, token_ids)


def joined(parts: Sequence[Array]) -> Array:
    """Concatenate along the rows; a single part is not copied."""
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))


def decide(logits: Array, draws: Draws) -> list[tuple[int, float]]:
    """Return for each row the coupled choice and its lead over the second choice, in logits.

    logits: (R, V), V >= 2. The lead is NaN if the logits are. Ties go to the lowest id.
    """
    on_host = logits.device.type == "cpu"
    choices, leads = _two_largest(draws.noisy(logits)) if on_host else columns_of(decide_there(logits, draws))
    return list(zip(choices, draws.in_logits(leads) if draws.drawn else leads, strict=True))


def _two_largest(noisy: Array) -> tuple[list[int], list[float]]:
    """Return what `two_passes` finds, in fewer operations:
    on a CPU each call costs more than its arithmetic.
    """
    values, indices = noisy.topk(2)
    leads = [best - second for best, second in values.tolist()]
    # The order in which `topk` returns equal values is not specified.
    return noisy.argmax(-1).tolist() if 0.0 in leads else [index for index, _ in indices.tolist()], leads


def decide_there(logits: Array, draws: Draws, numbers_at_once: int = NUMBERS_AT_ONCE) -> Array:
    """Return `two_passes` computed on the rows' device, one part of the rows after the other.

    Besides logits and noise it needs memory for a fixed number of values for each of `numbers_at_once`,
    however many rows there are.
    """
    num_rows, vocab_size = logits.shape
    at_once = max(1, numbers_at_once // vocab_size)
    parts = [range(first, min(first + at_once, num_rows)) for first in range(0, num_rows, at_once)]
    return joined([two_passes(draws.part([part]).noisy(logits[part.start : part.stop])) for part in parts])


def two_passes(noisy: Array) -> Array:
    """Return float64 (R, 2) on the rows' device: choices and leads.

    On a GPU, sorting would take ten times as long.
    """
    best, chosen = noisy.max(-1, keepdim=True)
    second = noisy.scatter(-1, chosen, -torch.inf).amax(-1, keepdim=True)
    return torch.cat((chosen.double(), best.double() - second.double()), dim=-1)


def decide_exit(logits: Array, draws: Draws) -> Array:
    """Return float32 (R, 2), from logits (R, S): the shortlist index of an exit's choice,
    and the largest probability of the exit.
    """
    return torch.cat([column.float() for column in _exit_choices(logits, draws)], dim=-1)


def decide_exit_here(logits: Array, draws: Draws) -> tuple[list[int], list[float]]:
    """Return `decide_exit` for rows that are on the host already."""
    chosen, sure = _exit_choices(logits, draws)
    return list(chain.from_iterable(chosen.tolist())), list(chain.from_iterable(sure.tolist()))


def columns_of(table: Array) -> tuple[list[int], list[float]]:
    """Copy a table (R, 2) to the host: its choices and its numbers."""
    rows = table.tolist()
    return [int(choice) for choice, _ in rows], [number for _, number in rows]


def _exit_choices(logits: Array, draws: Draws) -> tuple[Array, Array]:
    """Return the choice and the largest probability of each row, (R, 1) each."""
    sure, chosen = logits.float().softmax(-1).topk(1)
    return draws.noisy(logits).argmax(-1, keepdim=True) if draws.drawn else chosen, sure
