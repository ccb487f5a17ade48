"""Chunks of several sessions in one forward: all rows together, attention for each on its own cache.

Products and norms run over the rows of all sessions at once, which is what a small batch on one machine gains
from. Rows are packed and padded to whole multiples of DECODE_ROWS; attention always runs DECODE_ROWS queries.
So a row is the same bits whatever stands beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

import torch
from torch import Tensor

from outrider.models.attention import Segment
from outrider.models.cache import StaticCache
from outrider.models.exits import ExitHeads, ExitTap
from outrider.models.positions import text_positions
from outrider.models.steps import StepCache, StepInput
from outrider.models.text_stack import TextStack

DECODE_ROWS = 8
"""Every forward after the prompt runs a multiple of this many rows, so that one token and a whole draft give
equal bits."""
SPAN_STEP = 128
"""A token at slot j attends over the first multiple of this past j: equal bits again, and little to read."""


@dataclass(frozen=True)
class Appended:
    """Tokens that go to slots start.. of a cache, at rotary positions that are `rope_delta` further on."""

    token_ids: Sequence[int]
    cache: StaticCache
    start: int
    rope_delta: int
    tap: ExitTap | None

    def slices(self) -> list[Appended]:
        """Cut into forwards of one shape."""
        return [
            Appended(self.token_ids[begin:end], self.cache, self.start + begin, self.rope_delta, self.tap)
            for begin, end in decode_slices(self.start, len(self.token_ids))
        ]


def next_span(slot: int) -> int:
    """How many slots a token at `slot` attends over."""
    return (slot // SPAN_STEP + 1) * SPAN_STEP


def decode_slices(start: int, count: int) -> list[tuple[int, int]]:
    """Cut tokens at slots start..start+count into forwards of one shape: few enough rows, all of one span."""
    slices, begin = [], 0
    while begin < count:
        until_next_span = next_span(start + begin) - (start + begin)
        end = min(count, begin + min(DECODE_ROWS, until_next_span))
        slices.append((begin, end))
        begin = end
    return slices


def run_alone(steps: StepCache, text: Appended) -> Tensor:
    """Logits (M, V) of one text's M tokens, in steps of static shape."""
    rows = []
    for part in text.slices():
        step = steps.step(part.cache.block, next_span(part.start))
        position = part.start + part.rope_delta
        heard = None if part.tap is None else part.tap.hear
        rows.append(step.run(StepInput(part.token_ids, part.cache.index, part.start, position), heard))
    return torch.cat(rows)


def run_together(text: TextStack, heads: ExitHeads | None, texts: Sequence[Appended]) -> list[Tensor]:
    """Logits (M, V) of each text's M tokens, in as few forwards as the longest text needs."""
    rows: list[list[Tensor]] = [[] for _ in texts]
    by_place = sorted(range(len(texts)), key=lambda index: texts[index].cache.place)
    for slices in zip_longest(*(one.slices() for one in texts)):
        present = [index for index in by_place if slices[index] is not None]
        for index, logits in zip(present, _run(text, heads, [slices[i] for i in present]), strict=True):
            rows[index].append(logits)
    return [torch.cat(parts) for parts in rows]


def _run(text: TextStack, heads: ExitHeads | None, parts: Sequence[Appended]) -> Sequence[Tensor]:
    """One forward over texts of up to DECODE_ROWS tokens each; spare rows repeat the last."""
    counts = [len(part.token_ids) for part in parts]
    num_rows = -(-sum(counts) // DECODE_ROWS) * DECODE_ROWS
    token_ids = [token_id for part in parts for token_id in part.token_ids]
    positions = [text_positions(part.start + part.rope_delta, len(part.token_ids)) for part in parts]
    spare = num_rows - len(token_ids)
    token_ids += token_ids[-1:] * spare
    positions.append(positions[-1][:, -1:].expand(3, spare))

    def tell(layer: int, hidden: Tensor) -> None:
        index = heads.index_of(layer) if heads is not None else None
        if heads is None or index is None:
            return
        rows = heads.logits(index, hidden)[: sum(counts)].cpu()
        for part, logits in zip(parts, rows.split(counts), strict=True):
            if part.tap is not None:
                part.tap.hear(index, logits)

    listened = any(part.tap is not None for part in parts)
    hidden = text.forward(
        text.embed(token_ids),
        torch.cat(positions, dim=1),
        text.runs(_segments(parts), num_rows),
        tell if listened else None,
    )
    return text.logits(hidden)[: sum(counts)].split(counts)


def _segments(parts: Sequence[Appended]) -> list[Segment]:
    segments, row = [], 0
    for part in parts:
        count = len(part.token_ids)
        segments.append(Segment(part.cache, part.start, row, count, next_span(part.start), DECODE_ROWS))
        row += count
    return segments
