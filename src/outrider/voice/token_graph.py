# SPDX-License-Identifier: Apache-2.0
"""A finite-state grammar over a speech model's tokens: which tokens may come next."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from outrider.core.errors import ConfigError
from outrider.voice.sentence_graph import WordGraph

SPACE = "\u2581"
"""The character with which a token begins that begins a word."""
SIGNS = (",", ".", "?", "!")

States = frozenset[int]
"""The states of the grammar that the tokens so far may have led to."""


class Pieces:
    """A model's tokens by their spelling. Words are encoded from letters, as in byte pair encoding."""

    def __init__(self, spellings: Sequence[bytes]) -> None:
        self._spellings = spellings
        self._ids: dict[bytes, int] = {}
        for token, spelling in enumerate(spellings):
            self._ids.setdefault(spelling, token)
        self.signs = frozenset(self._ids[sign.encode()] for sign in SIGNS if sign.encode() in self._ids)
        self.encode = lru_cache(None)(self._encode)

    @classmethod
    def read(cls, path: Path) -> Pieces:
        """Returns the tokens in a file: for each its length, in one or two bytes, and its bytes.

        Raises ConfigError for a file that ends too soon.
        """
        content = path.read_bytes()
        spellings, at = list[bytes](), 0
        while at < len(content):
            size, at = content[at], at + 1
            if size >= 128 and at < len(content):
                size, at = size - 128 + 128 * content[at], at + 1
            if at + size > len(content):
                raise ConfigError(f"{path} ends too soon: install its package again")
            spellings.append(content[at : at + size])
            at += size
        return cls(spellings)

    def decode(self, tokens: Sequence[int]) -> str:
        """Returns the text that tokens spell."""
        return (
            b"".join(self._spellings[token] for token in tokens).decode(errors="ignore").replace(SPACE, " ")
        )

    def _encode(self, word: str) -> tuple[int, ...]:
        parts = [letter.encode() for letter in f"{SPACE}{word}"]
        while True:
            joined = [self._ids.get(a + b, len(self._ids)) for a, b in pairwise(parts)]
            if not joined or min(joined) == len(self._ids):
                return tuple(self._ids[part] for part in parts)
            at = joined.index(min(joined))
            parts[at : at + 2] = [parts[at] + parts[at + 1]]


class TokenGraph:
    """A word graph spelt in tokens; each word may begin with a capital."""

    def __init__(self, words: WordGraph, pieces: Pieces) -> None:
        self._words, self._num_states = words, len(words.arcs)
        self._arcs: list[dict[int, list[int]]] = [{} for _ in words.arcs]
        for state, leading in enumerate(words.arcs):
            for word, after in leading:
                for form in dict.fromkeys((word, word.capitalize())):
                    self._add(state, pieces.encode(form), after)
        self.start = words.closure([words.start])
        self._known: dict[States, dict[int, States]] = {}

    def nexts(self, states: States) -> dict[int, States]:
        """Returns the tokens that may come next, each with the states that it leads to."""
        if states not in self._known:
            led: dict[int, set[int]] = {}
            for state in states:
                for token, after in self._arcs[state].items():
                    led.setdefault(token, set()).update(after)
            self._known[states] = {token: self._closure(after) for token, after in led.items()}
        return self._known[states]

    def may_end(self, states: States) -> bool:
        """Whether the tokens so far are a whole sentence."""
        return self._words.end in states

    def word_boundaries(self, states: States) -> States:
        """Returns the states that lie between words."""
        return frozenset(state for state in states if state < self._num_states)

    def _add(self, state: int, tokens: Sequence[int], after: int) -> None:
        for token in tokens[:-1]:
            self._arcs.append({})
            self._arcs[state].setdefault(token, []).append(len(self._arcs) - 1)
            state = len(self._arcs) - 1
        self._arcs[state].setdefault(tokens[-1], []).append(after)

    def _closure(self, states: set[int]) -> States:
        whole = self._words.closure([state for state in states if state < self._num_states])
        return whole | frozenset(state for state in states if state >= self._num_states)
