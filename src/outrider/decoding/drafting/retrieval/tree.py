# SPDX-License-Identifier: Apache-2.0
"""A tree of retrieved drafts with a bounded number of tokens,
for a target that verifies it in one forward pass.

As in sd.npu, sections 4.3 and 4.4: each position branches into what the context and the prefill make likely,
and rejected segments are further branches. The likeliest nodes are taken first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from typing import Any, NamedTuple

from outrider.decoding.drafting.retrieval.suffix import Detour, Spot

_Node = dict[int, Any]
"""The nodes after a node, by token."""


class Way(NamedTuple):
    """A token after another or after the text, the chance that the target writes everything up to it, and
    its continuation: `rest` first, then a spot in the context.
    """

    chance: float
    token: int
    spot: Spot | Detour | None
    rest: tuple[int, ...] = ()


class TokenTree:
    """Paths after one text that share their common prefixes; at most `most_tokens` tokens in all."""

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
        """The path that follows the child added first at each node."""
        tokens, node = list[int](), self.root
        while node:
            token = next(iter(node))
            tokens.append(token)
            node = node[token]
        return tuple(tokens)

    def add(self, node: _Node, token: int) -> _Node:
        """Return the node of a token after `node`, created if missing; a new one needs room."""
        if token not in node:
            node[token] = {}
            self.num_tokens += 1
        after: _Node = node[token]
        return after

    def holds(self, tokens: Sequence[int]) -> bool:
        """Return whether a path begins with these tokens."""
        node = self.root
        for token in tokens:
            if token not in node:
                return False
            node = node[token]
        return True


def grown_tree(ways: Iterable[Way], onward: Callable[[Way], Iterable[Way]], most_tokens: int) -> TokenTree:
    """Return a tree of the likeliest ways, as many as fit, each continued by `onward`."""
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
