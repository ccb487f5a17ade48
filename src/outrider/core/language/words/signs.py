# SPDX-License-Identifier: Apache-2.0
"""Text in plain letters and signs, as phrases are: without case, accents and invisible characters."""

from __future__ import annotations

import unicodedata
from functools import lru_cache

PUNCTUATION = ",.;!?"
_PLAIN_SIGNS = str.maketrans(
    {
        "，": ",",
        "。": ".",
        "；": ";",
        "！": "!",
        "？": "?",
        "、": ",",
        "：": ":",
        "’": "'",
        "‐": "-",
        "⋯": ".",
    }
)
_SYMBOL_CATEGORIES = {"So", "Sm", "Sk", "Cn", "Co"}
_MARKS_OF_NO_SCRIPT = ("COMBINING ", "VARIATION SELECTOR")
"""How the names of accents begin; the vowels of Thai and Hindi are marks too, but parts of their words."""
_FILLERS = "\u115f\u1160\u3164\uffa0"  # invisible letters


def plain(text: str) -> str:
    """Return a text in small letters without accents. Raised digits, fractions and the like are kept."""
    if text.isascii():
        return text.lower()
    signs = text.casefold().translate(_PLAIN_SIGNS)
    if signs.isascii():
        return signs
    parts = signs.translate({ord(c): _plain_letter(c) for c in set(signs) if not c.isascii()})
    return unicodedata.normalize("NFC", parts).translate(_PLAIN_SIGNS)


@lru_cache(4096)
def _plain_letter(c: str) -> str:
    """Return a letter without its accents, in its compatible form: "ﬁ" becomes "fi"."""
    parts = c if unicodedata.category(c) == "No" else unicodedata.normalize("NFKD", c)
    return "".join(part for part in parts if not unicodedata.combining(part))


def plain_word(text: str) -> str:
    """Return a word, number or sign as phrases are; for signs written as one, such as "…", the first."""
    word = plain(text)
    return word if word.strip(PUNCTUATION) else word[:1]


def visible(text: str) -> str:
    """Return a text with each letter and its accents composed, and without invisible characters.

    These are format characters, such as zero-width spaces and soft hyphens, and accents without a letter.
    """
    if text.isascii():
        return text
    text = unicodedata.normalize("NFC", text)
    return text.translate({ord(c): None for c in set(text) if _shows_nothing(c)})


def _shows_nothing(c: str) -> bool:
    is_mark = unicodedata.category(c) == "Mn" and unicodedata.name(c, "").startswith(_MARKS_OF_NO_SCRIPT)
    return c in _FILLERS or is_mark or unicodedata.category(c) in ("Cf", "Me")


def is_symbol(character: str) -> bool:
    """Return whether a character is a symbol outside ASCII, or one that this Python does not know yet."""
    return not character.isascii() and unicodedata.category(character) in _SYMBOL_CATEGORIES
