# SPDX-License-Identifier: Apache-2.0
"""Runs chunks of several sessions in one forward pass: rows together, attention on each one's cache.

Products and norms run over the rows of all sessions at once, which is where a small batch on one machine
gains. Rows are packed and padded to whole multiples of DECODE_ROWS; attention always runs DECODE_ROWS
queries. So a row has the same bits whatever the other rows are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, zip_longest

import torch
from torch import Tensor

from outrider.core.model_options import ROWS_TOGETHER
from outrider.core.ports import ExitReader, Pause, Reading
from outrider.models.backbone.attention import Segment
from outrider.models.backbone.early_exits import ExitHeads
from outrider.models.backbone.kv_cache import StaticCache
from outrider.models.backbone.mrope import text_positions
from outrider.models.backbone.text_stack import AfterLayer, TextStack

DECODE_ROWS = ROWS_TOGETHER["cpu"]
"""Every forward pass after the prompt runs a multiple of this many rows, so that one token and a whole
draft give the same bits.
"""
SPAN_STEP = 128
"""A token at slot j attends over the first multiple of this above j: the same bits, and little to read."""


@dataclass(frozen=True)
class Appended:
    """Tokens for slots start.. of a cache, whose rotary positions are `rope_delta` higher."""

    token_ids: Sequence[int]
    cache: StaticCache
    start: int
    rope_delta: int

    def slices(self) -> list[Appended]:
        """Return the tokens cut into forward passes of one shape."""
        return [
            Appended(self.token_ids[begin:end], self.cache, self.start + begin, self.rope_delta)
            for begin, end in decode_slices(self.start, len(self.token_ids))
        ]


def next_span(slot: int) -> int:
    """Return how many slots a token at `slot` attends over."""
    return (slot // SPAN_STEP + 1) * SPAN_STEP


def decode_slices(
    start: int, count: int, num_rows: int = DECODE_ROWS, span_of: Callable[[int], int] = next_span
) -> list[tuple[int, int]]:
    """Cut tokens at slots start..start+count into passes of one shape: at most `num_rows` rows, one span."""
    slices, begin = [], 0
    while begin < count:
        until_next_span = span_of(start + begin) - (start + begin)
        end = min(count, begin + min(num_rows, until_next_span))
        slices.append((begin, end))
        begin = end
    return slices


def reader_of_slices(
    read: ExitReader | None, texts: Sequence[Appended], num_forwards: int
) -> ExitReader | None:
    """Return a reader for the passes that texts are cut into: `read` itself if there is only one pass."""
    return read if read is None or num_forwards == 1 else ExitSlices(read, texts).read


class ExitSlices:
    """Collects exits' logits for chunks that may be cut into slices, and passes complete ones to a reader."""

    def __init__(self, read: ExitReader, texts: Sequence[Appended]) -> None:
        self._read = read
        self._counts = [len(text.token_ids) for text in texts]
        self._slices: dict[tuple[int, int], list[Tensor]] = {}

    def read(self, exit_index: int, rows: Sequence[tuple[int, Tensor]]) -> Reading | None:
        """Take the logits (rows, S) of one forward pass for some texts, by their numbers."""
        complete = []
        for number, new in rows:
            if new.shape[0] == self._counts[number]:
                complete.append((number, new))
                continue
            slices = self._slices.setdefault((exit_index, number), [])
            # Cloned, because the next forward pass may use the same memory.
            slices.append(new.clone())
            if sum(map(len, slices)) == self._counts[number]:
                complete.append((number, torch.cat(slices)))
        return self._read(exit_index, complete) if complete else None


def run_together(
    text: TextStack,
    heads: ExitHeads | None,
    texts: Sequence[Appended],
    read: ExitReader | None,
    pause: Pause | None = None,
) -> list[Tensor]:
    """Return logits (M, V) of each text's M tokens, in as few forward passes as the longest text needs.

    `pause` is called after each layer but the last.
    """
    rows: list[list[Tensor]] = [[] for _ in texts]
    by_location = sorted(range(len(texts)), key=lambda index: texts[index].cache.location)
    forwards = list(zip_longest(*(session_text.slices() for session_text in texts)))
    read = reader_of_slices(read, texts, len(forwards))
    for slices in forwards:
        present = [index for index in by_location if slices[index] is not None]
        parts = [slices[index] for index in present]
        on_layer = None if heads is None or read is None else _exit_reader(heads, read, present, parts)
        for index, logits in zip(present, _run(text, parts, _both(on_layer, pause)), strict=True):
            rows[index].append(logits)
    return [torch.cat(parts) for parts in rows]


def _exit_reader(
    heads: ExitHeads, read: ExitReader, present: Sequence[int], parts: Sequence[Appended]
) -> AfterLayer:
    """Return a callback that reads the exits' logits after their layers, for all texts in one product."""
    ends = list(accumulate(len(part.token_ids) for part in parts))
    row_ranges = list(zip(present, [0, *ends], ends, strict=False))

    def on_layer(layer: int, _: Tensor, unit: Tensor) -> None:
        index = heads.index_of(layer)
        if index is None:
            return
        logits = heads.logits(index, unit)
        reading = read(index, [(number, logits[first:end]) for number, first, end in row_ranges])
        if reading is not None:
            reading.observe(reading.chosen.cpu())

    return on_layer


def _both(on_layer: AfterLayer | None, pause: Pause | None) -> AfterLayer | None:
    if pause is None:
        return on_layer

    def after_layer(layer: int, hidden: Tensor, unit: Tensor) -> None:
        if on_layer is not None:
            on_layer(layer, hidden, unit)
        pause()

    return after_layer


def _run(text: TextStack, parts: Sequence[Appended], after_layer: AfterLayer | None) -> Sequence[Tensor]:
    """Run one forward pass over texts of up to DECODE_ROWS tokens each; spare rows repeat the last."""
    counts = [len(part.token_ids) for part in parts]
    num_rows = -(-sum(counts) // DECODE_ROWS) * DECODE_ROWS
    token_ids = [token_id for part in parts for token_id in part.token_ids]
    positions = [text_positions(part.start + part.rope_delta, len(part.token_ids)) for part in parts]
    spare = num_rows - len(token_ids)
    token_ids += token_ids[-1:] * spare
    positions.append(positions[-1][:, -1:].expand(3, spare))
    hidden = text.forward(
        text.embed(token_ids),
        torch.cat(positions, dim=1),
        text.runs(_segments(parts), num_rows),
        after_layer,
    )
    return text.logits(hidden)[: sum(counts)].split(counts)


def _segments(parts: Sequence[Appended]) -> list[Segment]:
    segments, row = [], 0
    for part in parts:
        count = len(part.token_ids)
        segments.append(Segment(part.cache, part.start, row, count, next_span(part.start), DECODE_ROWS))
        row += count
    return segments
