# SPDX-License-Identifier: Apache-2.0
"""Whether a sentence orders a stop, which nothing refuses, delays or gates."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, takewhile

from outrider.core.edit_distance import closest
from outrider.core.language.phrasebook import LANGUAGES, PUNCTUATION, Phrasebook, Token, phrasebook
from outrider.core.language.plan import Stop, says_stop
from outrider.core.language.reading import Reading, knows_nothing
from outrider.core.language.refusals import MOST_CHARACTERS, MOST_WORDS

DENIAL_REACH = 2
"""Words before a stop word that may deny it: "do not ever stop"."""


def says_to_stop(sentence: str) -> bool:
    """Whether a sentence orders a stop, in any language, however long or strange the rest of it is.

    A plan in any language is one if it begins with a stop word, or says nothing but to stop; else a stop word
    counts that no negation denies.
    """
    books = [phrasebook(language) for language in LANGUAGES]
    stop_words = frozenset(word for book in books for word in book.words("stop_words"))
    words = _words(books[0].tokens(sentence[: 4 * MOST_CHARACTERS]))
    if len(words) <= MOST_WORDS:
        plans = [
            plan for book in books if (plan := Reading(book, sentence, None, knows_nothing).steps(False))
        ]
        if plans:
            starts = any(_first_word(book, sentence) in stop_words for book in books)
            return any(says_stop(plan) and (starts or set(plan) == {Stop()}) for plan in plans)
    if len(words) == 1 and closest(words[0], sorted(stop_words)):
        return True
    denials = frozenset(word for book in books for word in book.denials)
    said = [book.tokens(sentence[: 4 * MOST_CHARACTERS]) for book in books]
    # A language's own tokens alone show its negations whole: "don't" is two words to others.
    held = [_stops(tokens, stop_words, denials) for tokens in said]
    return any(held) and all(any(stops) for stops in held if stops)


def _stops(tokens: Sequence[Token], stop_words: frozenset[str], denials: frozenset[str]) -> list[bool]:
    """Each stop word among them: whether it stands, or a negation just before it in its clause denies it.

    A negation of something else denies nothing: a needless stop does less harm than a missed one.
    """
    words = [token.word for token in tokens]
    clauses = (
        takewhile(lambda word: word not in PUNCTUATION, reversed(words[:at])) for at in range(len(words))
    )
    return [
        denials.isdisjoint(islice(before, DENIAL_REACH))
        for word, before in zip(words, clauses, strict=True)
        if word in stop_words
    ]


def _first_word(book: Phrasebook, sentence: str) -> str:
    """The first word after politeness; empty for none."""
    words = [token for token in book.tokens(sentence) if token.word not in PUNCTUATION]
    bare = book.without(book.polite_before, words)
    return bare[0].word if bare else ""


def _words(tokens: Sequence[Token]) -> list[str]:
    return [token.word for token in tokens if token.word not in PUNCTUATION]


def is_only_a_stop(sentence: str) -> bool:
    """Whether a sentence orders a stop and nothing else, in any language."""
    readings = (Reading(phrasebook(language), sentence, None, knows_nothing) for language in LANGUAGES)
    return any(reading.steps(False) == (Stop(),) for reading in readings)
