"""A tree of retrieved drafts within a number of tokens, for a target that verifies all of it in one pass.

sd.npu sections 4.3 and 4.4: beside the likeliest continuation come what else the context and the prefill hold
likely on the way, each with how the context goes on from there, and rejected segments as further branches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

CHAIN_TOKENS = 8
"""The likeliest continuation, before any branch."""


class Branch(NamedTuple):
    """Tokens after the text, and the chance that the target takes the way up to where they leave the rest."""

    chance: float
    tokens: tuple[int, ...]


class TokenTree:
    """Paths after one text, their common beginnings held once; `num_tokens` of `most_tokens` are taken.

    `chain` is the first path.
    """

    def __init__(self, most_tokens: int) -> None:
        self._most_tokens = most_tokens
        self._root: dict[int, Any] = {}
        self.chain: tuple[int, ...] = ()
        self.num_tokens = 0

    def add(self, tokens: Iterable[int]) -> None:
        """As much of a path as there is room for."""
        tokens = tuple(tokens)
        self.chain = self.chain or tokens[: self._most_tokens]
        node = self._root
        for token in tokens:
            if token not in node:
                if self.num_tokens >= self._most_tokens:
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


def grown_tree(chain: Sequence[int], branches: Iterable[Branch], most_tokens: int) -> TokenTree:
    """The chain, then the branches by their chance, as far as there is room."""
    tree = TokenTree(most_tokens)
    tree.add(chain)
    for branch in sorted(branches, key=lambda branch: -branch.chance):
        tree.add(branch.tokens)
    return tree
