"""Drafts from everything that was read and written before: prompts, recalled memories, answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from outrider.core.values import Successors
from outrider.decoding.retrieval.automaton import START, Cursor, Match, SuffixAutomaton
from outrider.decoding.retrieval.calibration import WINDOW, Calibration
from outrider.decoding.retrieval.continuation import Continuation
from outrider.decoding.retrieval.tree import Branch

HISTORY_TOKENS = 16_384
"""Tokens of a store that is full; two are kept, some 20 MB together."""

RIVALS, ONWARD = 3, 6
"""Of a tree: the tokens looked at for each place of its chain, and how far each is gone on with."""


@dataclass
class _Store:
    """Texts, and what a model expected in the course of their prompts."""

    texts: SuffixAutomaton = field(default_factory=SuffixAutomaton)
    calibration: Calibration = field(default_factory=Calibration)


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

    @property
    def num_tokens(self) -> int:
        """Tokens kept."""
        return self._new.texts.num_tokens + self._old.texts.num_tokens

    def begin(self, prompt: Sequence[int]) -> None:
        if self._new.texts.num_tokens >= self._history_tokens:
            self._old, self._new = self._new, _Store()
        self._new.texts.begin()
        self._in_old = START
        self.extend(prompt)
        self._prompt, self._prompt_end = prompt, self._new.texts.num_tokens

    def calibrate(self, successors: Successors) -> None:
        """What a model expects in the course of the present prompt is known now."""
        self._new.calibration.add(self._prompt, self._prompt_end, successors)

    def extend(self, tokens: Sequence[int]) -> None:
        for token in tokens:
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

    def branches(self, chain: Sequence[int]) -> list[Branch]:
        """What else may come on the way of a chain that was proposed, each with how the context goes on."""
        store, cursor = self._store_of()
        texts, reached, found = store.texts, 1.0, list[Branch]()
        for place, token in enumerate(chain):
            rivals = self._rivals(store, cursor, token)
            for rival, (chance, at) in rivals.items():
                path = (*chain[:place], rival, *texts.following(at, ONWARD))
                found.append(Branch(reached * chance, path))
            reached *= texts.belief(cursor, token)
            cursor = texts.walk(cursor, (token,))
        return found

    def _rivals(self, store: _Store, cursor: Cursor, token: int) -> dict[int, tuple[float, int]]:
        """Other tokens than this one after a cursor's text: each with its chance and where it goes on."""
        texts, rivals = store.texts, dict[int, tuple[float, int]]()
        for other in texts.successors(cursor, RIVALS):
            match = texts.match(texts.walk(cursor, (other,)))
            if other != token and match is not None:
                rivals[other] = texts.belief(cursor, other), match.at
        here = texts.match(cursor)
        calibrated = store.calibration.rival(here.at, texts.following(here.at, WINDOW)) if here else None
        if calibrated is not None and calibrated[0].token != token:
            turn = calibrated[0]
            if turn.chance > rivals.get(turn.token, (0.0, 0))[0]:
                rivals[turn.token] = turn.chance, turn.at
        return rivals

    def _store_of(self) -> tuple[_Store, Cursor]:
        """The store that `propose` copies from after the present text, and where that stands in it."""
        new, old = self._new.texts.match(self._new.texts.end), self._old.texts.match(self._in_old)
        if old is not None and (new is None or old.length > new.length):
            return self._old, self._in_old
        return self._new, self._new.texts.end

    def _learn(self, token: int) -> None:
        match = self._new.texts.match(self._new.texts.end)
        if match is not None:
            context = self._new.texts.following(match.at, 1)[0]
            self._new.calibration.learn(match.at, context, token)

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
