# SPDX-License-Identifier: Apache-2.0
"""The stops of a language, and the words around them: politeness, negations, urging questions."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import cache

from outrider.core.language.words.amounts import Token
from outrider.core.language.words.phrase_group import WORD_BEGINS, PhraseGroup
from outrider.core.language.words.phrasebook import LANGUAGES, Phrasebook, joined, phrasebook, stop_words
from outrider.core.language.words.signs import PUNCTUATION, plain


@cache
def stop_phrases(book: Phrasebook) -> PhraseGroup:
    """Return the phrases that order a stop in a language; they match at the beginning of a word."""
    phrases = (phrase for group in book.groups if group.name == "stop" for phrase in group.expressions)
    words = "|".join(sorted(map(re.escape, stop_words()), key=len, reverse=True))
    return PhraseGroup("stop", [f"{WORD_BEGINS}(?:{phrase})" for phrase in (*phrases, f"(?:{words}) ")])


def is_long(book: Phrasebook, phrase: str) -> bool:
    """Return whether a stop phrase has several words; such a phrase rarely means anything else."""
    return len(phrase.strip() if book.is_unspaced else phrase.split()) > 1


@cache
def no_orders(book: Phrasebook) -> re.Pattern[str]:
    """Return an expression, for all languages, for phrases to remove before stops are searched for.

    These are urging questions, such as "can't you", and phrases in which a stop word is an ordinary word,
    such as the Spanish "para ti".
    """
    books = [phrasebook(language) for language in LANGUAGES]
    entries = [urge for other in books for urge in other.spoken("urges")]
    entries += [phrase for other in books for phrase in other.spoken("no_stops") if " " in phrase]
    spelt = sorted((joined(book.tokens(urge)) for urge in entries), key=len, reverse=True)
    return re.compile(f"{WORD_BEGINS}(?:{'|'.join(map(re.escape, spelt))})")


@cache
def of_all(use: str) -> frozenset[str]:
    """Return the words of one list in the files of all languages."""
    books = map(phrasebook, LANGUAGES)
    return frozenset().union(*(book.denials if use == "denials" else book.words(use) for book in books))


@cache
def called(book: Phrasebook) -> frozenset[str]:
    """Return the words around a stop that mean nothing: politeness, names, oaths, sounds."""
    return polite_words(book) | (of_all("called") - stop_words())


def without_calls(book: Phrasebook, words: Sequence[str], kept: AbstractSet[str] = frozenset()) -> list[str]:
    """Return words without meaningless ones at their ends, and one unknown one there, such as a name.

    Words in `kept` are kept: the "no" of "no rex".
    """
    ignored = called(book) - kept
    rest = _without(ignored, words)
    for at in (0, -1):
        if len(rest) > 1 and not book.is_unspaced and _is_strange(rest[at]):
            return _without(ignored, rest[1:] if at == 0 else rest[:-1])
    return rest


def without_emphasis(sentence: str) -> Iterator[str]:
    """Yield, for each language, a sentence without the words that only add emphasis in it."""
    for book in map(phrasebook, LANGUAGES):
        words = [token.word for token in book.tokens(sentence)]
        plain = [word for word in words if word not in book.words("emphasis")]
        if len(plain) < len(words):
            yield " ".join(plain)


def without_ends(sentence: str) -> Iterator[str]:
    """Yield a sentence without signs and politeness at its ends, then also without names, oaths and sounds.

    Of the languages' words, those count by which the sentence becomes shortest. A question stays whole.
    """
    if "?" not in sentence:
        cuts = (tuple(_without_ends(phrasebook(language), sentence)) for language in LANGUAGES)
        yield from min(cuts, key=lambda variants: len(variants[-1]))


def _without_ends(book: Phrasebook, sentence: str) -> Iterator[str]:
    said = _without_signs(book.tokens(sentence))
    bare = book.without(book.polite_after, book.without(book.polite_before, said), True)
    for rest in (_without_signs(bare), _without_meaningless(book, said)):
        if not rest or _is_article(book, rest[-1].word):
            yield sentence
            continue
        before = plain(sentence[: rest[0].start]).split()
        denies = not of_all("denials").isdisjoint(before)  # "don't" is two words in Spanish
        yield sentence[0 if denies else rest[0].start : rest[-1].end]


def _without_meaningless(book: Phrasebook, said: Sequence[Token]) -> Sequence[Token]:
    """Return words without politeness, names and oaths at their ends.

    A single letter at the end stays: it may be a unit, such as that of "for 20 s".
    """
    ignored = called(book) - of_all("negations") | set(PUNCTUATION)
    kept = [at for at, token in enumerate(said) if token.word not in ignored]
    if not kept:
        return ()
    rest = said[kept[-1] + 1 :]
    ends_in_unit = len(rest) == 1 and len(rest[0].word) == 1 and rest[0].word.isascii()
    return said[kept[0] : None if ends_in_unit else kept[-1] + 1]


def _is_article(book: Phrasebook, word: str) -> bool:
    """Return whether a word is an article of a language; of another one only if the language lacks it."""
    others = () if word in book.lexicon else map(phrasebook, LANGUAGES)
    return any(not other.without_article(f"{word} ").strip() for other in (book, *others))


def _without_signs(tokens: Sequence[Token]) -> list[Token]:
    words = [at for at, token in enumerate(tokens) if token.word not in PUNCTUATION]
    return list(tokens[words[0] : words[-1] + 1]) if words else []


def _is_strange(word: str) -> bool:
    """Return whether no language's file has a word; it may be the robot's name."""
    return word.isalpha() and word not in _known()


@cache
def _known() -> frozenset[str]:
    books = map(phrasebook, LANGUAGES)
    return frozenset().union(*(book.lexicon | book.unmended | book.stop_words for book in books))


@cache
def polite_words(book: Phrasebook) -> frozenset[str]:
    """Return the single words of a language's politeness and questions, without stop words."""
    lists = map(book.spoken, ("polite_before", "firsts", "polite_after", "asking"))
    return frozenset(word for entry in itertools.chain(*lists) for word in entry.split()) - stop_words()


def without_politeness(book: Phrasebook, words: Sequence[str]) -> list[str]:
    """Return words without polite and asking ones at their ends."""
    return _without(polite_words(book), words)


def _without(ignored: frozenset[str], words: Sequence[str]) -> list[str]:
    rest = list(words)
    while rest and rest[-1] in ignored:
        rest.pop()
    return list(itertools.dropwhile(ignored.__contains__, rest))


def between_signs(words: Sequence[str]) -> Iterator[list[str]]:
    """Yield the runs of words between punctuation signs."""
    run = list[str]()
    for word in (*words, "."):
        if word not in PUNCTUATION:
            run.append(word)
        elif run:
            yield run
            run = []
