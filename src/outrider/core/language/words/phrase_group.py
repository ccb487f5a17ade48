# SPDX-License-Identifier: Apache-2.0
"""Phrases of one use, each a regular expression."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property

from outrider.core.language.words.heeding import SLOT_NAME

WORD_BEGINS = r"(?<!\S)"
"""An expression for where a word begins."""


class PhraseGroup:
    """Phrases of a language that say the same, such as all that turn to a side. Texts are `joined` words."""

    def __init__(self, name: str, expressions: Sequence[str]) -> None:
        self.name, self.expressions = name, expressions
        told = [SLOT_NAME.sub("?:", expression) for expression in expressions]
        begin = WORD_BEGINS if all(one.startswith(WORD_BEGINS) for one in told) else ""
        # What all begin with is looked for once at each letter, not once for each phrase.
        self._any = re.compile(f"{begin}(?:{'|'.join(one.removeprefix(begin) for one in told)})")
        if name == "stop":
            _ = self._phrases  # the first stop must not wait for them to be compiled

    @cached_property
    def _phrases(self) -> list[re.Pattern[str]]:
        """Compiled when first needed: most groups of most languages never are."""
        return [re.compile(expression) for expression in self.expressions]

    def fits(self, text: str) -> bool:
        """Whether a whole text is one of the phrases."""
        return self._any.fullmatch(text) is not None

    def matches(self, text: str) -> Iterator[re.Match[str]]:
        """Yields the match of each phrase that a whole text is, in the phrases' order."""
        if self.fits(text):  # most texts fit none, which one expression tells at once
            yield from filter(None, (phrase.fullmatch(text) for phrase in self._phrases))

    def found_in(self, text: str) -> Iterator[re.Match[str]]:
        """Yields all matches within a text, phrase by phrase."""
        if self._any.search(text):
            yield from (match for phrase in self._phrases for match in phrase.finditer(text))
