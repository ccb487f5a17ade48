# SPDX-License-Identifier: Apache-2.0
"""The words of a text in any script and normal form, as in the store's index. Pure functions.

A text is normalised first. Compatibility forms (full width, ligatures), case, invisible characters and
digits of other scripts are unified. The accents of Latin and Greek, the points of Hebrew and Arabic, and
the dots of the Russian yo are dropped. Words are then runs of letters, digits and their marks. Every
symbol, such as an emoji, is a word. Scripts without blanks between words (Chinese, Japanese, Thai and
others; Korean, whose particles join the word) give a unit for each character with its marks. A word of
theirs is found as a sequence of these units.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache

_UNSPACED = (
    *("CJK ", "IDEOGRAPHIC ", "HIRAGANA ", "KATAKANA", "BOPOMOFO ", "YI ", "NUSHU ", "TANGUT ", "HANGUL "),
    *("THAI ", "LAO ", "KHMER ", "MYANMAR ", "TIBETAN ", "TAI ", "NEW TAI ", "JAVANESE ", "BALINESE "),
)
_ACCENTED = ("LATIN ", "GREEK ")
_POINTED = ("HEBREW ", "ARABIC ")
_FOLDED = str.maketrans(
    {"ı": "i", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "ħ": "h", "ŧ": "t", "þ": "th", "æ": "ae", "œ": "oe"}
    | {"ـ": None, "ى": "ي", "ی": "ي", "ک": "ك", "ة": "ه", "ہ": "ه", "ە": "ه"}
)
"""In addition to Unicode's own folding, as in search engines: the Turkish i without its dot, Latin letters
with strokes and joined ones; the stroke that widens Arabic words, and Arabic, Persian and Urdu forms of a
letter.
"""
WORDS_FORM = 2
"""The version of `words_of`'s results, which indexes store."""
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\U000e0100-\U000e01ef]"
)
_SYMBOLS = ("So", "Sc", "Sm", "Sk")


def folded(text: str) -> str:
    """Returns the common form of all spellings of a text that count as equal."""
    visible = "".join(c for c in text if unicodedata.category(c) != "Cf" and not _INVISIBLE.match(c))
    apart = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", visible).casefold())
    plain: list[str] = []
    base = ""
    for character in apart.translate(_FOLDED):
        if not unicodedata.category(character).startswith("M"):
            base = character
        elif _is_dropped(base, character):
            continue
        plain.append(str(unicodedata.decimal(character, character)))
    return unicodedata.normalize("NFC", "".join(plain))


def words_of(text: str) -> list[str]:
    """Returns the words of a text in order, each as its units with blanks between: `red`, `钥 匙`."""
    words: list[str] = []
    units: list[str] = []
    for character in folded(text):
        kind = unicodedata.category(character)
        if kind[0] == "M" and units:
            units[-1] += character
        elif kind[0] in "LN" or (kind in _SYMBOLS and not character.isascii()):
            joins = units and _is_run(units[-1]) and _is_run(character)
            units[-1:] = [units[-1] + character] if joins else [*units[-1:], character]
        elif units:
            words.append(" ".join(units))
            units = []
    return [*words, " ".join(units)] if units else words


def search_words(text: str) -> list[str]:
    """Returns the terms of a search for any word: words, and each pair of neighbours in a run of units."""
    found: list[str] = []
    for word in words_of(text):
        units = word.split(" ")
        found += [" ".join(units[at : at + 2]) for at in range(max(1, len(units) - 1))]
    return found


def holds_all(text: str, words: Sequence[str]) -> bool:
    """Whether a text contains all the words, in `words_of`'s form."""
    row = f" {' '.join(words_of(text))} "
    return all(f" {word} " in row for word in words)


def _is_dropped(base: str, mark: str) -> bool:
    if unicodedata.category(mark) == "Me" or (base, mark) == ("е", "\u0308"):
        return True
    script = _name(base)
    return script.startswith(_ACCENTED + _POINTED) or _name(mark).startswith(_POINTED)


def _is_run(unit: str) -> bool:
    """Whether the next letter continues a unit: not after a symbol, or in a script without blanks."""
    return unicodedata.category(unit[0])[0] in "LN" and not _name(unit[0]).startswith(_UNSPACED)


@cache
def _name(character: str) -> str:
    return unicodedata.name(character, "") if character else ""
