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
ENDS = 6


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
        state, length = cursor
        for token in tokens:
            while state != _ROOT and token not in self._next[state]:
                state = self._link[state]
                length = self._length[state]
            if token in self._next[state]:
                state, length = self._next[state][token], length + 1
        return Cursor(state, length)

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

    def successors(self, cursor: Cursor, most: int) -> list[tuple[int, float]]:
        """What came after the cursor's text, or else after shorter ends of it, the likeliest first: each with
        its share as `belief` tells it, but for ends shorter than the longest ENDS of them.
        """
        ends = self._seen_ends(cursor)
        found: dict[int, float] = {}
        for state in ends:
            counts = self._counts[state]
            found |= dict.fromkeys(nlargest(most, counts, key=counts.__getitem__), 0.0)
            if len(found) >= most:
                break
        for state in reversed(ends):
            counts, kinds, total = self._counts[state], len(self._counts[state]), self._totals[state]
            for token, belief in found.items():
                found[token] = (counts.get(token, 0) + kinds * belief) / (total + kinds)
        return sorted(found.items(), key=lambda one: -one[1])[:most]

    def _seen_ends(self, cursor: Cursor) -> list[int]:
        """The states of the longest ends of a cursor's text after which something came, ENDS at most."""
        state, found = cursor.state, list[int]()
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
