# SPDX-License-Identifier: Apache-2.0
"""Splits a sentence into words, numbers and signs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set

from outrider.core.language.words.amounts import Numerals, Token, written_digits
from outrider.core.language.words.signs import plain_word

_SIGNS_IN_WORDS = str.maketrans({"’": "'", "‐": "-"})
_FACES = (
    *range(0x1F600, 0x1F645),
    *range(0x1F910, 0x1F916),
    0x1F917,
    *range(0x1F920, 0x1F92F),
    *range(0x1F970, 0x1F97B),
)
_UNSAID = frozenset([*'"“”„«»¿¡:', *"👍👋🙏", *"🏻🏼🏽🏾🏿", *map(chr, _FACES)])
"""Signs that say nothing: quotation marks, faces, and hands that greet, thank or agree."""
_TOKEN = r"[^\W\d_]+(?:['-][^\W\d_]+)*|\S"
_APOSTROPHE = re.compile(r"(?<=[^\W\d_])[´`ʼ′＇‘](?=[^\W\d_])")
"""What people type for an apostrophe where none is on their keyboard, between letters."""
_JOINT = re.compile(r"(?<=[^\W\d_])['-](?=[^\W_])")
_DIGRAPH = re.compile("([aou])e")


class Tokenizer:
    """Splits sentences of one language. `lexicon`: all words in the language's file.

    `kinds`: "parted" if hyphens and apostrophes separate words; "unspaced" if blanks do not; "digraphs" if
    "ue" may be written for "ü".
    """

    def __init__(self, numerals: Numerals, units: Set[str], lexicon: Set[str], kinds: Set[str]) -> None:
        self._numerals, self._lexicon, self._kinds = numerals, lexicon, kinds
        self._counted = frozenset((*numerals.words, *units))
        self._token = re.compile(f"{written_digits(numerals.decimal_sign)}|{_TOKEN}")
        self._longest = max(map(len, lexicon))

    def tokens(self, sentence: str) -> list[Token]:
        """Return the words, numbers and signs in order, without signs that say nothing."""
        signs = _APOSTROPHE.sub("'", sentence.translate(_SIGNS_IN_WORDS))
        signs = _JOINT.sub(" ", signs) if "parted" in self._kinds else signs
        split = [Token(self._spelling(m[0]), m.start(), m.end()) for m in self._token.finditer(signs)]
        split = [token for token in split if token.word and token.word not in _UNSAID]
        split = list(self._numerals.parted(split, self._counted))
        if "unspaced" in self._kinds:
            return [part for token in split for part in self._segments(token)]
        return split

    def _spelling(self, written: str) -> str:
        """Return a word in the spelling of the language's file."""
        word = plain_word(written)
        if "digraphs" not in self._kinds or word in self._lexicon:
            return word
        with_umlauts = _DIGRAPH.sub(r"\1", word)
        return with_umlauts if with_umlauts in self._lexicon else word

    def _segments(self, token: Token) -> Iterator[Token]:
        """Yield a run of unspaced writing as the longest words of the lexicon; other signs one by one."""
        start = 0
        while start < len(token.word):
            sizes = range(min(self._longest, len(token.word) - start), 0, -1)
            latin = token.word.isascii()
            fits = (size for size in sizes if token.word[start : start + size] in self._lexicon)
            size = len(token.word) if latin else next(fits, 1)
            yield Token(token.word[start : start + size], token.start + start, token.start + start + size)
            start += size
