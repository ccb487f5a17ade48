# SPDX-License-Identifier: Apache-2.0
"""Drafts copied from all text read and written before: prompts, recalled memories, answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from outrider.core.values import Successors
from outrider.decoding.drafting.retrieval.automaton import MAX_RANKED, START, Cursor, Match, SuffixAutomaton
from outrider.decoding.drafting.retrieval.calibration import WINDOW, Calibration
from outrider.decoding.drafting.retrieval.continuation import Continuation, Drafter, KindRates

HISTORY_TOKENS = 16_384
"""The size in tokens at which a store is full; two stores are kept, some 20 MB together."""

RESUMED = 0.5
"""For a tree: the factor on a belief right after the copy left the context."""


@dataclass
class _Store:
    """Texts, and a model's expectations for their prompts."""

    texts: SuffixAutomaton = field(default_factory=SuffixAutomaton)
    calibration: Calibration = field(default_factory=Calibration)


class Spot(NamedTuple):
    """A text's end, located in one of the stores."""

    store: _Store
    cursor: Cursor
    is_resumed: bool = False
    """Whether the copy has just left the context through a token that the context does not hold there."""

    @property
    def first_rank(self) -> int:
        """The first rank to use: resumed copies keep their own statistics."""
        return MAX_RANKED * self.is_resumed

    @property
    def trust(self) -> float:
        """The factor on the confidence of a copy from here."""
        return RESUMED if self.is_resumed else 1.0


class Detour(NamedTuple):
    """A rival in place of the context's token at index `at`, after a cursor's text.

    Where the copy continues is found only on request, because most detours are never followed.
    """

    store: _Store
    cursor: Cursor
    token: int
    at: int

    def resumed(self) -> Spot:
        """Return the spot to continue at: ahead of the index if the model expects one,
        or else any occurrence.
        """
        store, texts = self.store, self.store.texts
        skipped = store.calibration.skip(self.token, texts.following(self.at, WINDOW))
        if skipped is None:
            return Spot(store, texts.step(self.cursor, self.token))
        return Spot(store, texts.cursor_at(self.at + skipped), True)


Step = tuple[int, float, Spot | Detour]
"""A token that may come next, its chance, and the spot after it."""


