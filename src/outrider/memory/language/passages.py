# SPDX-License-Identifier: Apache-2.0
"""Splits a long text into parts that an embedding reads whole. Pure functions."""

from __future__ import annotations

import itertools
import re
from bisect import bisect_right
from collections.abc import Iterator

PASSAGE_LENGTH = 240
"""In ASCII characters. Others count fourfold: each of them may be a token of the embedding."""
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？।॥؟])\s*|\n+")


def passage_spans(text: str) -> list[tuple[int, int]]:
    """Returns the start and stop of each passage: whole sentences while they fit, else cut at words."""
    upto = list(itertools.accumulate((1 if one.isascii() else 4 for one in text), initial=0))
    spans: list[tuple[int, int]] = []
    for start, stop in _pieces(text, upto):
        if spans and upto[stop] - upto[spans[-1][0]] <= PASSAGE_LENGTH:
            spans[-1] = spans[-1][0], stop
        else:
            spans.append((start, stop))
    return spans or [(0, len(text))]


def _pieces(text: str, upto: list[int]) -> Iterator[tuple[int, int]]:
    """Yields sentences, long ones in parts. `upto` is the length of the text before each character."""
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
    """Returns where a passage that begins here must end: at a blank, if there is one."""
    full = max(start + 1, min(stop, bisect_right(upto, upto[start] + PASSAGE_LENGTH) - 1))
    blank = text.rfind(" ", start + 1, full + 1)
    return full if blank < 0 else blank
