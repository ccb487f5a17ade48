# SPDX-License-Identifier: Apache-2.0
"""Distributions on a grid: what crosses the wire is exactly what was sampled from and tested against.

A gridded distribution is float64, with every probability a multiple of 2^-bits and a sum of exactly 1.
Sums, differences and cumulative sums of such numbers are exact in float64. So the acceptance rules have no
rounding error, and both sides compute with the same numbers.

The draft may propose from any distribution without changing the text's distribution, so its grid is coarse
(16 bits: a probability is two bytes on the wire). The acceptance rate falls by at most the distance that
the grid moves the distribution: about 0.003 for a peaked row of 151,936 tokens at temperature 1, up to 0.1
for a nearly flat one.

Two peers that aggregate exchange distributions on a very coarse grid (10 bits). They are rounded at random
and without bias (`unbiased_grid`), so draws still follow the original distributions.

The target's grid defines the distribution of the text under `rejection`, `split` and `sparse`. It is fine
(32 bits): the total variation distance to the softmax is at most (number of tokens with mass) * 2^-33,
under 2e-5 for 151,936 tokens.
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
    """Return the gridded distribution whose cumulative sums are nearest to those of probs (..., V).

    Rounding the cumulative sums keeps the total exactly 1, moves no probability by 2^-bits or more, and
    gives no mass to a token that had none.
    """
    edges = probs.double().cumsum(-1)
    counts = (edges / (edges[..., -1:] * 2.0**-bits)).round_()
    counts[..., 1:].sub_(counts[..., :-1].clone())
    return counts.mul_(2.0**-bits)


def unbiased_grid(probs: Array, bits: int, offset: float) -> Array:
    """Return a gridded distribution whose mean over offsets, uniform in (0, 1), is exactly probs (V,).

    Systematic rounding: add the offset to the cumulative sums, in units of 2^-bits, and round down. A token
    of n + r units gets n or n + 1 of them, a token without mass gets none, and the sum is 1. With few bits
    a long tail becomes a short message, and draws from the rounded distributions still follow probs on
    average.
    """
    edges = probs.double().cumsum(-1)
    counts = (edges / edges[-1] * 2.0**bits + offset).floor_()
    counts[-1] = 2.0**bits
    counts[1:] -= counts[:-1].clone()
    return counts.mul_(2.0**-bits)


def target_distribution(logits: Array, sampling: Sampling) -> Array:
    """Return the distribution of the target's next token on its grid: float64 (..., V) on the CPU."""
    return on_grid(probabilities(logits, sampling).cpu(), TARGET_BITS)


def draft_distribution(logits: Array, sampling: Sampling) -> Array:
    """Return the distribution that the draft proposes from, on its grid: float64 (..., V) on the CPU."""
    return on_grid(probabilities(logits, sampling).cpu(), DRAFT_BITS)


def counts_of(rows: Array, bits: int) -> np.ndarray:
    """Return int64 (..., V): distributions in units of 2^-bits. Raises ValueError if they are not gridded."""
    counts = rows.numpy() * 2.0**bits
    whole: np.ndarray = counts.astype(np.int64)
    if (whole != counts).any() or whole.min() < 0 or (whole.sum(-1) != 1 << bits).any():
        raise ValueError(f"not a distribution on the grid of {bits} bits: use target_ or draft_distribution")
    return whole
