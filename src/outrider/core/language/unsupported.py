# SPDX-License-Identifier: Apache-2.0
"""Reasons for refusing words that no motion can obey."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from outrider.core.language.words.phrasebook import Phrasebook
from outrider.core.language.words.unsupported_words import ANYWHERE

_OTHERS = 'says "{}": only what you say yourself is done; say it in full'
_LIMITED = 'says "{}": a way in words takes no lengths, times or speeds; say each move by itself'
WHY_UNSUPPORTED = {
    "negation": 'says what not to do ("{}"): say what to do instead, such as "find the silver bottle"',
    "condition": 'says "{}": conditions and choices are not checked; say what to do now',
    "order": _OTHERS,
    "harm": 'says "{}": nothing is done that may hurt or break, or that leaves a safeguard out',
    "beyond": 'says "{}", which is no step of a plan: say what to find, or each move by itself',
    "takeback": 'says "{}", which takes something back: say anew what to do, and no more',
    "wish": 'says "{}", which is no order: say what to find, or how to move',
    "task": 'says "{}", which is no step of a plan: say what to find, or each move by itself',
    "run_on": 'says "{}" in the name of a thing: say "then" before the next step',
    "amount": _LIMITED,
    "order_in_ways": _OTHERS,
    "limit_in_ways": _LIMITED,
}
"""The reasons, by the kind of words."""


def why_unsupported(book: Phrasebook, words: Sequence[str], kinds: Iterable[str] = ANYWHERE) -> str:
    """Return why no motion can obey the words; empty if one can."""
    match = book.unsupported(words, kinds)
    return WHY_UNSUPPORTED[match[0]].format(match[1]) if match else ""
