# SPDX-License-Identifier: Apache-2.0
"""Numbers as people say them: digits, words, halves, and what a unit makes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Numerals:
    """The number words of a language."""

    values: Mapping[str, float]
    multipliers: Mapping[str, float]
    fillers: frozenset[str]

    def read(self, tokens: Sequence[str]) -> float | None:
        """The number of some words; 1 for an article alone; None where they hold no number.

        "two and a half" is 2.5, "einen halben" and "one half" are 0.5, "one hundred and twenty" is 120.
        """
        total, number, last = 0.0, None, ""
        for token in tokens:
            if token in self.multipliers:
                total, number = total + (number or 1.0) * self.multipliers[token], None
            elif token not in self.fillers:
                value = self._value(token)
                if value is None:
                    return None
                replaces = number == 1.0 and value < 1.0 and last not in self.fillers
                number = value if number is None or replaces else number + value
            last = token
        if number is None and not total:
            return 1.0 if tokens else None
        return total + (number or 0.0)

    def _value(self, token: str) -> float | None:
        if token in self.values:
            return self.values[token]
        digits = token.replace(",", ".")
        return float(digits) if digits.replace(".", "", 1).isascii() and digits[:1].isdigit() else None
