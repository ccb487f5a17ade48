# SPDX-License-Identifier: Apache-2.0
"""Prompt lookup decoding, the baseline (Saxena 2023): an n-gram of the present text, copied on."""

from __future__ import annotations

from collections.abc import Sequence

from outrider.decoding.drafting.retrieval.continuation import Continuation

MOST_NGRAM = 3
BELIEF = 0.5


class PromptLookup:
    """The last three tokens, or two or one, where they first stood in the text, and what came next."""

    source = "lookup"

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Forgets the text and its index."""
        self._tokens: list[int] = []
        self._first: dict[tuple[int, ...], int] = {}

    def begin(self, prompt: Sequence[int]) -> None:
        """Starts a new text with its prompt."""
        self.forget()
        self.extend(prompt)

    def extend(self, tokens: Sequence[int]) -> None:
        """Appends committed tokens to the text and its index."""
        for token in tokens:
            at = len(self._tokens)
            for size in range(1, min(MOST_NGRAM, at) + 1):
                self._first.setdefault(tuple(self._tokens[-size:]), at)
            self._tokens.append(token)

    def propose(self, branch: Sequence[int], limit: int) -> Continuation | None:
        """Returns what followed the longest matching n-gram, at most `limit` tokens; None without a match."""
        end = (*self._tokens[-MOST_NGRAM:], *branch)[-MOST_NGRAM:]
        for size in range(len(end), 0, -1):
            at = self._first.get(end[-size:])
            if at is not None:
                tokens = tuple(self._tokens[at : at + limit])
                return Continuation(self.source, tokens, (BELIEF,) * len(tokens))
        return None
