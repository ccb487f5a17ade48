# SPDX-License-Identifier: Apache-2.0
"""Phrases of one use, each a regular expression."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from outrider.core.language.words.heeding import SLOT_NAME


class PhraseGroup:
    """Phrases of a language that say the same, such as all that turn to a side. Texts are `joined` words."""

    def __init__(self, name: str, expressions: Sequence[str]) -> None:
        self.name, self.expressions = name, expressions
        self._phrases = [re.compile(expression) for expression in expressions]
        self._any = re.compile("|".join(SLOT_NAME.sub("?:", expression) for expression in expressions))

    def matches(self, text: str) -> Iterator[re.Match[str]]:
        """Yields the match of each phrase that a whole text is, in the phrases' order."""
        if self._any.fullmatch(text):  # most texts fit none, which one expression tells at once
            yield from filter(None, (phrase.fullmatch(text) for phrase in self._phrases))

    def found_in(self, text: str) -> Iterator[re.Match[str]]:
        """Yields all matches within a text, phrase by phrase."""
        if self._any.search(text):
            yield from (match for phrase in self._phrases for match in phrase.finditer(text))
