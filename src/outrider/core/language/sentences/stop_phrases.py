# SPDX-License-Identifier: Apache-2.0
"""What orders a stop in a language, and the words about it: politeness, negations, questions that urge."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from functools import cache

from outrider.core.language.phrasebook import LANGUAGES, Phrasebook, joined, phrasebook, stop_words
from outrider.core.language.signs import PUNCTUATION

WORD_BEGINS = r"(?<!\S)"


@cache
def stop_phrases(book: Phrasebook) -> tuple[re.Pattern[str], ...]:
    """Returns expressions for what orders a stop in a language, each to be matched where a word begins."""
    phrases = (pattern.pattern for group, pattern in book.patterns if group == "stop")
    words = "|".join(sorted(map(re.escape, stop_words()), key=len, reverse=True))
    return tuple(re.compile(rf"{WORD_BEGINS}(?:{phrase})") for phrase in (*phrases, rf"(?:{words}) "))


@cache
def urges(book: Phrasebook) -> re.Pattern[str]:
    """Returns an expression for questions that urge, such as "can't you", in any language."""
    told = (urge for language in LANGUAGES for urge in phrasebook(language).spoken("urges"))
    spelt = sorted((joined(book.tokens(urge)) for urge in told), key=len, reverse=True)
    return re.compile(rf"(?<!\S)(?:{'|'.join(map(re.escape, spelt))})")


@cache
def of_all(use: str) -> frozenset[str]:
    """Returns the words of a list of the languages' files, of all languages together."""
    books = map(phrasebook, LANGUAGES)
    return frozenset().union(*(book.denials if use == "denials" else book.words(use) for book in books))


@cache
def polite_words(book: Phrasebook) -> frozenset[str]:
    """Returns the single words of a language's politeness, and those that ask; none of them is a stop."""
    said = map(book.spoken, ("polite_before", "openers", "polite_after", "asking"))
    return frozenset(word for entry in itertools.chain(*said) for word in entry.split()) - stop_words()


def without_politeness(book: Phrasebook, words: Sequence[str]) -> list[str]:
    """Words without those of politeness, and those that ask, at their ends."""
    told, polite = list(words), polite_words(book)
    while told and told[-1] in polite:
        told.pop()
    return list(itertools.dropwhile(polite.__contains__, told))


def between_signs(words: Sequence[str]) -> Iterator[list[str]]:
    """Yields the runs of words between signs of punctuation."""
    said = list[str]()
    for word in (*words, "."):
        if word not in PUNCTUATION:
            said.append(word)
        elif said:
            yield said
            said = []
