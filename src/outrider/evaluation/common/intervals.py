# SPDX-License-Identifier: Apache-2.0
"""Confidence intervals of 95 %: of a share by Wilson's formula, of other figures by a bootstrap."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from outrider.core.ports import Array

Interval = tuple[float, float]
"""The lower and the upper bound."""
Z_95 = 1.959964
"""The 97.5th percentile of the normal distribution."""
REPEATS = 2000


def wilson_interval(successes: int, trials: int) -> Interval:
    """Returns the interval of a share (Wilson 1927).

    Raises ValueError unless 0 <= successes <= trials and there is a trial.
    """
    if not 0 <= successes <= trials or trials == 0:
        raise ValueError(f"{successes} of {trials} is no share")
    share, z2 = successes / trials, Z_95**2
    middle = share + z2 / (2 * trials)
    half = Z_95 * math.sqrt(share * (1 - share) / trials + z2 / (4 * trials**2))
    low, high = ((middle + sign * half) / (1 + z2 / trials) for sign in (-1.0, 1.0))
    return max(0.0, low), min(1.0, high)


def bootstrap_interval(
    rows: Sequence[object], statistic: Callable[[Array], Array], seed: int = 0
) -> Interval:
    """Returns the percentile interval of a statistic over samples drawn with replacement.

    `statistic` takes an array of shape (REPEATS, number of rows, ...) and returns one figure per repeat.
    """
    samples = np.asarray(rows, dtype=np.float64)
    drawn = np.random.default_rng([seed, 31]).integers(0, len(samples), (REPEATS, len(samples)))
    low, high = np.quantile(statistic(samples[drawn]), (0.025, 0.975))
    return float(low), float(high)


def percentile(values: Sequence[float], share: float) -> float:
    """Returns the quantile of the values at `share`, from 0 to 1, by linear interpolation."""
    return float(np.quantile(values, share))


def median_interval(values: Sequence[float]) -> Interval:
    """Returns the bootstrap interval of the median."""
    return bootstrap_interval(values, lambda samples: np.median(samples, axis=1))


def mean_difference_interval(pairs: Sequence[Interval]) -> Interval:
    """Returns the bootstrap interval of the mean of first minus second."""
    return bootstrap_interval(pairs, lambda samples: (samples[..., 0] - samples[..., 1]).mean(axis=1))


def speedup_interval(tokens_s: Sequence[Interval], base_tokens_s: Sequence[Interval]) -> Interval:
    """Returns the bootstrap interval of a ratio of speeds over the same texts in the same order.

    Each text is its number of tokens and the seconds that they took.
    """

    def ratio(samples: Array) -> Array:
        tokens, seconds, base_tokens, base_seconds = np.moveaxis(samples.sum(axis=1), -1, 0)
        return tokens / seconds * base_seconds / base_tokens

    rows = [(*own, *base) for own, base in zip(tokens_s, base_tokens_s, strict=True)]
    return bootstrap_interval(rows, ratio)
