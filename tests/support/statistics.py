"""Pearson's chi-square test, for samples whose seeds are fixed."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping


def fits(sampled: Iterable[Hashable], expected: Mapping[Hashable, float]) -> bool:
    """Returns whether samples may come from a distribution, at a significance of about 3e-7."""
    samples = list(sampled)
    counts = dict.fromkeys(expected, 0)
    for sample in samples:
        if sample not in counts or expected[sample] == 0.0:
            return False
        counts[sample] += 1
    # Rare outcomes share a cell: the test needs about five expected samples per cell.
    cells = [(counts[key], len(samples) * prob) for key, prob in expected.items()]
    common = [cell for cell in cells if cell[1] >= 5.0]
    rare = [cell for cell in cells if cell[1] < 5.0]
    if rare:
        common.append((sum(seen for seen, _ in rare), max(sum(mean for _, mean in rare), 1e-9)))
    statistic = sum((seen - mean) ** 2 / mean for seen, mean in common)
    return statistic <= _critical(len(common) - 1)


def _critical(freedom: int) -> float:
    """Returns the five-sigma quantile of chi-square (Wilson and Hilferty 1931)."""
    spread = 2.0 / (9.0 * freedom)
    return freedom * (1.0 - spread + 5.0 * math.sqrt(spread)) ** 3
