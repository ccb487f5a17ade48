# SPDX-License-Identifier: Apache-2.0
"""Numbers as people say them: digits, words and halves. What is not one plain number is none."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

DIGITS = r"\d+(?:[.,'_]\d+)*"
"""An expression for a number in digits, with all that people part them by."""
_PLAIN = re.compile(r"\d+(?:([.,])\d+)?", re.ASCII)
_THOUSANDS = re.compile(r"[1-9]\d{0,2}([.,'_])\d{3}(?:\1\d{3})*", re.ASCII)

_Term = tuple[float, float]
"""What is added to a number, and what the next must be less than: 5 after "twenty", nothing after "five"."""


@dataclass(frozen=True)
class Numerals:
    """The number words of a language.

    `joiners` stand between parts of a number ("and"), `fillers` anywhere in it; `singles` mean 1 alone ("a").
    """

    values: Mapping[str, float]
    multipliers: Mapping[str, float]
    fillers: frozenset[str]
    joiners: frozenset[str] = frozenset()
    singles: frozenset[str] = frozenset()
    decimal_sign: str = "."

    @property
    def words(self) -> tuple[str, ...]:
        """All words that a number is said in."""
        return (*self.values, *self.multipliers, *self.fillers, *self.joiners)

    def read(self, tokens: Sequence[str]) -> float | None:
        """The number of some words; None where they are not one plain number.

        "two and a half" is 2.5, "einen halben" and "one half" are 0.5, "one hundred and twenty" is 120. None:
        "one two", "90 45", "five and", and 1.000 in English, which other languages write for a thousand.
        """
        if len(tokens) == 1 and tokens[0] in self.singles:
            return 1.0
        terms, is_joined = list[_Term](), False
        for word in self._grouped(tokens):
            if word in self.joiners and terms and not is_joined:
                is_joined = True
            elif word not in self.fillers:
                if not self._add(terms, word, is_joined):
                    return None
                is_joined = False
        return sum(value for value, _ in terms) if terms and not is_joined else None

    def digits(self, said: str) -> float | None:
        """The number of some digits; None for no plain number.

        Where a point parts decimals, 1,000 is a thousand and 1,5 is no number. Where a comma does, 1.000 is a
        thousand and a point before any other number of digits parts decimals too.
        """
        thousands = _THOUSANDS.fullmatch(said)
        if thousands and thousands[1] != self.decimal_sign:
            return float(said.replace(thousands[1], ""))
        plain = _PLAIN.fullmatch(said)
        return float(said.replace(",", ".")) if plain and plain[1] in (None, ".", self.decimal_sign) else None

    def _add(self, terms: list[_Term], word: str, is_joined: bool) -> bool:
        """Adds the term that a word is, or multiplies the last by it; False where neither is a number."""
        if word in self.multipliers:
            times, factor = self.multipliers[word], 1.0
            if terms and terms[-1][0] < times:
                factor, _ = terms.pop()
            term = (factor * times, times)
        elif word in self.values:
            term = self.values[word], _unit(self.values[word])
            if term[0] < 1.0 and not is_joined and terms:
                if terms != [(1.0, 1.0)]:
                    return False
                terms.clear()
        else:
            value = self.digits(word)
            if value is None or terms or (_THOUSANDS.fullmatch(word) and self.decimal_sign in word):
                return False
            term = value, 1.0
        fits = term[0] < (terms[-1][1] if terms else math.inf)
        terms.append(term)
        return fits

    def _grouped(self, tokens: Sequence[str]) -> Iterator[str]:
        """The words, with those put together that are one number, the longest first: "quatre vingt"."""
        at = 0
        while at < len(tokens):
            runs = ((end, " ".join(tokens[at:end])) for end in range(len(tokens), at + 1, -1))
            end, word = next((run for run in runs if run[1] in self.values), (at + 1, tokens[at]))
            yield word
            at = end


def _unit(value: float) -> float:
    """What a number word leaves to be said: 100 of a hundred, 10 of twenty, 1 of five, nothing of a half."""
    return next((unit for unit in (100.0, 10.0) if value > 10.0 and value % unit == 0.0), float(value >= 1.0))
