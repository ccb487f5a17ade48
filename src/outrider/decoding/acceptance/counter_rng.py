# SPDX-License-Identifier: Apache-2.0
"""Counter-based randomness: every random number is a function of (seed, purpose, position, index).

Nothing is consumed: a step that is repeated, replayed after a lost frame or run ahead of time makes the
same decision again, on either side of the link. The bits come from Philox-4x64 (Salmon et al., "Parallel
random numbers: as easy as 1, 2, 3", SC 2011) with key (seed, purpose) and counter (index / 4, 0, position,
0), so two different uses never share bits. The bits are the same on every machine. Their logarithms may
differ in the last bit between processors, which changes a choice about once in 10^15 tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

import numpy as np
import torch

from outrider.core.ports import Array
from outrider.decoding.acceptance.philox import block_words

_WORDS_PER_BLOCK = 4
_BITS = 52  # so that (n + 1/2) / 2^52 is exact in float64 and lies strictly between 0 and 1


class Purpose(IntEnum):
    """What a random number decides. The values are part of the protocol: both sides compute the same bits."""

    NOISE = 0
    DRAFT = 1
    ACCEPT = 2
    RESIDUAL = 3
    TARGET = 4
    TAIL_DRAW = 5
    TAIL_TURN = 6
    TAIL_ACCEPT = 7
    ROUNDING = 8


def uniforms(seed: int, purpose: Purpose, position: int, count: int, first: int = 0) -> np.ndarray:
    """Return float64 (count,): the numbers with indices first, first + 1, ... in (0, 1), 52 random bits
    each.

    seed: 0 <= seed < 2^64. position: that of the token to decide, counted from the first generated token.
    """
    block, skip = divmod(first, _WORDS_PER_BLOCK)
    key = np.array((seed, purpose), dtype=np.uint64)
    counter = np.array((block, 0, position, 0), dtype=np.uint64)
    words = np.random.Philox(key=key, counter=counter).random_raw(skip + count)[skip:]
    words >>= np.uint64(64 - _BITS)
    values = words.astype(np.float64)
    values += 0.5
    values *= 2.0**-_BITS
    return values


def uniform(seed: int, purpose: Purpose, position: int, index: int = 0) -> float:
    """One number in (0, 1); see `uniforms`."""
    block, offset = divmod(index, _WORDS_PER_BLOCK)
    word = block_words(seed, purpose, position, block)[offset]
    return ((word >> (64 - _BITS)) + 0.5) * 2.0**-_BITS


def gumbel_noise(seed: int, position: int, vocab_size: int) -> Array:
    """Return float64 (vocab_size,): -log(-log U) per token. A token's noise does not depend on vocab_size."""
    noise = uniforms(seed, Purpose.NOISE, position, vocab_size)
    for _ in range(2):
        np.log(noise, out=noise)
        np.negative(noise, out=noise)
    return torch.from_numpy(noise)


def sample(weights: Array, uniform_value: float) -> int:
    """Return the token that a number in (0, 1) selects from non-negative weights (V,) by inverse CDF.

    The weights are float64 on the host and need not sum to one; a token of weight zero is never selected.
    Raises ValueError if all weights are zero.
    """
    edges = weights.numpy().cumsum()
    total = float(edges[-1])
    if not total > 0.0:
        raise ValueError("nothing to sample from: the weights sum to zero")
    token = int(edges.searchsorted(uniform_value * total, side="right"))
    return token if token < len(edges) else int(weights.nonzero()[-1])


class Chance(Protocol):
    """The source of random decisions for the acceptance rules; a proof can enumerate them instead."""

    def happens(self, probability: float, purpose: Purpose, position: int, index: int = 0) -> bool:
        """Return whether an event of this probability happens."""

    def pick(self, weights: Array, purpose: Purpose, position: int, index: int = 0) -> int:
        """Return a token with probability proportional to its weight in (V,)."""


@dataclass(frozen=True)
class CounterChance(Chance):
    """Decisions computed from the seed, the purpose, the position and the index."""

    seed: int

    def happens(self, probability: float, purpose: Purpose, position: int, index: int = 0) -> bool:
        return uniform(self.seed, purpose, position, index) < probability

    def pick(self, weights: Array, purpose: Purpose, position: int, index: int = 0) -> int:
        return sample(weights, uniform(self.seed, purpose, position, index))
