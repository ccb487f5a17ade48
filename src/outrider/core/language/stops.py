# SPDX-License-Identifier: Apache-2.0
"""Whether a sentence orders a stop, which nothing refuses, delays or gates.

A needless stop does less harm than a missed one: of what is read in two ways, one of them a stop, the stop
counts.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from functools import cache

from outrider.core.edit_distance import closest, num_slips
from outrider.core.language.phrasebook import (
    LANGUAGES,
    PUNCTUATION,
    Phrasebook,
    joined,
    phrasebook,
    plain,
    stop_words,
    visible,
)
from outrider.core.language.plan import Step, Stop, says_stop
from outrider.core.language.reading import Reading, knows_nothing
from outrider.core.language.refusals import MOST_WORDS

DENIAL_REACH = 2
"""Words between a negation and a stop word that it may deny: "do not ever stop"."""
_MOST_MENDED, _MOST_LETTERS = 8, 40
_WORD_BEGINS = r"(?<!\S)"
_NO_LETTER = re.compile(r"[\W_]+")
_LOOK_ALIKE = str.maketrans("01345@$7орсстаеѕορτα", "oleasastopsctaesopta")
"""Digits, signs and letters of other alphabets for the Latin letters that they look like."""
_CHUNK = re.compile(r"[\w@$]+")
_SPELT = re.compile(r"(?<![^\W_])[^\W_](?:[\W_]{1,3}[^\W_](?![^\W_]))+")
"""A word spelt letter by letter: "s t o p", "s.t.o.p."."""
_SCRIPTS_MEET = re.compile(r"(?<=[a-z])(?=[\u4e00-\u9fff])|(?<=[\u4e00-\u9fff])(?=[a-z])", re.I)
_LONG_DRAWN = re.compile(r"(.)\1{2,}")


def says_to_stop(sentence: str) -> bool:
    """Whether a sentence orders a stop, in any language, however long or strange the rest of it is.

    A sentence that is a plan in any language is one if it begins with a stop, or has one that no word such
    as "then" makes its last step. In any other a stop word or stop phrase counts that no negation denies; so
    does a misspelt one, and a sentence whose letters are an order to stop: "stopitnow", "dont move".
    """
    sentence = _unveiled(visible(sentence))
    readings = [Reading(phrasebook(language), sentence, None, knows_nothing) for language in LANGUAGES]
    plans = [plan for reading in readings if (plan := _steps(reading))]
    if plans:
        bursts_out = any(_bursts_out(reading) for reading in readings)
        return bursts_out or any(map(says_stop, plans)) or any(map(_slips, _likely(readings)))
    found = [list(_stops(reading.book, joined(reading.tokens))) for reading in readings]
    # A language's own words alone show its negations whole: "don't" is two words to others.
    if any(found):
        return all(any(stops) for stops in found if stops)
    if any(_is_written_as_one(reading.book, sentence) for reading in readings):
        return True
    return any(_slips(reading) or _is_mended_to_a_stop(reading) for reading in _likely(readings))


def is_only_a_stop(sentence: str) -> bool:
    """Whether a sentence orders a stop and nothing else, in any language."""
    sentence = _unveiled(visible(sentence))
    readings = (Reading(phrasebook(language), sentence, None, knows_nothing) for language in LANGUAGES)
    return any(_steps(reading) == (Stop(),) for reading in readings)


def _steps(reading: Reading) -> tuple[Step, ...] | None:
    """The steps of a sentence that is not too long to be a plan."""
    num_words = sum(token.word not in PUNCTUATION for token in reading.tokens)
    return reading.steps(False) if num_words <= MOST_WORDS else None


def _bursts_out(reading: Reading) -> bool:
    """Whether a stop stands between signs of punctuation: no word such as "then" makes it a step."""
    book = reading.book
    told = book.words("negations") | stop_words()
    clauses = _between_signs([token.word for token in reading.tokens])
    return any(_is_stop(book, words) and not told.isdisjoint(words) for words in clauses)


def _between_signs(words: Sequence[str]) -> Iterator[list[str]]:
    said = list[str]()
    for word in (*words, "."):
        if word not in PUNCTUATION:
            said.append(word)
        elif said:
            yield said
            said = []


def _stops(book: Phrasebook, text: str) -> Iterator[bool]:
    """For each stop word or phrase of a text: whether it stands, or a negation just before it denies it.

    A negation of something else denies nothing. A phrase of one word that is no stop word, such as "stay",
    counts between signs of punctuation.
    """
    text = _urges(book).sub("", text)
    for match in (match for phrase in _phrases(book) for match in phrase.finditer(text)):
        is_long = len(match[0].strip()) > 1 if book.is_unspaced else len(match[0].split()) > 1
        if is_long or match[0].strip() in stop_words():
            before = text[max(0, match.start() - 80) : match.start()].split()[-DENIAL_REACH - 1 :]
            yield not _is_denied(before)
    yield from (True for words in _between_signs(text.split()) if _is_stop(book, words))


def _is_stop(book: Phrasebook, words: Sequence[str]) -> bool:
    """Whether words are a stop as a whole, and no word that a correction begins with, such as "no"."""
    text = " ".join([*words, ""])
    is_stop = any(phrase.fullmatch(text) for phrase in _phrases(book))
    return is_stop and not book.correction.fullmatch(text)


def _is_denied(before: Sequence[str]) -> bool:
    """Whether the words before a stop word deny it: the last is a negation, but for words such as "ever"."""
    for word in reversed(before):
        if word in _of_all("denials"):
            return True
        if word not in _of_all("between_denials"):
            return False
    return False


@cache
def _of_all(use: str) -> frozenset[str]:
    books = map(phrasebook, LANGUAGES)
    return frozenset().union(*(book.denials if use == "denials" else book.words(use) for book in books))


@cache
def _phrases(book: Phrasebook) -> tuple[re.Pattern[str], ...]:
    """Returns expressions for what orders a stop in a language, each to be matched where a word begins."""
    phrases = (pattern.pattern for group, pattern in book.patterns if group == "stop")
    words = "|".join(sorted(map(re.escape, stop_words()), key=len, reverse=True))
    return tuple(re.compile(rf"{_WORD_BEGINS}(?:{phrase})") for phrase in (*phrases, rf"(?:{words}) "))


@cache
def _urges(book: Phrasebook) -> re.Pattern[str]:
    """Returns an expression for questions that urge, such as "can't you", in any language."""
    urges = (urge for language in LANGUAGES for urge in phrasebook(language).spoken("urges"))
    spelt = sorted((joined(book.tokens(urge)) for urge in urges), key=len, reverse=True)
    return re.compile(rf"(?<!\S)(?:{'|'.join(map(re.escape, spelt))})")


def _unveiled(sentence: str) -> str:
    """A sentence with its stop words as they are meant: "st0p", "stooop", "s t o p", "stopstop" are one."""
    sentence = _SCRIPTS_MEET.sub(" ", sentence)
    sentence = _SPELT.sub(lambda spelt: _as_meant(spelt[0], re.sub(r"[\W_]", "", spelt[0])), sentence)
    return _CHUNK.sub(lambda chunk: _as_meant(chunk[0], chunk[0]), sentence)


def _as_meant(said: str, letters: str) -> str:
    """The stop word that letters are, more or less; else what was said."""
    letters = plain(letters).translate(_LOOK_ALIKE)
    letters = _LONG_DRAWN.sub(r"\1", letters)
    meant = _repeated().fullmatch(letters)
    return said if meant is None or plain(said) in stop_words() else f" {meant[1]} "


@cache
def _repeated() -> re.Pattern[str]:
    """Returns an expression for a stop word of letters, once or several times."""
    return re.compile(rf"({'|'.join(sorted(map(re.escape, stop_words()), key=len, reverse=True))})+")


def _likely(readings: Sequence[Reading]) -> list[Reading]:
    """The readings with the fewest strange letters."""
    least = min(reading.num_strange for reading in readings)
    return [reading for reading in readings if reading.num_strange == least]


def _slips(reading: Reading) -> bool:
    """Whether a word of no language is a stop word with two neighbouring letters swapped."""
    meant = reading.book.words("stop_words") | phrasebook("en").words("stop_words")
    known = frozenset().union(*(phrasebook(language).lexicon for language in LANGUAGES))
    strange = {token.word for token in reading.tokens} - known
    return any(_is_swapped(word, stop) for word in strange for stop in meant)


def _is_swapped(word: str, meant: str) -> bool:
    return sorted(word) == sorted(meant) and num_slips(word, meant) == 1


def _is_mended_to_a_stop(reading: Reading) -> bool:
    if len(reading.tokens) > _MOST_MENDED:
        return False
    texts = itertools.chain([_respelt(reading)], reading.mended_texts())
    mended = (Reading(reading.book, text, None, knows_nothing) for text in texts)
    return any(says_stop(plan) for one in mended if (plan := _steps(one)))


def _respelt(reading: Reading) -> str:
    """The sentence with each word of no language as the nearest one, which may be a negation."""
    lexicon = sorted(reading.book.lexicon)
    return " ".join(_nearest(token.word, lexicon) for token in reading.tokens)


def _nearest(word: str, lexicon: Sequence[str]) -> str:
    if word in lexicon or not word.isalpha():
        return word
    swapped = next((known for known in lexicon if _is_swapped(word, known)), None)
    return swapped or closest(word, lexicon) or word


def _is_written_as_one(book: Phrasebook, sentence: str) -> bool:
    """Whether the letters of a sentence are orders to stop and polite words, wherever its spaces are."""
    letters = _NO_LETTER.sub("", plain(sentence))
    return len(letters) <= _MOST_LETTERS and _orders_as_one(book).fullmatch(letters) is not None


@cache
def _orders_as_one(book: Phrasebook) -> re.Pattern[str]:
    """Returns an expression for orders to stop among polite words, without what is no letter or digit."""
    corrections = [joined(book.tokens(said)) for said in book.spoken("correction")]
    orders = (order for order in _phrases(book) if not any(map(order.fullmatch, corrections)))
    polite = (
        joined(book.tokens(said)) for use in ("polite_before", "polite_after") for said in book.spoken(use)
    )
    said = "|".join(map(re.escape, polite))
    stop = "|".join(order.pattern.replace(_WORD_BEGINS, "") for order in orders)
    return re.compile(re.sub(r"\\?[ ']", "", rf"(?:{said})*(?:{stop})(?:{stop}|{said})*"))