class SuffixDrafter(Drafter):
    """Continues the longest suffix of the text that occurred before, as it continued the last time.

    An automaton cannot drop its oldest text. So when a store is full, the next text starts a new store, and
    only the last two stores are kept.
    """

    source = "suffix"

    def __init__(self, history_tokens: int = HISTORY_TOKENS) -> None:
        self._history_tokens = history_tokens
        self.forget()

    def forget(self) -> None:
        self._new, self._old = _Store(), _Store()
        self._in_old = START
        self._prompt: Sequence[int] = ()
        self._prompt_end = 0
        self._kind_rates = KindRates()
        self._resumed_at: list[Spot] = []
        self._grows_trees = False
        """Whether trees are in use; the statistics of branches are learnt only then."""

    @property
    def num_tokens(self) -> int:
        """The number of tokens kept."""
        return self._new.texts.num_tokens + self._old.texts.num_tokens

    def begin(self, prompt: Sequence[int]) -> None:
        """Start a new text with its prompt; keep earlier texts up to the limit of the history."""
        if self._new.texts.num_tokens >= self._history_tokens:
            self._old, self._new = self._new, _Store()
        self._new.texts.begin()
        self._in_old = START
        self._resumed_at = []
        for token in prompt:
            self._append(token)
        self._prompt, self._prompt_end = prompt, self._new.texts.num_tokens

    def calibrate(self, successors: Successors) -> None:
        """Take a model's expectations for the current prompt."""
        self._new.calibration.add(self._prompt, self._prompt_end, successors)

    def extend(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            if self._grows_trees:
                self._learn_branches(token)
            self._append(token)

    def _append(self, token: int) -> None:
        self._learn(token)
        self._new.texts.append(token)
        self._in_old = self._old.texts.walk(self._in_old, (token,))

    def propose(self, branch: Sequence[int], limit: int) -> Continuation | None:
        in_new = self._new.texts.walk(self._new.texts.end, branch)
        in_old = self._old.texts.walk(self._in_old, branch)
        new, old = self._new.texts.match(in_new), self._old.texts.match(in_old)
        if old is not None and (new is None or old.length > new.length):
            return self._copied(self._old, in_old, old, limit)
        return self._copied(self._new, in_new, new, limit) if new is not None else None

    def root(self) -> Spot:
        """Return, for a tree, the end of the current text in the store that `propose` copies from."""
        self._grows_trees = True
        new, old = self._new.texts.match(self._new.texts.end), self._old.texts.match(self._in_old)
        if old is not None and (new is None or old.length > new.length):
            return Spot(self._old, self._in_old)
        return Spot(self._new, self._new.texts.end)

    def after(self, spot: Spot | Detour | None, token: int) -> Spot:
        """Return the spot one token further; from None, the spot of this token alone."""
        texts, cursor = self._new.texts, START if spot is None else _resolved(spot).cursor
        return Spot(self._new, texts.step(cursor, token))

    def steps(self, spot: Spot | Detour) -> Iterator[Step]:
        """Yield what may come next: what followed in the context, and what the model prefers to it."""
        spot = _resolved(spot)
        store, cursor = spot.store, spot.cursor
        for rank, (token, belief) in enumerate(store.texts.successors(cursor), spot.first_rank):
            onward = store.texts.step(cursor, token)
            at = _last_index(store, onward)
            kind = rank, store.calibration.held(at)
            yield token, self._kind_rates.chance(kind, spot.trust * belief), Spot(store, onward)
            for rival in store.calibration.rivals(at, token):
                chance = store.calibration.chance(rank - spot.first_rank, rival)
                yield rival.token, chance, Detour(store, cursor, rival.token, at)

    def _learn(self, token: int) -> None:
        match = self._new.texts.match(self._new.texts.end)
        if match is not None:
            context = self._new.texts.following(match.at, 1)[0]
            self._new.calibration.learn(match.at, context, token)

    def _learn_branches(self, token: int) -> None:
        """Learn about branches from the next token that the target wrote."""
        store, texts, end = self._new, self._new.texts, self._new.texts.end
        for spot in (Spot(store, end), *self._resumed_at):
            self._judge(spot, token)
        self._resumed_at = []
        for rank, (successor, _) in enumerate(texts.successors(end)):
            at = _last_index(store, texts.step(end, successor))
            for rival in store.calibration.rivals(at, successor):
                store.calibration.learn_rival(rank, rival, rival.token == token)
                if rival.token == token:
                    self._resumed_at.append(Detour(store, end, token, at).resumed())

    def _judge(self, spot: Spot, token: int) -> None:
        store, cursor = spot.store, spot.cursor
        for rank, (successor, belief) in enumerate(store.texts.successors(cursor), spot.first_rank):
            kind = rank, store.calibration.held(_last_index(store, store.texts.step(cursor, successor)))
            self._kind_rates.learn(kind, spot.trust * belief, successor == token)

    def _copied(self, store: _Store, cursor: Cursor, match: Match, limit: int) -> Continuation:
        """Return the calibrated context after a match, up to the end of its text."""
        at, tokens, beliefs = match.at, list[int](), list[float]()
        while len(tokens) < limit and (ahead := store.texts.following(at, WINDOW)):
            substitute = store.calibration.substitute(at, ahead)
            token = ahead[0] if substitute is None else substitute.token
            beliefs.append(store.texts.belief(cursor, token) if substitute is None else substitute.chance)
            at = at + 1 if substitute is None else substitute.at
            cursor = store.texts.walk(cursor, (token,))
            tokens.append(token)
        return Continuation(self.source, tuple(tokens), tuple(beliefs))


def _resolved(spot: Spot | Detour) -> Spot:
    return spot.resumed() if isinstance(spot, Detour) else spot


def _last_index(store: _Store, cursor: Cursor) -> int:
    """Return the index of the latest occurrence of a cursor's last token;
    0 if its last two never occurred.
    """
    match = store.texts.match(cursor)
    return 0 if match is None or match.length < 2 else match.at - 1
