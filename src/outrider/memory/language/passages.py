# SPDX-License-Identifier: Apache-2.0
"""A long text in parts that an embedding reads whole. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterator

PASSAGE_LENGTH = 240
"""In Latin letters; others count fourfold, for each of them may be a token of the embedding."""
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？।॥؟])\s*|\n+")


def passage_spans(text: str) -> list[tuple[int, int]]:
    """Where each passage starts and stops: whole sentences while they fit, longer ones cut between words."""
    spans: list[tuple[int, int]] = []
    for start, stop in _pieces(text):
        if spans and _length(text[spans[-1][0] : stop]) <= PASSAGE_LENGTH:
            spans[-1] = spans[-1][0], stop
        else:
            spans.append((start, stop))
    return spans or [(0, len(text))]


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    """Sentences, the long ones in parts."""
    start = 0
    for end in (*_SENTENCE_END.finditer(text), None):
        stop = end.start() if end else len(text)
        while _length(text[start:stop]) > PASSAGE_LENGTH:
            cut = _cut(text, start, stop)
            yield start, cut
            start = cut + len(text[cut:stop]) - len(text[cut:stop].lstrip())
        if text[start:stop].strip():
            yield start, stop
        start = end.end() if end else stop


def _cut(text: str, start: int, stop: int) -> int:
    """Where a passage that begins here must end: at a blank if there is one."""
    full = start + 1
    while full < stop and _length(text[start : full + 1]) <= PASSAGE_LENGTH:
        full += 1
    blank = text.rfind(" ", start + 1, full + 1)
    return full if blank < 0 else blank


def _length(text: str) -> int:
    ascii_letters = sum(character.isascii() for character in text)
    return 4 * len(text) - 3 * ascii_letters
