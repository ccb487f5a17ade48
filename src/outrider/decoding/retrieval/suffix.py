"""Drafts from everything that was read and written before: prompts, recalled memories, answers."""

from __future__ import annotations

from collections.abc import Sequence

from outrider.decoding.retrieval.automaton import START, Cursor, Match, SuffixAutomaton
from outrider.decoding.retrieval.continuation import Continuation

HISTORY_TOKENS = 16_384
"""Tokens of an automaton that is full; two are kept, some 10 MB together."""


class SuffixDrafter:
    """The longest end of the text that stood before, continued as it was the last time.

    An automaton cannot forget its oldest text, so when one is full the next text begins another, and only
    the last two are kept.
    """

    source = "suffix"

    def __init__(self, history_tokens: int = HISTORY_TOKENS) -> None:
        self._history_tokens = history_tokens
        self.forget()

    def forget(self) -> None:
        """Drop all texts."""
        self._new, self._old = SuffixAutomaton(), SuffixAutomaton()
        self._in_old = START

    @property
    def num_tokens(self) -> int:
        """Tokens kept."""
        return self._new.num_tokens + self._old.num_tokens

    def begin(self, prompt: Sequence[int]) -> None:
        if self._new.num_tokens >= self._history_tokens:
            self._old, self._new = self._new, SuffixAutomaton()
        self._new.begin()
        self._in_old = START
        self.extend(prompt)

    def extend(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            self._new.append(token)
        self._in_old = self._old.walk(self._in_old, tokens)

    def propose(self, branch: Sequence[int], limit: int) -> Continuation | None:
        in_new = self._new.walk(self._new.end, branch)
        in_old = self._old.walk(self._in_old, branch)
        new, old = self._new.match(in_new), self._old.match(in_old)
        if old is not None and (new is None or old.length > new.length):
            return self._copied(self._old, in_old, old, limit)
        return self._copied(self._new, in_new, new, limit) if new is not None else None

    def _copied(self, automaton: SuffixAutomaton, cursor: Cursor, match: Match, limit: int) -> Continuation:
        tokens, beliefs = tuple(automaton.following(match.at, limit)), []
        for token in tokens:
            beliefs.append(automaton.belief(cursor, token))
            cursor = automaton.walk(cursor, (token,))
        return Continuation(self.source, tokens, tuple(beliefs))
