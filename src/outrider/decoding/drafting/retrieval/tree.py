# SPDX-License-Identifier: Apache-2.0
"""A tree of retrieved drafts within a number of tokens, for a target that verifies all of it in one pass.

sd.npu sections 4.3 and 4.4: what the context and the prefill hold likely at each place, and rejected segments
as further branches; the likeliest nodes get the room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from typing import Any, NamedTuple

from outrider.decoding.drafting.retrieval.suffix import Detour, Spot

_Node = dict[int, Any]
"""By token: the nodes after this one."""


class Way(NamedTuple):
    """A token after another or after the text, the chance that the target writes all up to it, and how it
    goes on: with `rest` as far as that goes, then from a spot in the context.
    """

    chance: float
    token: int
    spot: Spot | Detour | None
    rest: tuple[int, ...] = ()


class TokenTree:
    """Paths after one text, their common beginnings held once; `num_tokens` of `most_tokens` are taken."""

    def __init__(self, most_tokens: int) -> None:
        self._most_tokens = most_tokens
        self.root: _Node = {}
        self.num_tokens = 0

    @property
    def is_full(self) -> bool:
        """Whether the tree holds as many tokens as it may."""
        return self.num_tokens >= self._most_tokens

    @property
    def chain(self) -> tuple[int, ...]:
        """At each place the token that was added first, to the end."""
        tokens, node = list[int](), self.root
        while node:
            token = next(iter(node))
            tokens.append(token)
            node = node[token]
        return tuple(tokens)

    def add(self, node: _Node, token: int) -> _Node:
        """The node of a token after another, a new one if there is none; there must be room for it."""
        if token not in node:
            node[token] = {}
            self.num_tokens += 1
        after: _Node = node[token]
        return after

    def holds(self, tokens: Sequence[int]) -> bool:
        """Whether a path begins so."""
        node = self.root
        for token in tokens:
            if token not in node:
                return False
            node = node[token]
        return True


def grown_tree(ways: Iterable[Way], onward: Callable[[Way], Iterable[Way]], most_tokens: int) -> TokenTree:
    """The likeliest ways as far as there is room, each gone on with by `onward`."""
    tree = TokenTree(most_tokens)
    waiting: list[tuple[float, int, _Node, Way]] = []
    parent, number = tree.root, 0
    while not tree.is_full:
        for way in ways:
            number += 1
            heappush(waiting, (-way.chance, number, parent, way))
        if not waiting:
            break
        _, _, parent, way = heappop(waiting)
        is_new = way.token not in parent
        parent = tree.add(parent, way.token)
        ways = onward(way) if is_new or way.rest else ()
    return tree
