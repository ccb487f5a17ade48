# SPDX-License-Identifier: Apache-2.0
"""A suffix automaton over many texts: finds where a text's suffix occurred before, and what followed it.

Built online (Blumer et al. 1985). For its use as a source of drafts see SAM-Decoding (Hu et al., arXiv
2411.10666).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import nlargest
from typing import NamedTuple

_ROOT = 0
_NOWHERE = -1
_BOUNDARY = -1
ENDS = 4
MAX_RANKED = 3
"""For the successors of a text: how many of its longest suffixes count, and how many tokens are returned."""


class Cursor(NamedTuple):
    """The longest suffix of a text that occurs in the automaton: its state, and its length in tokens."""

    state: int
    length: int


START = Cursor(_ROOT, 0)


class Match(NamedTuple):
    """The last `length` tokens of a text occurred before; `at` is the index after their latest occurrence."""

    length: int
    at: int


class SuffixAutomaton:
    """Every run of tokens of every text so far. No run spans two texts.

    Appending a token costs time in proportion to the number of distinct suffix states of the text: a
    handful in language, the text's own length in the worst case (one token repeated).
    """

    def __init__(self) -> None:
        self._tokens: list[int] = []
        self._next: list[dict[int, int]] = [{}]
        self._link = [_NOWHERE]
        self._length = [0]
        self._follow = [_NOWHERE]
        """By state: the index of the token after its latest occurrence that is followed by one."""
        self._counts: list[dict[int, int]] = [{}]
        """By state: how often each token followed it."""
        self._totals = [0]
        """By state: how often any token followed it."""
        self._most_frequent: dict[int, list[int]] = {}
        """Cache by state: its MAX_RANKED most frequent successors, the most frequent first."""
        self._successors: dict[int, list[tuple[int, float]]] = {}
        """Cache of `successors` by state, valid until the next token."""
        self._reached: list[int] = []
        """By token index: the state of the text up to and with that token."""
        self._last = _ROOT

    @property
    def num_tokens(self) -> int:
        """The number of tokens held, plus one for each text begun."""
        return len(self._tokens)

    @property
    def end(self) -> Cursor:
        """The cursor at the end of the whole current text."""
        return Cursor(self._last, self._length[self._last])

    def begin(self) -> None:
        """Start a new text."""
        self._tokens.append(_BOUNDARY)
        self._last = _ROOT
        self._reached.append(_ROOT)

    def append(self, token: int) -> None:
        """Append a token to the current text."""
        self._successors.clear()
        self._note_following(token)
        self._tokens.append(token)
        self._last = self._extended(token)
        self._reached.append(self._last)

    def cursor_at(self, at: int) -> Cursor:
        """Return the cursor of the whole text that holds token index `at`, up to but without that token."""
        state = self._reached[at - 1]
        return Cursor(state, self._length[state])

    def walk(self, cursor: Cursor, tokens: Iterable[int]) -> Cursor:
        """Return the cursor after `tokens` follow the cursor's text."""
        for token in tokens:
            cursor = self.step(cursor, token)
        return cursor

    def step(self, cursor: Cursor, token: int) -> Cursor:
        """Return the cursor after `token` follows the cursor's text."""
        state, length = cursor
        while token not in self._next[state]:
            if state == _ROOT:
                return START
            state = self._link[state]
            length = self._length[state]
        return Cursor(self._next[state][token], length + 1)

    def match(self, cursor: Cursor) -> Match | None:
        """Return the longest suffix of the cursor's text that was followed by a token, or None."""
        state, length = cursor
        while state != _ROOT and self._follow[state] == _NOWHERE:
            state = self._link[state]
        length = min(length, self._length[state])
        return Match(length, self._follow[state]) if length else None

    def belief(self, cursor: Cursor, token: int) -> float:
        """Return the share of `token` among the tokens that followed the cursor's text.

        Shorter suffixes are interpolated where the longer ones have few observations (Witten and Bell
        1991).
        """
        belief = 0.0
        for state in self.ends(cursor):
            counts = self._counts[state]
            if counts:
                kinds = len(counts)
                belief = (counts.get(token, 0) + kinds * belief) / (self._totals[state] + kinds)
        return belief

    def successors(self, cursor: Cursor) -> list[tuple[int, float]]:
        """Return the likeliest tokens after the cursor's text, each with its share; MAX_RANKED at most.

        The shares are those of `belief`, from the longest ENDS suffixes only. The token that followed the
        latest occurrence comes first if it is among the likeliest.
        """
        state = cursor.state
        if state not in self._successors:
            self._successors[state] = self._ranked(self._followed_suffixes(state))
        return self._successors[state]

    def _ranked(self, ends: list[int]) -> list[tuple[int, float]]:
        shares: dict[int, float] = {}
        for state in ends:
            shares |= dict.fromkeys(self._frequent(state), 0.0)
            if len(shares) >= MAX_RANKED:
                break
        for state in reversed(ends):
            counts, kinds = self._counts[state], len(self._counts[state])
            seen = self._totals[state] + kinds
            for token, share in shares.items():
                shares[token] = (counts.get(token, 0) + kinds * share) / seen
        likeliest = sorted(shares, key=shares.__getitem__, reverse=True)[:MAX_RANKED]
        latest = self._tokens[self._follow[ends[0]]] if ends and ends[0] != _ROOT else None
        if latest in likeliest[1:]:
            likeliest.remove(latest)
            likeliest.insert(0, latest)
        return [(token, shares[token]) for token in likeliest]

    def _frequent(self, state: int) -> list[int]:
        """Return the tokens that most often followed a state."""
        if state not in self._most_frequent:
            counts = self._counts[state]
            self._most_frequent[state] = nlargest(MAX_RANKED, counts, key=counts.__getitem__)
        return self._most_frequent[state]

    def _followed_suffixes(self, state: int) -> list[int]:
        """Return the states of the longest suffixes of a state's text that were followed by a token,
        ENDS at most.
        """
        found: list[int] = []
        while state != _NOWHERE and len(found) < ENDS:
            if self._totals[state]:
                found.append(state)
            state = self._link[state]
        return found

    def ends(self, cursor: Cursor) -> list[int]:
        """Return the states of all distinct suffixes of a cursor's text, the empty one first."""
        path, state = [], cursor.state
        while state != _NOWHERE:
            path.append(state)
            state = self._link[state]
        return path[::-1]

    def following(self, at: int, limit: int) -> Sequence[int]:
        """Return at most `limit` tokens from an index on, up to the end of their text."""
        tokens = self._tokens[at : at + limit]
        return tokens[: tokens.index(_BOUNDARY)] if _BOUNDARY in tokens else tokens

    def _note_following(self, token: int) -> None:
        """Count a token as following every suffix of the current text."""
        index, state = len(self._tokens), self._last
        while state != _NOWHERE:
            counts = self._counts[state]
            counts[token] = counts.get(token, 0) + 1
            self._totals[state] += 1
            self._most_frequent.pop(state, None)
            self._follow[state] = index
            state = self._link[state]

    def _extended(self, token: int) -> int:
        """Return the state of the current text plus `token`."""
        known = self._next[self._last].get(token)
        if known is not None:
            return self._exact(self._last, token, known)
        new = self._new_state(self._length[self._last] + 1)
        state = self._last
        while state != _NOWHERE and token not in self._next[state]:
            self._next[state][token] = new
            state = self._link[state]
        self._link[new] = _ROOT if state == _NOWHERE else self._exact(state, token, self._next[state][token])
        return new

    def _exact(self, state: int, token: int, reached: int) -> int:
        """Return the state whose longest run is that of `state` plus `token`: `reached`,
        or a clone split off it.
        """
        length = self._length[state] + 1
        if self._length[reached] == length:
            return reached
        clone = self._new_state(length)
        self._next[clone] = dict(self._next[reached])
        self._counts[clone] = dict(self._counts[reached])
        self._totals[clone] = self._totals[reached]
        self._link[clone], self._follow[clone] = self._link[reached], self._follow[reached]
        self._link[reached] = clone
        while state != _NOWHERE and self._next[state].get(token) == reached:
            self._next[state][token] = clone
            state = self._link[state]
        return clone

    def _new_state(self, length: int) -> int:
        self._next.append({})
        self._counts.append({})
        self._totals.append(0)
        self._link.append(_ROOT)
        self._length.append(length)
        self._follow.append(_NOWHERE)
        return len(self._length) - 1
