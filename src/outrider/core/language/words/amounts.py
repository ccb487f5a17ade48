# SPDX-License-Identifier: Apache-2.0
"""Numbers as people write and say them: digits, words and halves. Only one plain number counts."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from outrider.core.language.words.signs import plain

_DIGITS = r"(?:\d+/\d+|[½¼¾]|\d+(?:[.,'_]\d+)*)"
DIGITS = rf"[.,]?{_DIGITS}"
"""An expression for a number in digits, with all separators and a sign that may begin it."""
_DECIMAL_SIGNS = {"point": ".", "comma": ","}
_LEADING_SIGNS = {".": r"(?<!\d)\.", ",": r"(?<!\d)\.|(?<![\w.,]),"}
"""The sign that may begin a number, by the decimal sign: a comma only after a blank."""
_PLAIN = re.compile(r"(?=.?\d)\d*(?:([.,])\d+)?", re.ASCII)
_THOUSANDS = re.compile(r"[1-9]\d{0,2}([.,'_])\d{3}(?:\1\d{3})*", re.ASCII)
_AFTER_POINT = re.compile(r"[0-9]+")
_FRACTION = re.compile(r"([1-9])/([1-9]\d?)", re.ASCII)
_FRACTIONS = {"½": "1/2", "¼": "1/4", "¾": "3/4"}

_Term = tuple[float, float]
"""A term of a number, and the bound that the next must be below: 5 may follow "twenty", nothing "five"."""


@dataclass(frozen=True)
class Token:
    """A word, number or sign of a sentence as phrases match it, and its span in the sentence."""

    word: str
    start: int
    end: int


def written_digits(decimal_sign: str) -> str:
    """Return an expression for a number in digits in a sentence: also ".5", but no full stop and more."""
    return rf"(?:{_LEADING_SIGNS[decimal_sign]})?{_DIGITS}"


@dataclass(frozen=True)
class Numerals:
    """The number words of a language.

    `joiners` are between parts of a number ("and"), `fillers` anywhere in it; `singles` mean 1 if alone
    ("a"). `points` separate decimals ("point"), each with the number word before it that it includes, if
    any. `halves` follow a unit ("and a half"). `shortens`: a last digit directly after a hundred or more
    counts tens of it or more, as in Chinese: "hundred five" is 150, and "one metre five" 1.5 m; elsewhere
    "one metre fifty" is.
    """

    values: Mapping[str, float]
    multipliers: Mapping[str, float]
    fillers: frozenset[str]
    joiners: frozenset[str] = frozenset()
    singles: frozenset[str] = frozenset()
    decimal_sign: str = "."
    points: Mapping[str, str] = field(default_factory=dict)
    halves: tuple[str, ...] = ()
    shortens: bool = False

    @cached_property
    def words(self) -> tuple[str, ...]:
        """All words in which a number is said."""
        return (*self.values, *self.multipliers, *self.fillers, *self.joiners, *self.points)

    def surround(self, tokens: Sequence[Token], span: range) -> bool:
        """Return whether words for numbers are on both sides of a span: "twenty uh five" may be corrected."""
        before, after = tokens[: span.start][-1:], tokens[span.stop :][:1]
        numbers = self.values.keys() | self.multipliers.keys()
        return bool(before and after) and {before[0].word, after[0].word} <= numbers

    def read(self, tokens: Sequence[str]) -> float | None:
        """Return the number that the words say; None if they are not one plain number.

        "two and a half" is 2.5, "einen halben" and "one half" are 0.5, "one hundred and twenty" is 120,
        "two point five" is 2.5. None: "one two", "90 45", "five and", and in English 1.000, which other
        languages write for a thousand.
        """
        at = next((at for at, word in enumerate(tokens) if word in self.points), None)
        if at is not None:
            return self._decimal([*tokens[:at], *self.points[tokens[at]].split()], tokens[at + 1 :])
        if len(tokens) == 1 and tokens[0] in self.singles:
            return 1.0
        terms, is_joined = list[_Term](), False
        tokens = self._unshortened(tokens) if self.shortens else tokens
        for word in self._grouped(tokens):
            if word in self.joiners and terms and not is_joined:
                is_joined = True
            elif word not in self.fillers:
                if not self._add(terms, word, is_joined):
                    return None
                is_joined = False
        return sum(value for value, _ in terms) if terms and not is_joined else None

    def amount(self, text: str, units: Mapping[str, float]) -> float | None:
        """Return a number and its unit, if any, in the base unit; None if it is not a plain number.

        "And a half" after the unit adds half a unit to a whole number, or to one unit. A number after the
        unit counts hundredths of it: "one metre fifty" is 1.5.
        """
        half = next((half for half in self.halves if text.strip().endswith(f" {half}")), "")
        words = text.strip().removesuffix(half).split()
        at = next((at for at, word in enumerate(words) if word in units), len(words) - 1)
        if words[at + 1 :]:
            return self._with_hundredths(words[:at], units[words[at]], words[at + 1 :])
        *number, unit = words
        number += [] if unit in units else [unit]
        count = self.read(number) if number or not half else 1.0
        if count is None or (half and count % 1.0):
            return None
        return (count + (0.5 if half else 0.0)) * units.get(unit, 1.0)

    def _with_hundredths(self, number: Sequence[str], unit: float, more: Sequence[str]) -> float | None:
        """Return an amount such as "one metre fifty" in units; None if it is not one.

        The last number counts hundredths of a unit, or tenths if the language `shortens`.
        """
        count, rest = self.read(number), self.read(more)
        least, parts = (1.0, 10.0) if self.shortens else (10.0, 100.0)
        if count is None or rest is None or count % 1.0 or rest % 1.0 or unit != 1.0:
            return None
        return count + rest / parts if least <= rest < parts else None

    def parted(self, tokens: Sequence[Token], number_words: frozenset[str]) -> Iterator[Token]:
        """Yield tokens with hyphenated numbers and amounts split into words: "forty-five", "90-degrees".

        `number_words`: the words of numbers and units.
        """
        for at, token in enumerate(tokens):
            first, *more = self._compound_parts(token.word) or token.word.split("-")
            if more and (first in self.values or first in self.multipliers) and number_words.issuperset(more):
                yield from (Token(word, token.start, token.end) for word in (first, *more))
            elif not _is_hyphen(tokens[max(at - 1, 0) : at + 2], number_words):
                yield token

    def _compound_parts(self, word: str) -> list[str]:
        """Return the parts of a number written as one word around a hundred or the like;
        none for other words.
        """
        for times in (times for times in self.multipliers if times in word):
            parts = [part for part in word.partition(times) if part]
            if len(parts) > 1 and all(part in self.values or part in self.multipliers for part in parts):
                return parts
        return []

    def digits(self, written: str) -> float | None:
        """Return the number that digits say; None if it is not a plain number.

        If a point separates decimals, 1,000 is a thousand and 1,5 is not a number. If a comma does, 1.000
        is a thousand, and a point before any other number of digits separates decimals too.
        """
        thousands = _THOUSANDS.fullmatch(written)
        if thousands and thousands[1] != self.decimal_sign:
            return float(written.replace(thousands[1], ""))
        plain = _PLAIN.fullmatch(written)
        is_plain = plain is not None and plain[1] in (None, ".", self.decimal_sign)
        return float(written.replace(",", ".")) if is_plain else None

    def _unshortened(self, tokens: Sequence[str]) -> list[str]:
        """Return words with the multiplier that is omitted after a last digit:
        "one hundred five" means 150.
        """
        before, last = tokens[-2:-1], tokens[-1:]
        times = sum(self.multipliers.get(word, 0.0) for word in before) / 10.0
        is_digit = any(1.0 <= self.values.get(word, 0.0) < 10.0 for word in last)
        left_out = [word for word, value in self.multipliers.items() if value == times]
        return [*tokens, *left_out[:1]] if is_digit else list(tokens)

    def _decimal(self, whole: Sequence[str], tokens: Sequence[str]) -> float | None:
        """Return the number of the words before a point, if any, and of the digits after it, one by one."""
        count = self.read(whole) if whole else 0.0
        after = "".join(map(self._written, tokens))
        if (
            count is None
            or count % 1.0
            or not self.fillers.isdisjoint(whole)
            or not _AFTER_POINT.fullmatch(after)
        ):
            return None
        return float(f"{count:.0f}.{after}")

    def _written(self, word: str) -> str:
        """Return a word for a number below ten as its digit; any other word unchanged."""
        value = self.values.get(word, math.inf)
        return f"{value:g}" if value < 10.0 else word

    def _add(self, terms: list[_Term], word: str, is_joined: bool) -> bool:
        """Add a word as a term, or multiply the last term by it;
        return False if the result is not a number.
        """
        if word in self.multipliers:
            times, factor = self.multipliers[word], 1.0
            if terms and terms[-1][0] < times:
                factor, _ = terms.pop()
            term = (factor * times, times)
        elif word in self.values:
            term = self.values[word], _unit(self.values[word])
            if not term[0] and terms:
                return False
            if term[0] < 1.0 and not is_joined and terms:
                if terms != [(1.0, 1.0)]:
                    return False
                terms.clear()
        elif (fraction := _FRACTION.fullmatch(_FRACTIONS.get(word, word))) is not None:
            term = int(fraction[1]) / int(fraction[2]), 0.0
            if term[0] >= 1.0 or any(value % 1.0 for value, _ in terms):
                return False
        else:
            value = self.digits(word)
            if value is None or terms or (_THOUSANDS.fullmatch(word) and self.decimal_sign in word):
                return False
            term = value, 1.0
        fits = term[0] < (terms[-1][1] if terms else math.inf)
        terms.append(term)
        return fits

    def _grouped(self, tokens: Sequence[str]) -> Iterator[str]:
        """Yield the words; those that form one number are joined, the longest first: "quatre vingt"."""
        at = 0
        while at < len(tokens):
            runs = ((end, " ".join(tokens[at:end])) for end in range(len(tokens), at + 1, -1))
            end, word = next((run for run in runs if run[1] in self.values), (at + 1, tokens[at]))
            yield word
            at = end


def _is_hyphen(tokens: Sequence[Token], units: Collection[str]) -> bool:
    """Return whether the middle one of three tokens is a hyphen between digits and a unit, without spaces."""
    if len(tokens) < 3 or tokens[1].word != "-":
        return False
    before, sign, after = tokens
    is_glued = before.end == sign.start and sign.end == after.start
    return is_glued and before.word[-1].isdecimal() and after.word in units


def _unit(value: float) -> float:
    """Return the bound of what may follow: 100 for a hundred, 10 for twenty, 1 for five, 0 for a half."""
    return next((unit for unit in (100.0, 10.0) if value > 10.0 and value % unit == 0.0), float(value >= 1.0))


def numerals_of(data: Mapping[str, Any]) -> Numerals:
    """Return the numerals of a language's file."""
    numbers = {plain(word): float(value) for word, value in data["numbers"].items()}
    return Numerals(
        numbers | (_joined_tens(numbers, data["glue"]) if "glue" in data else {}),
        {plain(word): float(value) for word, value in data["multipliers"].items()},
        frozenset(map(plain, data["fillers"])),
        frozenset(map(plain, data["joiners"])),
        frozenset(map(plain, data["fillers"])) & frozenset(map(plain, data["articles"])),
        _DECIMAL_SIGNS[data.get("decimals", "point")],
        {plain(word): plain(before or "") for word, before in data.get("points", {}).items()},
        tuple(map(plain, data.get("halves", ()))),
        bool(data.get("shortens")),
    )


def _joined_tens(values: Mapping[str, float], glue: str) -> dict[str, float]:
    """Return the number words of ones and tens joined by a word: "fünfunddreißig"."""
    ones = [(word, value) for word, value in values.items() if 1.0 <= value < 10.0 and value % 1.0 == 0.0]
    tens = [(word, value) for word, value in values.items() if 20.0 <= value < 100.0 and value % 10.0 == 0.0]
    return {f"{one}{glue}{ten}": a + b for one, a in ones for ten, b in tens}
