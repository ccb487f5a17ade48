"""What the rows of a batch decide, all at once and where they are: of each a few numbers cross to the host.

On the CPU noise comes from numpy, elsewhere from the same bits made on the device (`philox`). Its logarithms
may differ there in the last bit, which no text depends on: all that is final about a text is decided by one
target on one device, and what a draft elsewhere would have chosen only makes its tokens stand or fall.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from outrider.core.ports import Array
from outrider.decoding.config import Sampling
from outrider.decoding.philox import uniform_rows
from outrider.decoding.randomness import Purpose, gumbel_noise
from outrider.decoding.sampling import unchecked_scores


@dataclass(frozen=True)
class Draw:
    """How the token of one row of logits is drawn."""

    sampling: Sampling
    position: int


class Draws:
    """How the tokens of some rows are drawn. The noise of all of them is made once, when first asked for."""

    def __init__(self, draws: Sequence[Draw], vocab_size: int) -> None:
        self._draws = draws
        self._vocab_size = vocab_size
        drawn = [number for number, draw in enumerate(draws) if draw.sampling.temperature > 0.0]
        self._row_of = {number: row for row, number in enumerate(drawn)}
        self._noise: Array = None

    def noisy(self, logits: Array, numbers: Sequence[int], token_ids: Array = None) -> Array:
        """What the coupled choice maximises, (R, S), of logits (R, S) that belong to the draws `numbers`.

        `token_ids` (S,): which part of the vocabulary the logits are of. At temperature 0 they are untouched.
        """
        if not self._row_of:
            return logits
        groups: dict[tuple[float, float], list[int]] = {}
        for row, number in enumerate(numbers):
            sampling = self._draws[number].sampling
            if sampling.temperature > 0.0:
                groups.setdefault((sampling.temperature, sampling.top_p), []).append(row)
        if not groups:
            return logits
        values = logits.to(torch.float64, copy=True)
        for (temperature, top_p), rows in groups.items():
            index = torch.tensor(rows, device=logits.device)
            drawn = unchecked_scores(logits[index], Sampling(temperature, top_p))
            values[index] = drawn.add_(self._noise_of([numbers[row] for row in rows], values, token_ids))
        return values

    def temperatures(self, numbers: Sequence[int], like: Array) -> Array:
        """float64 (R,): by what a gap between noisy values is a gap in logits."""
        values = [self._draws[number].sampling.temperature or 1.0 for number in numbers]
        return torch.tensor(values, dtype=torch.float64, device=like.device)

    def _noise_of(self, numbers: Sequence[int], like: Array, token_ids: Array) -> Array:
        if self._noise is None:
            self._noise = noise_rows([self._draws[number] for number in self._row_of], self._vocab_size, like)
        rows = self._noise[torch.tensor([self._row_of[number] for number in numbers], device=like.device)]
        return rows if token_ids is None else rows[:, token_ids]


def noise_rows(draws: Sequence[Draw], vocab_size: int, like: Array) -> Array:
    """float64 (R, V) on the device of `like`: `randomness.gumbel_noise` of each draw."""
    if like.device.type == "cpu":
        return torch.stack([gumbel_noise(one.sampling.seed, one.position, vocab_size) for one in draws])
    return noise_on(like.device, draws, vocab_size)


def noise_on(device: torch.device, draws: Sequence[Draw], vocab_size: int) -> Array:
    """`noise_rows` made on a device: the same random bits, their logarithms by its own arithmetic."""
    seeds, positions = [one.sampling.seed for one in draws], [one.position for one in draws]
    uniform = uniform_rows(seeds, Purpose.NOISE, positions, vocab_size, device)
    return uniform.log_().neg_().log_().neg_()


def decide(logits: Array, draws: Draws, numbers: Sequence[int]) -> Array:
    """float64 (R, 2): of each row its coupled choice and by how much, in logits, it leads the second choice.

    logits: (R, V). The lead is NaN where the logits are no numbers. Of equals the lowest id is chosen.
    """
    noisy = draws.noisy(logits, numbers)
    best, chosen = noisy.max(-1, keepdim=True)
    # Two passes for the two largest: a sort of some kind would take ten times as long.
    second = noisy.scatter(-1, chosen, -torch.inf).amax(-1, keepdim=True)
    leads = (best - second).double()
    if noisy is not logits:
        leads *= draws.temperatures(numbers, noisy)[:, None]
    return torch.cat((chosen, leads), dim=-1)


def decide_exit(logits: Array, draws: Draws, numbers: Sequence[int], token_ids: Array) -> Array:
    """float32 (R, 2): the place of an exit's choice on its shortlist `token_ids` (S,), and how sure it is."""
    noisy = draws.noisy(logits, numbers, token_ids)
    sure, chosen = logits.float().softmax(-1).max(-1, keepdim=True)
    if noisy is not logits:
        chosen = noisy.argmax(-1, keepdim=True)
    return torch.cat((chosen, sure), dim=-1)
