"""Confidence intervals have the coverage that they claim, and are the same on every run."""

from __future__ import annotations

import numpy as np
import pytest

from outrider.evaluation.common.intervals import (
    median_interval,
    percentile,
    speedup_interval,
    wilson_interval,
)


@pytest.mark.parametrize(
    ("successes", "trials", "expected"),
    [
        (0, 500, (0.0, 0.00762)),
        (147, 150, (0.94291, 0.99317)),
        (5, 5, (0.56552, 1.0)),
        (1, 2, (0.0945, 0.9055)),
    ],
)
def test_wilson_interval_is_the_published_one(
    successes: int, trials: int, expected: tuple[float, float]
) -> None:
    assert wilson_interval(successes, trials) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(("successes", "trials"), [(0, 0), (3, 2), (-1, 4)])
def test_what_is_no_share_has_no_interval(successes: int, trials: int) -> None:
    with pytest.raises(ValueError, match="no share"):
        wilson_interval(successes, trials)


def test_a_percentile_of_few_values_is_not_the_one_below() -> None:
    """The 90th percentile of twelve values is not the tenth value, which two exceed."""
    assert percentile(range(12, 0, -1), 0.9) == pytest.approx(10.9)
    assert percentile([3.0], 0.9) == 3.0
    assert percentile([1.0, 2.0, 4.0], 0.5) == 2.0


def test_a_median_lies_in_its_interval_nearly_always() -> None:
    rng = np.random.default_rng(5)
    hits = 0
    for _ in range(60):
        low, high = median_interval(list(rng.normal(1.0, 0.3, 25)))
        hits += low <= 1.0 <= high
    assert hits >= 51


def test_a_ratio_of_speeds_keeps_what_both_have_in_common() -> None:
    rng = np.random.default_rng(7)
    base = [(40.0, float(seconds)) for seconds in rng.uniform(1.0, 9.0, 12)]
    twice = [(tokens, seconds / 2.0) for tokens, seconds in base]
    assert speedup_interval(twice, base) == pytest.approx((2.0, 2.0))
    assert speedup_interval(twice, base[::-1]) != pytest.approx((2.0, 2.0))
    assert median_interval([1.0, 2.0, 4.0]) == median_interval([1.0, 2.0, 4.0])
