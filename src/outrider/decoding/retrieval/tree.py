"""A tree of retrieved drafts within a number of tokens, for a target that verifies all of it in one pass.

sd.npu sections 4.3 and 4.4: what the context and the prefill hold likely at each place, and rejected segments
as further branches; the likeliest nodes get the room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

from outrider.decoding.retrieval.suffix import Spot


class Way(NamedTuple):
    """Tokens after the text, the chance that the target takes this way, and how it goes on: with `rest` as
    far as that goes, then from a spot in the context.
    """

    chance: float
    tokens: tuple[int, ...]
    spot: Spot | None
    rest: tuple[int, ...] = ()


class TokenTree:
    """Paths after one text, their common beginnings held once; `num_tokens` of `most_tokens` are taken."""

    def __init__(self, most_tokens: int) -> None:
        self._most_tokens = most_tokens
        self._root: dict[int, Any] = {}
        self.num_tokens = 0

    @property
    def is_full(self) -> bool:
        return self.num_tokens >= self._most_tokens

    @property
    def chain(self) -> tuple[int, ...]:
        """At each place the token that was added first, to the end."""
        tokens, node = list[int](), self._root
        while node:
            token = next(iter(node))
            tokens.append(token)
            node = node[token]
        return tuple(tokens)

    def add(self, tokens: Iterable[int]) -> None:
        """As much of a path as there is room for."""
        node = self._root
        for token in tokens:
            if token not in node:
                if self.is_full:
                    return
                node[token] = {}
                self.num_tokens += 1
            node = node[token]

    def holds(self, tokens: Sequence[int]) -> bool:
        """Whether a path begins so."""
        node = self._root
        for token in tokens:
            if token not in node:
                return False
            node = node[token]
        return True


def grown_tree(ways: Iterable[Way], onward: Callable[[Way], Iterable[Way]], most_tokens: int) -> TokenTree:
    """The likeliest ways as far as there is room, each gone on with by `onward`."""
    tree = TokenTree(most_tokens)
    waiting = [(-way.chance, number, way) for number, way in enumerate(ways)]
    heapify(waiting)
    number = len(waiting)
    while waiting and not tree.is_full:
        _, _, way = heappop(waiting)
        if way.tokens and tree.holds(way.tokens) and not way.rest:
            continue
        tree.add(way.tokens)
        for further in onward(way):
            number += 1
            heappush(waiting, (-further.chance, number, further))
    return tree
