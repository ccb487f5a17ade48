# SPDX-License-Identifier: Apache-2.0
"""Groups of phrases with the same use, each phrase a regular expression."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property

from outrider.core.language.words.unsupported_words import SLOT_NAME

WORD_BEGINS = r"(?<!\S)"
"""An expression for the beginning of a word."""


class PhraseGroup:
    """Phrases of a language with the same meaning, such as all turns to a side. Texts are `joined` words."""

    def __init__(self, name: str, expressions: Sequence[str]) -> None:
        self.name, self.expressions = name, expressions
        without_slots = [SLOT_NAME.sub("?:", expression) for expression in expressions]
        begin = WORD_BEGINS if all(each.startswith(WORD_BEGINS) for each in without_slots) else ""
        # A common beginning is searched for once at each letter, not once for each phrase.
        self._any = re.compile(f"{begin}(?:{'|'.join(each.removeprefix(begin) for each in without_slots)})")
        if name == "stop":
            _ = self._phrases  # compiled now, so that the first stop does not wait for it

    @cached_property
    def _phrases(self) -> list[re.Pattern[str]]:
        """The compiled phrases.

        Compiled on first use, because most groups of most languages are never used.
        """
        return [re.compile(expression) for expression in self.expressions]

    def fits(self, text: str) -> bool:
        """Return whether a whole text is one of the phrases."""
        return self._any.fullmatch(text) is not None

    def matches(self, text: str) -> Iterator[re.Match[str]]:
        """Yield the match of each phrase that a whole text is, in the phrases' order."""
        if self.fits(text):  # a quick test with one expression, which most texts fail
            yield from filter(None, (phrase.fullmatch(text) for phrase in self._phrases))

    def found_in(self, text: str) -> Iterator[re.Match[str]]:
        """Yield all matches within a text, phrase by phrase."""
        if self._any.search(text):
            yield from (match for phrase in self._phrases for match in phrase.finditer(text))
