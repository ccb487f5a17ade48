# SPDX-License-Identifier: Apache-2.0
"""Whether a sentence orders a stop, which nothing refuses, delays or gates.

A needless stop does less harm than a missed one: of two ways to read a sentence, the stop counts.
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

DENIAL_REACH = 2  # words between a negation and a stop word that it may deny: "do not ever stop"
_MOST_MENDED, _MOST_LETTERS = 8, 40
_WORD_BEGINS = r"(?<!\S)"
_NO_LETTER = re.compile(r"[\W_]+")
_LOOK_ALIKE = str.maketrans("01345@$7орсстаеѕορτα", "oleasastopsctaesopta")
"""Digits, signs and letters of other alphabets for the Latin letters that they look like."""
_CHUNK = re.compile(r"[\w@$]+")
# A word spelt letter by letter: "s t o p", "s.t.o.p.".
_SPELT = re.compile(r"(?<![^\W_])[^\W_](?:[\W_]{1,3}[^\W_](?![^\W_]))+")
_SCRIPTS_MEET = re.compile(r"(?<=[a-z])(?=[\u4e00-\u9fff])|(?<=[\u4e00-\u9fff])(?=[a-z])", re.I)
_LONG_DRAWN = re.compile(r"(.)\1{2,}")
_EMERGENCY = re.compile(
    r"(?<![\w'-])not(?:\s?[-\u2010-\u2015\u2212_]\s?)?(?:halt|stopp?|aus|brems(?:e|en|ung))"
    r"(?:[ -]?(?:knopf|schalter|taster?))?(?!\w)|(?:^|(?<=[,.;!?]))\s*not\s+(?:halt|stopp|aus|bremse)(?!\w)",
    re.I,
)
"""German words for an emergency stop, whose "Not" is no negation: "Not-Halt", "Notbremse"."""
_KEYBOARDS = {"de": "qwertzuiop asdfghjkl yxcvbnm", "fr": "azertyuiop qsdfghjklm wxcvbn"}
_QWERTY = "qwertyuiop asdfghjkl zxcvbnm"
_STAGGER = (0.0, 0.25, 0.75)  # how far each row of keys stands to the right of the first, in keys
_LEAST_SLIPPED, _LEAST_GLUED = 4, 3


def says_to_stop(sentence: str) -> bool:
    """Whether a sentence orders a stop, in any language, however long or strange the rest of it is.

    A sentence that is a plan in any language is one if it begins with a stop, has one that no word such as
    "then" makes its last step, or is a question that ends in one. In any other a stop word or stop phrase
    counts that no negation denies; so does a misspelt one, and a sentence whose letters are an order to
    stop: "stopitnow", "dont move".
    """
    sentence = _unveiled(visible(sentence))
    readings = [Reading(phrasebook(language), sentence, None, knows_nothing) for language in LANGUAGES]
    plans = [plan for reading in readings if (plan := _steps(reading))]
    if plans:
        bursts_out = any(_bursts_out(one.book, [token.word for token in one.tokens]) for one in readings)
        asks = any(map(_asks_and_stops, readings))
        return bursts_out or asks or any(map(says_stop, plans)) or any(map(_slips, _likely(readings)))
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


def _bursts_out(book: Phrasebook, words: Sequence[str]) -> bool:
    """Whether a stop stands between signs of punctuation: no word such as "then" makes it a step.

    A word that a correction begins with, such as "no", is one where nothing comes after it.
    """
    clauses = list(_between_signs(words))
    orders = [clause for clause in clauses if _orders_a_stop(book, clause)]
    ends = len(clauses) > 1 and "?" not in words[-1:] and orders[-1:] == clauses[-1:]
    return ends or any(not book.correction.fullmatch(" ".join([*order, ""])) for order in orders)


def _orders_a_stop(book: Phrasebook, clause: Sequence[str]) -> bool:
    """Whether a clause orders a stop and no more, with politeness or without: "stop please"."""
    told = [" ".join([*words, ""]) for words in (clause, _without_politeness(book, clause))]
    return any(phrase.fullmatch(one) for phrase in _phrases(book) for one in told)


def _asks_and_stops(reading: Reading) -> bool:
    """Whether the last word of a question is a stop that no negation denies: "is that a person stop?"."""
    book = reading.book
    *asked, _ = _urges(book).sub("", joined(reading.tokens)).split("? ")
    told = [_without_politeness(book, words) for part in asked for words in _between_signs(part.split())]
    return any(words[-1] in stop_words() and not _is_denied(words[:-1]) for words in told if words)


def _without_politeness(book: Phrasebook, words: Sequence[str]) -> list[str]:
    """Words without those of politeness, and those that ask, at their ends."""
    told, polite = list(words), _polite(book)
    while told and told[-1] in polite:
        told.pop()
    return list(itertools.dropwhile(polite.__contains__, told))


@cache
def _polite(book: Phrasebook) -> frozenset[str]:
    said = map(book.spoken, ("polite_before", "openers", "polite_after", "asking"))
    return frozenset(word for entry in itertools.chain(*said) for word in entry.split()) - stop_words()


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
            if _goes_on(book, match):
                continue
            before = text[max(0, match.start() - 80) : match.start()].split()[-DENIAL_REACH - 1 :]
            yield not _is_denied(before)
    if _bursts_out(book, text.split()):
        yield True


def _goes_on(book: Phrasebook, match: re.Match[str]) -> bool:
    """Whether what would be a stop alone has more after it: "don't go to the door"."""
    if book.as_written(match[0]) not in _of_all("whole_stops"):
        return False
    after = match.string[match.end() : match.end() + 80]
    return not _polite(book).issuperset(re.split(f"[{PUNCTUATION}]", after, maxsplit=1)[0].split())


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
    sentence = _EMERGENCY.sub(" nothalt ", _SCRIPTS_MEET.sub(" ", sentence))
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
    """Whether a word of no language is a stop word misspelt, or at the end of a clause ends in one.

    Where a clause begins or ends that is any slip of the keyboard; elsewhere two neighbouring letters
    swapped, or a key beside the right one.
    """
    book, words = reading.book, [token.word for token in reading.tokens]
    strange = {word for word in words if word.isalpha()} - _known()
    if not strange:
        return False
    clauses = filter(None, (_without_politeness(book, clause) for clause in _between_signs(words)))
    edges = [(clause[0], clause[-1]) for clause in clauses]
    outer = strange.intersection(*[itertools.chain(*edges)])
    return (
        any(_is_slip(book, word) for word in outer)
        or any(_is_key_missed(book, word) for word in strange)
        or any(_ends_in_a_stop(book, last) for _, last in edges if last in strange)
    )


@cache
def _known() -> frozenset[str]:
    """The words of all languages, and those that are much like a stop word and none."""
    lexicons = (phrasebook(language).lexicon for language in LANGUAGES)
    return frozenset().union(*lexicons, *map(_of_all, ("no_stops", "negations", "statements")))


@cache
def _meant(book: Phrasebook) -> frozenset[str]:
    """The stop words that a slip may be meant for."""
    words = book.words("stop_words") | phrasebook("en").words("stop_words")
    return frozenset(word for word in words if word.isascii() and len(word) >= _LEAST_SLIPPED)


def _is_key_missed(book: Phrasebook, word: str) -> bool:
    """Whether a word is a stop word with two letters swapped, or one of a key beside the right one."""
    beside = _keys_beside(book.language)
    return any(
        _is_swapped(word, stop) or (len(wrong := _wrong(word, stop)) == 1 and wrong <= beside)
        for stop in _meant(book)
    )


def _is_slip(book: Phrasebook, word: str) -> bool:
    """Whether a word is a stop word with one letter more or less, in disorder, or with the hand shifted."""
    keys = _KEYBOARDS.get(book.language, _QWERTY)
    right, left = set(itertools.pairwise(keys)), set(itertools.pairwise(keys[::-1]))
    return any(
        (len(word) != len(stop) and num_slips(word, stop) == 1)
        or (word[0] == stop[0] and sorted(word) == sorted(stop))
        or any(_wrong(word, stop) and _wrong(word, stop) <= moved for moved in (right, left))
        for stop in _meant(book)
    )


def _wrong(word: str, stop: str) -> set[tuple[str, str]]:
    """The letters that differ between words of one length, each with the right one."""
    return {(a, b) for a, b in zip(word, stop, strict=False) if a != b and len(word) == len(stop)}


@cache
def _keys_beside(language: str) -> frozenset[tuple[str, str]]:
    """Pairs of letters whose keys touch, on the keyboard of a language."""
    rows = _KEYBOARDS.get(language, _QWERTY).split()
    at = {key: (x + _STAGGER[y], y) for y, row in enumerate(rows) for x, key in enumerate(row)}
    return frozenset(
        (a, b) for a in at for b in at if abs(at[a][0] - at[b][0]) <= 1 and abs(at[a][1] - at[b][1]) <= 1
    )


def _ends_in_a_stop(book: Phrasebook, word: str) -> bool:
    """Whether a word is a known one with a stop word glued to it, such as "chairstop"."""
    parts = (word.removesuffix(stop) for stop in _meant(book))
    return any(len(part) >= _LEAST_GLUED and part in _glued_to() for part in parts if part != word)


@cache
def _glued_to() -> frozenset[str]:
    """Words that a stop may be glued to: no negation, which would deny it."""
    books = [phrasebook(language) for language in LANGUAGES]
    things = {part for book in books for _, word in book.translations.values() for part in word.split()}
    things.update(word for book in books for word in book.things.values())
    known = frozenset().union(*(book.lexicon for book in books), things)
    return known - _of_all("negations") - _of_all("denials")


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
