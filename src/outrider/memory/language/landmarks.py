# SPDX-License-Identifier: Apache-2.0
"""Finds which of the seen things a sentence names as a place. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

_ARTICLES = frozenset(["the", "a", "an", "my", "our", "your", "his", "her", "their", "this", "that"])


def landmark_of(text: str, things: Sequence[str], wanted: str = "") -> str | None:
    """Returns the thing with the longest name that is in the text, else the only one of its kind that is.

    "my keys hang by the silver lamp" names a silver lamp, "by the lamp" the only lamp there is. The
    `wanted` thing, which the text is about, is no landmark.
    """
    words = _words(text.lower().replace(wanted.lower(), " , ") if wanted else text)
    named = [thing for thing in things if thing != wanted and _holds(words, _words(thing))]
    if named:
        return max(named, key=lambda thing: len(_words(thing)))
    alike = [thing for thing in things if thing != wanted and _is_called(words, _words(thing)[-1])]
    return alike[0] if len(alike) == 1 else None


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text.lower()) or [""]


def _is_called(words: list[str], kind: str) -> bool:
    """Whether a kind is named without an adjective, which might distinguish it from the seen thing."""
    return any(word == kind and before in _ARTICLES for before, word in pairwise(words))


def _holds(words: list[str], part: list[str]) -> bool:
    return any(words[start : start + len(part)] == part for start in range(len(words) - len(part) + 1))
