# SPDX-License-Identifier: Apache-2.0
"""Edit distances: of two words by their letters, and of a sentence and a row of tokens by their words."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from operator import itemgetter

Pair = tuple[str, str, str]
"""A word as it is said, the token that it is taken for, and the word that is meant."""
_Rank = tuple[int, int, int, str]
_NUM_BITS, _MOST_KEPT = 64, 4096
_cost = itemgetter(0)


class Spellings:
    """Words among which one that is misspelt is looked for, by their lengths and letters."""

    def __init__(self, words: Iterable[str]) -> None:
        self._held: dict[int, list[tuple[int, int, str]]] = {}
        self._alike: dict[str, list[str]] = {}
        self._near: dict[str, tuple[str, ...]] = {}
        for at, word in enumerate(words):
            self._held.setdefault(len(word), []).append((at, _letters(word), word))
            self._alike.setdefault("".join(sorted(word)), []).append(word)

    def near(self, word: str) -> tuple[str, ...]:
        """The nearest two of the words that are no more slips of the keyboard away than are likely.

        Of several the one with the same first and last letter, few slip there; then the first.
        """
        if word not in self._near:
            if len(self._near) >= _MOST_KEPT:
                self._near.clear()
            self._near[word] = tuple(c for *_, c in sorted(self._ranked(word))[:2])
        return self._near[word]

    def swapped(self, word: str) -> str:
        """The first of the words that is this one but for two neighbouring letters; empty for none."""
        alike = self._alike.get("".join(sorted(word)), ())
        return next((known for known in alike if num_slips(word, known) == 1), "")

    def _ranked(self, word: str) -> Iterator[_Rank]:
        most = _most_slips(word)
        lengths = range(len(word) - most, len(word) + most + 1)
        return _ranked(word, most, itertools.chain(*(self._held.get(length, ()) for length in lengths)))


def closest(word: str, choices: Iterable[str]) -> str:
    """The choice that the word is a slip of the keyboard away from; empty where there is none.

    Of several the one with the same first and last letter: few slip there.
    """
    most = _most_slips(word)
    near = ((at, _letters(c), c) for at, c in enumerate(choices) if abs(len(c) - len(word)) <= most)
    return min(_ranked(word, most, near), default=(0, 0, 0, ""))[-1]


def _most_slips(word: str) -> int:
    """How many slips of the keyboard are likely in a word."""
    return 0 if len(word) < 3 else 1 if len(word) < 6 else 2


def _ranked(word: str, most: int, held: Iterable[tuple[int, int, str]]) -> Iterator[_Rank]:
    """Those of some words, each with its number and letters, that are at most so many slips away."""
    letters = _letters(word)
    for at, other, c in held:
        if (other & ~letters).bit_count() <= most and (letters & ~other).bit_count() <= most:
            slips = num_slips(word, c)
            if slips <= most:
                yield slips, (c[0] != word[0]) + (c[-1] != word[-1]), at, c


def num_slips(one: str, other: str) -> int:
    """Letters left out, added, changed, or swapped with their neighbour: the restricted Damerau distance."""
    before, row = list[int](), list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        before, last, row = row, before, [i]
        for j, b in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
    return row[-1]


@lru_cache(8192)
def _letters(word: str) -> int:
    """A set of the letters of a word, with those that it has twice, as bits.

    A slip brings at most one bit in and takes at most one out, so that few words need to be compared.
    """
    once = twice = 0
    for letter in word:
        bit = 1 << (ord(letter) % _NUM_BITS)
        once, twice = once | bit, twice | (once & bit)
    return once | twice << _NUM_BITS


def aligned(
    words: Sequence[str],
    tokens: Sequence[str],
    extra: Callable[[str], float],
    missing: Callable[[str], tuple[float, str]],
    price: Callable[[str, str], tuple[float, str]],
) -> tuple[float, list[Pair]]:
    """The cheapest alignment of a sentence with tokens: its cost, and its pairs. Wagner and Fischer, 1974.

    `extra` gives the cost of a word without a token. `missing`, for a token without a word, and `price`, for
    a word taken for a token, give the cost and the word that is meant. A missing word is said as "".
    """
    extras = list(map(extra, words))
    costs = itertools.accumulate(extras, initial=0.0)
    column: list[tuple[float, list[Pair]]] = [(cost, []) for cost in costs]
    for token in tokens:
        lacking, meant = missing(token)
        before, column = column, []
        for row, (cost, pairs) in enumerate(before):
            ways: list[tuple[float, list[Pair], Pair | None]] = [(cost + lacking, pairs, ("", token, meant))]
            if row > 0:
                word, (above, known), (aside, others) = words[row - 1], column[-1], before[row - 1]
                taken, meant_word = price(word, token)
                ways.append((above + extras[row - 1], known, None))
                ways.append((aside + taken, others, (word, token, meant_word)))
            least, known, pair = min(ways, key=_cost)
            column.append((least, [*known, pair] if pair else known))
    return column[-1]
