# SPDX-License-Identifier: Apache-2.0
"""Distributions on a grid, so that what crosses the wire is exactly what was sampled from and tested against.

A gridded distribution is float64 with every probability a multiple of 2^-bits and a sum of exactly 1. Sums,
differences and cumulative sums of such numbers are exact in float64, so the acceptance rules compute without
rounding error, and the two sides with the same numbers.

The draft may propose from any distribution without harm to the text; its grid is coarse (16 bits: a
probability is two bytes on the wire). That lowers the acceptance rate by no more than the distance it moves:
about 0.003 for a peaked row of 151,936 tokens at temperature 1, up to 0.1 for a nearly flat one.

Two peers that aggregate send each other a very coarse grid (10 bits), rounded at random and without bias
(`unbiased_grid`), so that what is drawn follows the distributions as they were.

The target's grid defines what the text is distributed as under `rejection`, `split` and `sparse`. It is fine
(32 bits): the total variation distance to the softmax is at most (number of tokens with mass) * 2^-33, under
2e-5 for 151,936 tokens.
"""

from __future__ import annotations

import numpy as np

from outrider.core.ports import Array
from outrider.decoding.acceptance.sampling import probabilities
from outrider.decoding.protocol.sampling_rules import Sampling

TARGET_BITS = 32
DRAFT_BITS = 16
PEER_BITS = 10


def on_grid(probs: Array, bits: int) -> Array:
    """The gridded distribution nearest in its cumulative sums to probs (..., V).

    Rounding the cumulative sums keeps the total exactly 1, moves no probability by 2^-bits or more, and gives
    nothing to a token that had nothing.
    """
    edges = probs.double().cumsum(-1)
    counts = (edges / (edges[..., -1:] * 2.0**-bits)).round_()
    counts[..., 1:].sub_(counts[..., :-1].clone())
    return counts.mul_(2.0**-bits)


def unbiased_grid(probs: Array, bits: int, offset: float) -> Array:
    """A gridded distribution whose mean over offsets, uniform in (0, 1), is probs (V,) exactly.

    Systematic rounding: the cumulative sums in units of 2^-bits, plus the offset, are rounded down. A token
    of n + r units gets n or n + 1 of them, one with nothing gets nothing, and the sum is 1. So few bits make
    a short message of a long tail, and who draws from what is left of it draws from probs all the same.
    """
    edges = probs.double().cumsum(-1)
    counts = (edges / edges[-1] * 2.0**bits + offset).floor_()
    counts[-1] = 2.0**bits
    counts[1:] -= counts[:-1].clone()
    return counts.mul_(2.0**-bits)


def target_distribution(logits: Array, sampling: Sampling) -> Array:
    """What the target's next token is distributed as, on its grid: float64 (..., V) on the CPU."""
    return on_grid(probabilities(logits, sampling).cpu(), TARGET_BITS)


def draft_distribution(logits: Array, sampling: Sampling) -> Array:
    """What the draft proposes from, on its grid: float64 (..., V) on the CPU."""
    return on_grid(probabilities(logits, sampling).cpu(), DRAFT_BITS)


def counts_of(rows: Array, bits: int) -> np.ndarray:
    """int64 (..., V): gridded distributions in units of 2^-bits. Raises ValueError for any other."""
    counts = rows.numpy() * 2.0**bits
    whole: np.ndarray = counts.astype(np.int64)
    if (whole != counts).any() or whole.min() < 0 or (whole.sum(-1) != 1 << bits).any():
        raise ValueError(f"not a distribution on the grid of {bits} bits: use target_ or draft_distribution")
    return whole
