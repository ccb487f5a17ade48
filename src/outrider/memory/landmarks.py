"""Which of the things that were seen a sentence names as a place. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Sequence


def landmark_of(text: str, things: Sequence[str]) -> str | None:
    """The thing with the longest name that stands in the text; else the only one of a kind that does.

    "my keys hang by the silver lamp" names a silver lamp, "by the lamp" the only lamp there is.
    """
    words = _words(text)
    named = [thing for thing in things if _holds(words, _words(thing))]
    if named:
        return max(named, key=lambda thing: len(_words(thing)))
    alike = [thing for thing in things if _words(thing)[-1] in words]
    return alike[0] if len(alike) == 1 else None


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text.lower()) or [""]


def _holds(words: list[str], part: list[str]) -> bool:
    return any(words[start : start + len(part)] == part for start in range(len(words) - len(part) + 1))
