# SPDX-License-Identifier: Apache-2.0
"""Stop words in other spellings: "st0p", "stooop", "s t o p", "stopstop", "stopitnow", "Not-Halt"."""

from __future__ import annotations

import re
from functools import cache

from outrider.core.language.words.other_stops import with_other_stops
from outrider.core.language.words.phrase_group import WORD_BEGINS
from outrider.core.language.words.phrasebook import Phrasebook, joined, stop_words
from outrider.core.language.words.signs import plain
from outrider.core.language.words.stop_phrases import of_all, stop_phrases
from outrider.core.language.words.unsupported_words import SLOT_NAME

_MAX_LETTERS = 40
_NO_LETTER = re.compile(r"[\W_]+")
_LOOK_ALIKE = str.maketrans("01345@$7орсстаеѕορτα", "oleasastopsctaesopta")
"""Digits, signs and letters of other alphabets, and the Latin letters that they look like."""
_SIGNS = dict.fromkeys(map(ord, "🛑✋🤚🖐🫷🫸⛔🚫🙅⏹⏸"), " stop ") | {
    first + at: chr(ord("a") + at) for first in (0x1F130, 0x1F150, 0x1F170) for at in range(26)
}
"""Signs that order a stop, and letters in squares and circles, which do not count as letters otherwise."""
_SMALL_CAPITALS = dict(zip(map(ord, "ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ"), "abcdefghijklmnoprstuvwyz", strict=True))
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
"""German words for an emergency stop, in which "Not" is not a negation: "Not-Halt", "Notbremse"."""


def unveiled(sentence: str) -> str:
    """Return a sentence with its stop words spelt normally: "st0p", "s t o p", "stopstop" become "stop".

    So do orders to stop in languages in which nothing else is understood.
    """
    sentence = with_other_stops(sentence.translate(_SIGNS | _SMALL_CAPITALS))
    sentence = _EMERGENCY.sub(" nothalt ", _SCRIPTS_MEET.sub(" ", sentence))
    sentence = _SPELT.sub(lambda spelt: _as_meant(spelt[0], re.sub(r"[\W_]", "", spelt[0])), sentence)
    return _CHUNK.sub(lambda chunk: _as_meant(chunk[0], chunk[0]), sentence)


def undrawn(sentence: str) -> str:
    """Return a sentence with letters repeated three times or more reduced to one: "waaait" is "wait"."""
    return _LONG_DRAWN.sub(r"\1", sentence)


def is_written_as_one(book: Phrasebook, sentence: str) -> bool:
    """Return whether a sentence's letters form orders to stop and polite words, wherever its spaces are."""
    letters = _NO_LETTER.sub("", plain(sentence))
    return len(letters) <= _MAX_LETTERS and _orders_as_one(book).fullmatch(letters) is not None


def _as_meant(written: str, letters: str) -> str:
    """Return the stop word that the letters stand for, or the negation of "nooo"; else what was said."""
    letters = plain(letters).translate(_LOOK_ALIKE)
    stretched, letters = letters, undrawn(letters)
    if letters != stretched and letters in of_all("negations"):
        return f" {letters} "
    match = _repeated().fullmatch(letters)
    return written if match is None or plain(written) in stop_words() else f" {match[1]} "


@cache
def _repeated() -> re.Pattern[str]:
    """Return an expression for a stop word in letters, once or several times."""
    return re.compile(rf"({'|'.join(sorted(map(re.escape, stop_words()), key=len, reverse=True))})+")


@cache
def _orders_as_one(book: Phrasebook) -> re.Pattern[str]:
    """Return an expression for orders to stop among polite words, in letters and digits only."""
    entries = (*book.spoken("correction"), *book.spoken("negations"))
    corrections = [joined(book.tokens(entry)) for entry in entries]
    expressions = [SLOT_NAME.sub("?:", expression) for expression in stop_phrases(book).expressions]
    orders = (
        expression
        for expression in expressions
        if not any(map(re.compile(expression).fullmatch, corrections))
    )
    polite = (
        joined(book.tokens(entry)) for use in ("polite_before", "polite_after") for entry in book.spoken(use)
    )
    entry = "|".join(map(re.escape, polite))
    stop = "|".join(order.replace(WORD_BEGINS, "") for order in orders)
    return re.compile(re.sub(r"\\?(?: |'\??)", "", rf"(?:{entry})*(?:{stop})(?:{stop}|{entry})*"))
