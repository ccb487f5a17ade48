# SPDX-License-Identifier: Apache-2.0
"""A long text in parts that an embedding reads whole. Pure functions."""

from __future__ import annotations

import itertools
import re
from bisect import bisect_right
from collections.abc import Iterator

PASSAGE_LENGTH = 240
"""In Latin letters; others count fourfold, for each of them may be a token of the embedding."""
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？।॥؟])\s*|\n+")


def passage_spans(text: str) -> list[tuple[int, int]]:
    """Where each passage starts and stops: whole sentences while they fit, longer ones cut between words."""
    upto = list(itertools.accumulate((1 if one.isascii() else 4 for one in text), initial=0))
    spans: list[tuple[int, int]] = []
    for start, stop in _pieces(text, upto):
        if spans and upto[stop] - upto[spans[-1][0]] <= PASSAGE_LENGTH:
            spans[-1] = spans[-1][0], stop
        else:
            spans.append((start, stop))
    return spans or [(0, len(text))]


def _pieces(text: str, upto: list[int]) -> Iterator[tuple[int, int]]:
    """Sentences, the long ones in parts. `upto` each character: the length of what is before it."""
    start = 0
    for end in (*_SENTENCE_END.finditer(text), None):
        stop = end.start() if end else len(text)
        while upto[stop] - upto[start] > PASSAGE_LENGTH:
            cut = _cut(text, upto, start, stop)
            yield start, cut
            start = next((at for at in range(cut, stop) if not text[at].isspace()), stop)
        if text[start:stop].strip():
            yield start, stop
        start = end.end() if end else stop


def _cut(text: str, upto: list[int], start: int, stop: int) -> int:
    """Where a passage that begins here must end: at a blank if there is one."""
    full = max(start + 1, min(stop, bisect_right(upto, upto[start] + PASSAGE_LENGTH) - 1))
    blank = text.rfind(" ", start + 1, full + 1)
    return full if blank < 0 else blank
