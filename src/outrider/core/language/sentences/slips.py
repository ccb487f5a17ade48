# SPDX-License-Identifier: Apache-2.0
"""Misspelt stop words, and those attached to another word: "sotp", "stpo", "chairstop"."""

from __future__ import annotations

import itertools
from functools import cache

from outrider.core.edit_distance import num_slips
from outrider.core.language.reading import Reading
from outrider.core.language.words.misspellings import english_things, spellings
from outrider.core.language.words.phrasebook import LANGUAGES, Phrasebook, phrasebook
from outrider.core.language.words.stop_phrases import between_signs, of_all, without_politeness

_KEYBOARDS = {"de": "qwertzuiop asdfghjkl yxcvbnm", "fr": "azertyuiop qsdfghjklm wxcvbn"}
_QWERTY = "qwertyuiop asdfghjkl zxcvbnm"
_STAGGER = (0.0, 0.25, 0.75)  # how far each row of keys is to the right of the first, in keys
_MIN_SLIPPED, _MIN_GLUED = 4, 3


def slips(reading: Reading) -> bool:
    """Return whether an unknown word is a misspelt stop word, or ends a clause and ends in one.

    At the start or end of a clause any typing error counts; elsewhere only two swapped neighbouring
    letters, or a key next to the right one.
    """
    book, words = reading.book, [token.word for token in reading.tokens]
    said = reading.plain_words or words  # the French "stp" is "s'il te plaît" where more is said
    strange = {word for word in said if word.isalpha()} - _known()
    if not strange:
        return False
    clauses = filter(None, (without_politeness(book, clause) for clause in between_signs(words)))
    edges = [(clause[0], clause[-1]) for clause in clauses]
    outer = strange.intersection(*[itertools.chain(*edges)])
    return (
        any(_is_slip(book, word) for word in outer)
        or any(_is_key_missed(book, word) for word in strange)
        or any(_ends_in_a_stop(book, last) for _, last in edges if last in strange)
    )


def respelt(reading: Reading) -> str:
    """Return the sentence with each unknown word replaced by the nearest one, which may be a negation."""
    return " ".join(_nearest(reading.book, token.word) for token in reading.tokens)


@cache
def _known() -> frozenset[str]:
    """Return the words of all languages, and those that only look like stop words."""
    lexicons = (phrasebook(language).lexicon for language in LANGUAGES)
    return frozenset().union(*lexicons, *map(of_all, ("no_stops", "negations", "statements")))


@cache
def _meant(book: Phrasebook) -> frozenset[str]:
    """Return the stop words that a misspelt word may be meant for."""
    words = book.words("stop_words") | phrasebook("en").words("stop_words")
    return frozenset(word for word in words if word.isascii() and len(word) >= _MIN_SLIPPED)


def _is_key_missed(book: Phrasebook, word: str) -> bool:
    """Return whether a word is a stop word with two letters swapped, or one key next to the right one."""
    beside = _keys_beside(book.language)
    return any(
        _is_swapped(word, stop) or (len(wrong := _wrong(word, stop)) == 1 and wrong <= beside)
        for stop in _meant(book)
    )


def _is_slip(book: Phrasebook, word: str) -> bool:
    """Return whether a word is a stop word with a letter more or less, out of order, or with keys shifted."""
    keys = _KEYBOARDS.get(book.language, _QWERTY)
    right, left = set(itertools.pairwise(keys)), set(itertools.pairwise(keys[::-1]))
    return any(
        (abs(len(word) - len(stop)) == 1 and num_slips(word, stop) == 1)
        or (word[0] == stop[0] and sorted(word) == sorted(stop))
        or any(_wrong(word, stop) and _wrong(word, stop) <= moved for moved in (right, left))
        for stop in _meant(book)
    )


def _wrong(word: str, stop: str) -> set[tuple[str, str]]:
    """Return the differing letters of two words of the same length, each with the right one."""
    return {(a, b) for a, b in zip(word, stop, strict=False) if a != b and len(word) == len(stop)}


@cache
def _keys_beside(language: str) -> frozenset[tuple[str, str]]:
    """Return the pairs of letters whose keys touch on the keyboard of a language."""
    rows = _KEYBOARDS.get(language, _QWERTY).split()
    at = {key: (x + _STAGGER[y], y) for y, row in enumerate(rows) for x, key in enumerate(row)}
    return frozenset(
        (a, b) for a in at for b in at if abs(at[a][0] - at[b][0]) <= 1 and abs(at[a][1] - at[b][1]) <= 1
    )


def _ends_in_a_stop(book: Phrasebook, word: str) -> bool:
    """Return whether a word is a known one with a stop word attached, such as "chairstop"."""
    parts = (word.removesuffix(stop) for stop in _meant(book))
    return any(len(part) >= _MIN_GLUED and part in _glued_to() for part in parts if part != word)


@cache
def _glued_to() -> frozenset[str]:
    """Return the words that a stop may be attached to; no negations, which would deny it."""
    known = frozenset().union(*(phrasebook(language).lexicon for language in LANGUAGES), english_things())
    return known - of_all("negations") - of_all("denials")


def _is_swapped(word: str, stop: str) -> bool:
    is_like = len(word) == len(stop) and sorted(word) == sorted(stop)
    return is_like and num_slips(word, stop) == 1


def _nearest(book: Phrasebook, word: str) -> str:
    if word in book.lexicon or not word.isalpha():
        return word
    known = spellings(book)
    return known.swapped(word) or next(iter(known.near(word)), word)
