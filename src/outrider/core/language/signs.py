# SPDX-License-Identifier: Apache-2.0
"""A text in plain letters and signs, as phrases have it: without case, accents and what shows nothing."""

from __future__ import annotations

import unicodedata

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
_FILLERS = "\u115f\u1160\u3164\uffa0"  # letters that show nothing


def plain(text: str) -> str:
    """A text in small letters, without accents. Raised digits, fractions and the like stay as they are."""
    signs = text.casefold().translate(_PLAIN_SIGNS)
    parts = "".join(c if unicodedata.category(c) == "No" else unicodedata.normalize("NFKD", c) for c in signs)
    told = unicodedata.normalize("NFC", "".join(c for c in parts if not unicodedata.combining(c)))
    return told.translate(_PLAIN_SIGNS)


def plain_word(said: str) -> str:
    """A word, number or sign as phrases have it: of signs that are written as one, such as "…", the first."""
    word = plain(said)
    return word[:1] if word and set(word) <= set(PUNCTUATION) else word


def visible(text: str) -> str:
    """A text with each letter and its accents as one, and without characters that show nothing.

    Those are format characters, such as zero-width spaces and soft hyphens, and accents on no letter.
    """
    kept = (c for c in unicodedata.normalize("NFC", text) if c not in _FILLERS)
    return "".join(c for c in kept if unicodedata.category(c) not in ("Cf", "Mn", "Me"))
