# SPDX-License-Identifier: Apache-2.0
"""A suffix automaton over many texts: where the end of a text stood before, and what came after it there.

Built online (Blumer et al. 1985). As a source of drafts: SAM-Decoding (Hu et al., arXiv 2411.10666).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import nlargest
from typing import NamedTuple

_ROOT = 0
_NOWHERE = -1
_BOUNDARY = -1
ENDS = 4
MOST_RANKED = 3
"""Of what came after a text, the longest ends that are looked at, and the tokens that are told."""


class Cursor(NamedTuple):
    """The longest end of a text that the automaton knows: its state, and its length in tokens."""

    state: int
    length: int


START = Cursor(_ROOT, 0)


class Match(NamedTuple):
    """The last `length` tokens of a text stood before, last where `at` is the index of what follows."""

    length: int
    at: int


class SuffixAutomaton:
    """Every run of tokens of every text so far. No run goes from one text into the next.

    A token costs time in proportion to the distinct lengths at which the text's end stood before: a handful
    in language, the text's own length in the worst case (one token over and over).
    """

    def __init__(self) -> None:
        self._tokens: list[int] = []
        self._next: list[dict[int, int]] = [{}]
        self._link = [_NOWHERE]
        self._length = [0]
        self._follow = [_NOWHERE]
        """Of each state: the index of the token after its latest occurrence that has one."""
        self._counts: list[dict[int, int]] = [{}]
        """Of each state: how often each token came after it."""
        self._totals = [0]
        """Of each state: how often any did."""
        self._most_frequent: dict[int, list[int]] = {}
        """Of states that were asked: MOST_RANKED of those tokens, the most frequent first."""
        self._successors: dict[int, list[tuple[int, float]]] = {}
        """Of states that were asked since the last token."""
        self._reached: list[int] = []
        """After each token: the state of its text up to there."""
        self._last = _ROOT

    @property
    def num_tokens(self) -> int:
        """Tokens held, with one more for each text begun."""
        return len(self._tokens)

    @property
    def end(self) -> Cursor:
        """The whole of the text that is being appended to."""
        return Cursor(self._last, self._length[self._last])

    def begin(self) -> None:
        """What is appended from here on is another text."""
        self._tokens.append(_BOUNDARY)
        self._last = _ROOT
        self._reached.append(_ROOT)

    def append(self, token: int) -> None:
        """One more token of the present text."""
        self._successors.clear()
        self._note_following(token)
        self._tokens.append(token)
        self._last = self._extended(token)
        self._reached.append(self._last)

    def place(self, at: int) -> Cursor:
        """The whole of the text that the token at an index belongs to, up to and without this token."""
        state = self._reached[at - 1]
        return Cursor(state, self._length[state])

    def walk(self, cursor: Cursor, tokens: Iterable[int]) -> Cursor:
        """The cursor of a text that goes on with `tokens`."""
        for token in tokens:
            cursor = self.step(cursor, token)
        return cursor

    def step(self, cursor: Cursor, token: int) -> Cursor:
        """The cursor of a text that goes on with `token`."""
        state, length = cursor
        while token not in self._next[state]:
            if state == _ROOT:
                return START
            state = self._link[state]
            length = self._length[state]
        return Cursor(self._next[state][token], length + 1)

    def match(self, cursor: Cursor) -> Match | None:
        """The longest end of a cursor's text that has stood before something, and where it did so last."""
        state, length = cursor
        while state != _ROOT and self._follow[state] == _NOWHERE:
            state = self._link[state]
        length = min(length, self._length[state])
        return Match(length, self._follow[state]) if length else None

    def belief(self, cursor: Cursor, token: int) -> float:
        """The share of `token` in what came after the cursor's text, every shorter end of it counted in where
        the longer ones have seen little (Witten and Bell 1991)."""
        belief = 0.0
        for state in self.ends(cursor):
            counts = self._counts[state]
            if counts:
                kinds = len(counts)
                belief = (counts.get(token, 0) + kinds * belief) / (self._totals[state] + kinds)
        return belief

    def successors(self, cursor: Cursor) -> list[tuple[int, float]]:
        """What came after the cursor's text, or else after shorter ends of it: what came the last time, then
        the likeliest others, each with its share as `belief` tells it, but for ends shorter than the longest
        ENDS of them.
        """
        state = cursor.state
        if state not in self._successors:
            self._successors[state] = self._ranked(self._seen_ends(state))
        return self._successors[state]

    def _ranked(self, ends: list[int]) -> list[tuple[int, float]]:
        shares: dict[int, float] = {}
        for state in ends:
            shares |= dict.fromkeys(self._frequent(state), 0.0)
            if len(shares) >= MOST_RANKED:
                break
        for state in reversed(ends):
            counts, kinds = self._counts[state], len(self._counts[state])
            seen = self._totals[state] + kinds
            for token, share in shares.items():
                shares[token] = (counts.get(token, 0) + kinds * share) / seen
        likeliest = sorted(shares, key=shares.__getitem__, reverse=True)[:MOST_RANKED]
        latest = self._tokens[self._follow[ends[0]]] if ends and ends[0] != _ROOT else None
        if latest in likeliest[1:]:
            likeliest.remove(latest)
            likeliest.insert(0, latest)
        return [(token, shares[token]) for token in likeliest]

    def _frequent(self, state: int) -> list[int]:
        """The tokens that most often came after a state."""
        if state not in self._most_frequent:
            counts = self._counts[state]
            self._most_frequent[state] = nlargest(MOST_RANKED, counts, key=counts.__getitem__)
        return self._most_frequent[state]

    def _seen_ends(self, state: int) -> list[int]:
        """The states of the longest ends of a state's text after which something came, ENDS at most."""
        found: list[int] = []
        while state != _NOWHERE and len(found) < ENDS:
            if self._totals[state]:
                found.append(state)
            state = self._link[state]
        return found

    def ends(self, cursor: Cursor) -> list[int]:
        """The states of all ends of a cursor's text that are told apart, the empty one first."""
        path, state = [], cursor.state
        while state != _NOWHERE:
            path.append(state)
            state = self._link[state]
        return path[::-1]

    def following(self, at: int, limit: int) -> Sequence[int]:
        """The tokens from an index on, `limit` at most, up to the end of their text."""
        tokens = self._tokens[at : at + limit]
        return tokens[: tokens.index(_BOUNDARY)] if _BOUNDARY in tokens else tokens

    def _note_following(self, token: int) -> None:
        """A token comes after every end of the present text."""
        index, state = len(self._tokens), self._last
        while state != _NOWHERE:
            counts = self._counts[state]
            counts[token] = counts.get(token, 0) + 1
            self._totals[state] += 1
            self._most_frequent.pop(state, None)
            self._follow[state] = index
            state = self._link[state]

    def _extended(self, token: int) -> int:
        """The state of the present text and `token`."""
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
        """The state whose longest run is that of `state` and `token`: `reached`, or split off from it."""
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
