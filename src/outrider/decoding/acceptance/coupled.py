# SPDX-License-Identifier: Apache-2.0
"""What the rows of a batch decide, all at once and where they are: of each a few numbers cross to the host.

On the CPU noise comes from numpy, elsewhere from the same bits made on the device (`philox`). Its logarithms
may differ there in the last bit, which no text depends on: all that is final about a text is decided by one
target on one device, and what a draft elsewhere would have chosen only makes its tokens stand or fall.
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
    """How the tokens of some rows are drawn. Noise is made once, when first asked for, and then shared."""

    def __init__(self, samplings: Sequence[Sampling], noise: Callable[[], Array]) -> None:
        """`noise` makes float64 (R, S) for the R rows, where anything is drawn at all."""
        self.drawn = any(sampling.temperature > 0.0 for sampling in samplings)
        self._samplings = samplings
        self._make_noise = noise

    @cached_property
    def _noise(self) -> Array:
        return self._make_noise()

    def part(self, numbers: Sequence[range], token_ids: Array = None) -> Draws:
        """Of some of the rows, and of the part `token_ids` (S,) of the vocabulary."""
        if not self.drawn:
            return self
        runs = _joined_runs(numbers)
        if token_ids is None and runs == [range(len(self._samplings))]:
            return self
        samplings = [sampling for run in runs for sampling in self._samplings[run.start : run.stop]]
        return Draws(samplings, lambda: _taken(self._noise, runs, token_ids))

    def noisy(self, logits: Array) -> Array:
        """What the coupled choice maximises, from logits (R, S): where nothing is drawn, those themselves."""
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
        """What gaps between noisy values, one of each row, are as gaps in logits."""
        return [gap * (one.temperature or 1.0) for gap, one in zip(gaps, self._samplings, strict=True)]


def draws_on(device: torch.device, draws: Sequence[Draw], vocab_size: int) -> Draws:
    """For logits on a device. What their noise is made of is brought there now, which waits for nothing."""
    samplings = [one.sampling for one in draws]
    if device.type == "cpu" or not any(one.temperature > 0.0 for one in samplings):
        return Draws(samplings, partial(noise_here, draws, vocab_size))
    seeds = generator_keys([one.seed for one in samplings], [one.position for one in draws], device)
    return Draws(samplings, partial(noise_there, seeds, vocab_size))


def noise_here(draws: Sequence[Draw], vocab_size: int) -> Array:
    """float64 (R, V) on the host: `counter_rng.gumbel_noise` of each draw; 0 where none is drawn."""
    return torch.stack(
        [
            gumbel_noise(sampling.seed, position, vocab_size)
            if sampling.temperature > 0.0
            else torch.zeros(vocab_size, dtype=torch.float64)
            for sampling, position in draws
        ]
    )


def noise_there(keys: Array, vocab_size: int, blocks_at_once: int = BLOCKS_AT_ONCE) -> Array:
    """`noise_here` where the `generator_keys` are: the same bits, their logarithms by its own arithmetic.

    `blocks_at_once`: of `uniform_rows`.
    """
    return uniform_rows(keys, Purpose.NOISE, vocab_size, blocks_at_once).log_().neg_().log_().neg_()


def _joined_runs(numbers: Sequence[range]) -> list[range]:
    """The same numbers in the same order, in as few ranges."""
    runs: list[range] = []
    for run in numbers:
        if runs and runs[-1].stop == run.start:
            runs[-1] = range(runs[-1].start, run.stop)
        else:
            runs.append(run)
    return runs


def _taken(noise: Array, runs: Sequence[range], token_ids: Array) -> Array:
    """In slices: an index made on the host would be waited for."""
    rows = joined([noise[run.start : run.stop] for run in runs])
    return rows if token_ids is None else rows.index_select(1, token_ids)


def joined(parts: Sequence[Array]) -> Array:
    """Rows after rows; of one part no copy."""
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))


def decide(logits: Array, draws: Draws) -> list[tuple[int, float]]:
    """Of each row its coupled choice, and by how much, in logits, it leads the second choice.

    logits: (R, V), V >= 2. The lead is NaN where they are no numbers. Of equals the lowest id is chosen.
    """
    on_host = logits.device.type == "cpu"
    choices, leads = _two_largest(draws.noisy(logits)) if on_host else columns_of(decide_there(logits, draws))
    return list(zip(choices, draws.in_logits(leads) if draws.drawn else leads, strict=True))


def _two_largest(noisy: Array) -> tuple[list[int], list[float]]:
    """What `two_passes` finds, in fewer operations: each costs a CPU more than its arithmetic."""
    values, places = noisy.topk(2)
    leads = [best - second for best, second in values.tolist()]
    # Which of equals `topk` puts first, nobody says.
    return noisy.argmax(-1).tolist() if 0.0 in leads else [place for place, _ in places.tolist()], leads


def decide_there(logits: Array, draws: Draws, numbers_at_once: int = NUMBERS_AT_ONCE) -> Array:
    """`two_passes` where the rows are, of a part of them after the other: beside logits and noise it takes
    some numbers for each of a part's `numbers_at_once`, however many rows there are.
    """
    num_rows, vocab_size = logits.shape
    at_once = max(1, numbers_at_once // vocab_size)
    parts = [range(first, min(first + at_once, num_rows)) for first in range(0, num_rows, at_once)]
    return joined([two_passes(draws.part([part]).noisy(logits[part.start : part.stop])) for part in parts])


def two_passes(noisy: Array) -> Array:
    """float64 (R, 2) where the rows are: choices and leads. A GPU takes ten times as long to sort a row."""
    best, chosen = noisy.max(-1, keepdim=True)
    second = noisy.scatter(-1, chosen, -torch.inf).amax(-1, keepdim=True)
    return torch.cat((chosen.double(), best.double() - second.double()), dim=-1)


def decide_exit(logits: Array, draws: Draws) -> Array:
    """float32 (R, 2), of logits (R, S): the place on its shortlist of an exit's choice, and its chance."""
    return torch.cat([one.float() for one in _exit_choices(logits, draws)], dim=-1)


def decide_exit_here(logits: Array, draws: Draws) -> tuple[list[int], list[float]]:
    """`decide_exit` where nothing has to cross."""
    chosen, sure = _exit_choices(logits, draws)
    return list(chain.from_iterable(chosen.tolist())), list(chain.from_iterable(sure.tolist()))


def columns_of(table: Array) -> tuple[list[int], list[float]]:
    """What a table (R, 2) of choices and numbers is on the host."""
    rows = table.tolist()
    return [int(choice) for choice, _ in rows], [number for _, number in rows]


def _exit_choices(logits: Array, draws: Draws) -> tuple[Array, Array]:
    """(R, 1) each."""
    sure, chosen = logits.float().softmax(-1).topk(1)
    return draws.noisy(logits).argmax(-1, keepdim=True) if draws.drawn else chosen, sure
