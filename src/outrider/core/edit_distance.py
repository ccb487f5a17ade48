# SPDX-License-Identifier: Apache-2.0
"""Edit distances: of two words by their letters, and of a sentence and a row of tokens by their words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

Pair = tuple[str, str, str]
"""A word as it is said, the token that it is taken for, and the word that is meant."""


def closest(word: str, choices: Iterable[str]) -> str:
    """The choice that the word is a slip of the keyboard away from; empty where there is none.

    Of several the one with the same first and last letter: few slip there.
    """
    slips = 0 if len(word) < 3 else 1 if len(word) < 6 else 2
    near = [
        (num_slips(word, c), (c[0] != word[0]) + (c[-1] != word[-1]), c)
        for c in choices
        if abs(len(c) - len(word)) <= slips
    ]
    least = min(near, default=(slips + 1, 0, ""), key=lambda one: one[:2])
    return least[2] if least[0] <= slips else ""


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
    rows: list[list[tuple[float, list[Pair]]]] = [[(0.0, [])]]
    for word in words:
        cost, pairs = rows[-1][0]
        rows.append([(cost + extra(word), pairs)])
    for token in tokens:
        lacking, meant = missing(token)
        for row in range(len(words) + 1):
            cost, pairs = rows[row][-1]
            ways = [(cost + lacking, [*pairs, ("", token, meant)])]
            if row > 0:
                above, before = rows[row - 1][-1], rows[row - 1][-2]
                taken, meant_word = price(words[row - 1], token)
                ways.append((above[0] + extra(words[row - 1]), above[1]))
                ways.append((before[0] + taken, [*before[1], (words[row - 1], token, meant_word)]))
            rows[row].append(min(ways, key=lambda way: way[0]))
    return rows[-1][-1]
