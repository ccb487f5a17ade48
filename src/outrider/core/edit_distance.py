# SPDX-License-Identifier: Apache-2.0
"""Edit distances: between two words by letters, and between a sentence and a sequence of tokens by words."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from operator import itemgetter

Pair = tuple[str, str, str]
"""A word as said, the token that it is matched with, and the word that is meant."""
_Rank = tuple[int, int, int, str]
_NUM_BITS, _MAX_KEPT = 64, 4096
_cost = itemgetter(0)


class Spellings:
    """Words in which a misspelt word is looked up, indexed by their lengths and letters."""

    def __init__(self, words: Iterable[str]) -> None:
        self._held: dict[int, list[tuple[int, int, str]]] = {}
        self._alike: dict[str, list[str]] = {}
        self._near: dict[str, tuple[str, ...]] = {}
        for at, word in enumerate(words):
            self._held.setdefault(len(word), []).append((at, _letters(word), word))
            self._alike.setdefault("".join(sorted(word)), []).append(word)

    def near(self, word: str) -> tuple[str, ...]:
        """Return the nearest two words within the number of typing errors that is likely.

        On a tie, words with the same first and last letter come first, because errors there are rare; then
        earlier words.
        """
        if word not in self._near:
            if len(self._near) >= _MAX_KEPT:
                self._near.clear()
            self._near[word] = tuple(c for *_, c in sorted(self._ranked(word))[:2])
        return self._near[word]

    def swapped(self, word: str) -> str:
        """Return the first word that differs only by two swapped neighbouring letters; empty if none does."""
        alike = self._alike.get("".join(sorted(word)), ())
        return next((known for known in alike if num_slips(word, known) == 1), "")

    def _ranked(self, word: str) -> Iterator[_Rank]:
        most = _most_slips(word)
        lengths = range(len(word) - most, len(word) + most + 1)
        return _ranked(word, most, itertools.chain(*(self._held.get(length, ()) for length in lengths)))


def closest(word: str, choices: Iterable[str]) -> str:
    """Return the choice nearest to the word within the likely number of typing errors;
    empty if there is none.

    On a tie, the one with the same first and last letter wins, because errors there are rare.
    """
    most = _most_slips(word)
    near = ((at, _letters(c), c) for at, c in enumerate(choices) if abs(len(c) - len(word)) <= most)
    return min(_ranked(word, most, near), default=(0, 0, 0, ""))[-1]


def _most_slips(word: str) -> int:
    """Return how many typing errors are likely in a word of this length."""
    return 0 if len(word) < 3 else 1 if len(word) < 6 else 2


def _ranked(word: str, most: int, held: Iterable[tuple[int, int, str]]) -> Iterator[_Rank]:
    """Yield the words, each given with its index and letters, that are at most `most` errors away."""
    letters = _letters(word)
    for at, other, c in held:
        if (other & ~letters).bit_count() <= most and (letters & ~other).bit_count() <= most:
            slips = num_slips(word, c)
            if slips <= most:
                yield slips, (c[0] != word[0]) + (c[-1] != word[-1]), at, c


def num_slips(word: str, other: str) -> int:
    """Return the number of letters omitted, added, changed or swapped: the restricted Damerau distance."""
    before, row = list[int](), list(range(len(other) + 1))
    for i, a in enumerate(word, 1):
        before, last, row = row, before, [i]
        for j, b in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and word[i - 2] == b:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
    return row[-1]


@lru_cache(8192)
def _letters(word: str) -> int:
    """Return the set of a word's letters, and of those that it has twice, as bits.

    One error adds at most one bit and removes at most one, so only few words need a full comparison.
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
    """Return the cost and the pairs of the cheapest alignment of a sentence with tokens
    (Wagner and Fischer, 1974).

    `extra` returns the cost of a word without a token. `missing`, for a token without a word, and `price`,
    for a word matched with a token, return the cost and the word that is meant. A missing word is said as
    "".
    """
    extras = list(map(extra, words))
    costs = itertools.accumulate(extras, initial=0.0)
    column: list[tuple[float, list[Pair]]] = [(cost, []) for cost in costs]
    for token in tokens:
        lacking, meant = missing(token)
        before, column = column, []
        for row, (cost, pairs) in enumerate(before):
            options: list[tuple[float, list[Pair], Pair | None]] = [
                (cost + lacking, pairs, ("", token, meant))
            ]
            if row > 0:
                word, (above, pairs_above), (aside, pairs_aside) = words[row - 1], column[-1], before[row - 1]
                taken, meant_word = price(word, token)
                options.append((above + extras[row - 1], pairs_above, None))
                options.append((aside + taken, pairs_aside, (word, token, meant_word)))
            least, pairs_above, pair = min(options, key=_cost)
            column.append((least, [*pairs_above, pair] if pair else pairs_above))
    return column[-1]
