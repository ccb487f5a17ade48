# SPDX-License-Identifier: Apache-2.0
"""Corrections of misspelt words to known ones, and the sentences that they make."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache

from outrider.core.edit_distance import Spellings
from outrider.core.language.words.phrasebook import LANGUAGES, Phrasebook, phrasebook
from outrider.core.language.words.signs import PUNCTUATION

_MAX_RESPELT = 14


@lru_cache(32)
def spellings(book: Phrasebook, more: tuple[str, ...] = (), without: str = "") -> Spellings:
    """Return the words of a language and `more` that a misspelt word may be;
    `without` names a list to omit.
    """
    left_out = book.words(without) if without else frozenset[str]()
    return Spellings(sorted({*book.lexicon, *more} - left_out))


@cache
def english_things() -> frozenset[str]:
    """Return the English words of all things, colours and the like that some language's file translates."""
    books = [phrasebook(language) for language in LANGUAGES]
    told = (
        word
        for book in books
        for word in (*book.things.values(), *(w for _, w in book.translations.values()))
    )
    return frozenset(part for word in told for part in word.split())


def mended_texts(
    book: Phrasebook,
    words: Sequence[str],
    is_strange: Callable[[str], bool],
    more: tuple[str, ...],
    nearest: Sequence[str],
) -> Iterator[str]:
    """Yield a sentence with all unknown words corrected, then with the second choice for each.

    Yields nothing if the sentence is too long.

    A word that the language or the model knows is kept. `more`: the model's words; `nearest`: the nearest
    trained sentence, tried last.
    """
    if len(words) > _MAX_RESPELT or book.is_unspaced:
        return
    known = spellings(book, more, "negations")
    near = [known.near(word) if is_strange(word) else () for word in words]
    mended = [choices[0] if choices else word for choices, word in zip(near, words, strict=True)]
    others = [(at, choices[1]) for at, choices in enumerate(near) if len(choices) > 1]
    tries = [mended, *([*mended[:at], other, *mended[at + 1 :]] for at, other in others), nearest]
    yield from (_spaced(mended) for mended in tries if mended and mended != words)


def _spaced(words: Sequence[str]) -> str:
    """Return words as a sentence, without a space before a comma."""
    return "".join(word if word in PUNCTUATION else f" {word}" for word in words).strip()
