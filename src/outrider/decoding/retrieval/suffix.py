"""Drafts from everything that was read and written before: prompts, recalled memories, answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from outrider.core.values import Successors
from outrider.decoding.retrieval.automaton import START, Cursor, Match, SuffixAutomaton
from outrider.decoding.retrieval.calibration import NO_PLACE, WINDOW, Calibration, Place
from outrider.decoding.retrieval.continuation import Continuation, RankedOdds

HISTORY_TOKENS = 16_384
"""Tokens of a store that is full; two are kept, some 20 MB together."""

RIVALS, RESUMED = 3, 0.5
"""Of a tree: how many tokens of the context are looked at for each place, and what part of a belief is kept
right after the context was left.
"""


@dataclass
class _Store:
    """Texts, and what a model expected in the course of their prompts."""

    texts: SuffixAutomaton = field(default_factory=SuffixAutomaton)
    calibration: Calibration = field(default_factory=Calibration)


class Spot(NamedTuple):
    """A text's end, in one of the stores."""

    store: _Store
    cursor: Cursor
    is_resumed: bool = False
    """Whether the context was left, by a token that it does not hold there."""

    def rank(self, rank: int) -> int:
        """Ranks are told apart by that."""
        return rank + RIVALS * self.is_resumed

    @property
    def trust(self) -> float:
        return RESUMED if self.is_resumed else 1.0


class Step(NamedTuple):
    """A token that may come next, how likely, and where one stands then."""

    token: int
    chance: float
    spot: Spot


class SuffixDrafter:
    """The longest end of the text that stood before, continued as it was the last time.

    An automaton cannot forget its oldest text, so when a store is full the next text begins another, and only
    the last two are kept.
    """

    source = "suffix"

    def __init__(self, history_tokens: int = HISTORY_TOKENS) -> None:
        self._history_tokens = history_tokens
        self.forget()

    def forget(self) -> None:
        """Drop all texts."""
        self._new, self._old = _Store(), _Store()
        self._in_old = START
        self._prompt: Sequence[int] = ()
        self._prompt_end = 0
        self._odds = RankedOdds()
        self._resumed_at: list[Spot] = []
        self._grows_trees = False
        """Only who does has a use for what is learnt about branches."""

    @property
    def num_tokens(self) -> int:
        """Tokens kept."""
        return self._new.texts.num_tokens + self._old.texts.num_tokens

    def begin(self, prompt: Sequence[int]) -> None:
        if self._new.texts.num_tokens >= self._history_tokens:
            self._old, self._new = self._new, _Store()
        self._new.texts.begin()
        self._in_old = START
        self._resumed_at = []
        for token in prompt:
            self._append(token)
        self._prompt, self._prompt_end = prompt, self._new.texts.num_tokens

    def calibrate(self, successors: Successors) -> None:
        """What a model expects in the course of the present prompt is known now."""
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
        """Of a tree: where the present text stands in the store that `propose` copies from."""
        self._grows_trees = True
        new, old = self._new.texts.match(self._new.texts.end), self._old.texts.match(self._in_old)
        if old is not None and (new is None or old.length > new.length):
            return Spot(self._old, self._in_old)
        return Spot(self._new, self._new.texts.end)

    def spot_of(self, tokens: Sequence[int]) -> Spot:
        """Where these tokens by themselves stand."""
        return Spot(self._new, self._new.texts.walk(START, tokens))

    def steps(self, spot: Spot) -> list[Step]:
        """What may come next: by what came next in the context, and by what the model would rather write."""
        store, texts, found = spot.store, spot.store.texts, list[Step]()
        for rank, (token, belief) in enumerate(_ranked(texts, spot.cursor)):
            onward = texts.walk(spot.cursor, (token,))
            chance = self._odds.chance(spot.rank(rank), spot.trust * belief)
            found.append(Step(token, chance, Spot(store, onward)))
            place = _occurrence(store, onward)
            rival = store.calibration.rival_at(rank, place)
            if rival is not None:
                found.append(Step(rival.token, rival.chance, self._resumed(spot, rival.token, place)))
        return found

    def _resumed(self, spot: Spot, token: int, place: Place) -> Spot:
        """Where the copy goes on after a token that the context does not have at a place: ahead of it, where
        something tells, else wherever the token stood.
        """
        skipped = spot.store.calibration.skip(token, place.ahead)
        if skipped is None:
            return Spot(spot.store, spot.store.texts.walk(spot.cursor, (token,)))
        return Spot(spot.store, spot.store.texts.place(place.at + skipped), True)

    def _learn(self, token: int) -> None:
        match = self._new.texts.match(self._new.texts.end)
        if match is not None:
            context = self._new.texts.following(match.at, 1)[0]
            self._new.calibration.learn(match.at, context, token)

    def _learn_branches(self, token: int) -> None:
        """The target wrote this next."""
        here, resumed = Spot(self._new, self._new.texts.end), list[Spot]()
        for spot in (here, *self._resumed_at):
            self._judge(spot, token)
        texts = self._new.texts
        for rank, (successor, _) in enumerate(_ranked(texts, texts.end)):
            place = _occurrence(self._new, texts.walk(texts.end, (successor,)))
            if self._new.calibration.learn_at(rank, place, token):
                resumed.append(self._resumed(here, token, place))
        self._resumed_at = resumed

    def _judge(self, spot: Spot, token: int) -> None:
        for rank, (successor, belief) in enumerate(_ranked(spot.store.texts, spot.cursor)):
            self._odds.learn(spot.rank(rank), spot.trust * belief, successor == token)

    def _copied(self, store: _Store, cursor: Cursor, match: Match, limit: int) -> Continuation:
        """The context from a match on, calibrated; it ends with its text."""
        at, tokens, beliefs = match.at, list[int](), list[float]()
        while len(tokens) < limit and (ahead := store.texts.following(at, WINDOW)):
            turn = store.calibration.turn(at, ahead)
            token = ahead[0] if turn is None else turn.token
            beliefs.append(store.texts.belief(cursor, token) if turn is None else turn.chance)
            at = at + 1 if turn is None else turn.at
            cursor = store.texts.walk(cursor, (token,))
            tokens.append(token)
        return Continuation(self.source, tuple(tokens), tuple(beliefs))


def _ranked(texts: SuffixAutomaton, cursor: Cursor) -> list[tuple[int, float]]:
    """What came after a cursor's text, with its share: the last time, then the likeliest others."""
    ranked = texts.successors(cursor, RIVALS)
    match = texts.match(cursor)
    latest = texts.following(match.at, 1)[0] if match is not None else None
    return sorted(ranked, key=lambda one: one[0] != latest)


def _occurrence(store: _Store, cursor: Cursor) -> Place:
    """Where the last token of a cursor's text stood last, if that is a prompt that a model has read."""
    match = store.texts.match(cursor)
    if match is None or match.length < 2 or not store.calibration.is_asked(match.at - 1):
        return NO_PLACE
    return Place(match.at - 1, store.texts.following(match.at - 1, WINDOW))
