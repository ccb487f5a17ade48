"""What the rows of a batch decide, all at once and where they are: of each a few numbers cross to the host.

On the CPU noise comes from numpy, elsewhere from the same bits made on the device (`philox`). Its logarithms
may differ there in the last bit, which no text depends on: all that is final about a text is decided by one
target on one device, and what a draft elsewhere would have chosen only makes its tokens stand or fall.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import torch

from outrider.core.ports import Array
from outrider.decoding.config import Sampling
from outrider.decoding.philox import uniform_rows
from outrider.decoding.randomness import Purpose, gumbel_noise
from outrider.decoding.sampling import unchecked_scores


class Draw(NamedTuple):
    """How the token of one row of logits is drawn."""

    sampling: Sampling
    position: int


class Draws:
    """How the tokens of some rows are drawn. The noise of all of them is made once, when first asked for."""

    def __init__(self, draws: Sequence[Draw], vocab_size: int) -> None:
        self._draws = draws
        self._vocab_size = vocab_size
        self._row_of: dict[int, int] = {}
        kinds = set()
        for number, (sampling, _) in enumerate(draws):
            kinds.add((sampling.temperature, sampling.top_p))
            if sampling.temperature > 0.0:
                self._row_of[number] = len(self._row_of)
        self.drawn = bool(self._row_of)
        """Whether anything is drawn at all."""
        self._alike = Sampling(*kinds.pop()) if self.drawn and len(kinds) == 1 else None
        """What holds for every row, where all are drawn alike."""
        self._noise: Array = None
        self._shortlisted: tuple[Array, Array] | None = None

    def noisy(self, logits: Array, numbers: Sequence[int], token_ids: Array = None) -> Array:
        """What the coupled choice maximises, (R, S), of logits (R, S) that belong to the draws `numbers`.

        `token_ids` (S,): which part of the vocabulary the logits are of. At temperature 0 they are untouched.
        """
        if not self.drawn:
            return logits
        if self._alike is not None:
            drawn = unchecked_scores(logits, self._alike)
            return drawn.add_(_taken(self._noise_like(logits, token_ids), numbers))
        return self._noisy_in_parts(logits, numbers, token_ids)

    def _noisy_in_parts(self, logits: Array, numbers: Sequence[int], token_ids: Array) -> Array:
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
            noise = _taken(self._noise_like(values, token_ids), [self._row_of[numbers[row]] for row in rows])
            values[index] = drawn.add_(noise)
        return values

    def temperature(self, number: int) -> float:
        """By what a gap between noisy values is a gap in logits."""
        return self._draws[number].sampling.temperature or 1.0

    def _noise_like(self, like: Array, token_ids: Array) -> Array:
        """The noise of all draws that have any, on a part of the vocabulary."""
        if self._noise is None:
            self._noise = noise_rows([self._draws[number] for number in self._row_of], self._vocab_size, like)
        if token_ids is None:
            return self._noise
        if self._shortlisted is None or self._shortlisted[0] is not token_ids:
            self._shortlisted = token_ids, self._noise[:, token_ids]
        return self._shortlisted[1]


def _taken(rows: Array, numbers: Sequence[int]) -> Array:
    """Some of the rows; those side by side without a copy, for whose indices a device would be waited for."""
    if isinstance(numbers, range) and numbers.step == 1:
        return rows[numbers.start : numbers.stop]
    return rows[torch.tensor(numbers, device=rows.device)]


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


def decide(logits: Array, draws: Draws, numbers: Sequence[int]) -> list[tuple[int, float]]:
    """Of each row its coupled choice, and by how much, in logits, it leads the second choice.

    logits: (R, V), V >= 2. The lead is NaN where they are no numbers. Of equals the lowest id is chosen.
    """
    noisy = draws.noisy(logits, numbers)
    choices, leads = _two_largest(noisy) if noisy.device.type == "cpu" else columns_of(two_passes(noisy))
    if noisy is not logits:
        leads = [lead * draws.temperature(number) for lead, number in zip(leads, numbers, strict=True)]
    return list(zip(choices, leads, strict=True))


def _two_largest(noisy: Array) -> tuple[list[int], list[float]]:
    """What `two_passes` finds, in fewer operations: each costs a CPU more than its arithmetic."""
    values, places = noisy.topk(2)
    leads = [best - second for best, second in values.tolist()]
    # Which of equals `topk` puts first, nobody says.
    return noisy.argmax(-1).tolist() if 0.0 in leads else [place for place, _ in places.tolist()], leads


def two_passes(noisy: Array) -> Array:
    """float64 (R, 2) where the rows are: choices and leads. A GPU takes ten times as long to sort a row."""
    best, chosen = noisy.max(-1, keepdim=True)
    second = noisy.scatter(-1, chosen, -torch.inf).amax(-1, keepdim=True)
    return torch.cat((chosen.double(), best.double() - second.double()), dim=-1)


def decide_exit(logits: Array, draws: Draws, numbers: Sequence[int], token_ids: Array) -> Array:
    """float32 (R, 2): the place of an exit's choice on its shortlist `token_ids` (S,), and how sure it is."""
    return torch.cat([one.float() for one in _exit_choices(logits, draws, numbers, token_ids)], dim=-1)


def decide_exit_here(
    logits: Array, draws: Draws, numbers: Sequence[int], token_ids: Array
) -> tuple[list[int], list[float]]:
    """`decide_exit` where nothing has to cross."""
    chosen, sure = _exit_choices(logits, draws, numbers, token_ids)
    return list(chain.from_iterable(chosen.tolist())), list(chain.from_iterable(sure.tolist()))


def columns_of(table: Array) -> tuple[list[int], list[float]]:
    """What a table (R, 2) of choices and numbers is on the host."""
    rows = table.tolist()
    return [int(choice) for choice, _ in rows], [number for _, number in rows]


def _exit_choices(
    logits: Array, draws: Draws, numbers: Sequence[int], token_ids: Array
) -> tuple[Array, Array]:
    """(R, 1) each."""
    sure, chosen = logits.float().softmax(-1).topk(1)
    if draws.drawn:
        noisy = draws.noisy(logits, numbers, token_ids)
        chosen = chosen if noisy is logits else noisy.argmax(-1, keepdim=True)
    return chosen, sure
