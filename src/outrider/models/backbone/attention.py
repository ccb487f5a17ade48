# SPDX-License-Identifier: Apache-2.0
"""Attention of several sequences' newest tokens, each over its own cache, in as few operations as possible.

Sequences that are adjacent in a block of the cache, and attend over the same number of slots, form one run.
Their keys and values are one view of the block, so nothing is gathered or copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from outrider.models.backbone.kv_cache import CacheBlock, StaticCache


@dataclass(frozen=True)
class Segment:
    """Rows row..row+count of a forward pass: one sequence's tokens, at slots start.. of its cache.

    Token i attends to slots 0..start+i below `span`. Its query runs in a window of `window` queries, padded
    with repeated ones, so that attention has the same shape whatever the segment's length.
    """

    cache: StaticCache
    start: int
    row: int
    count: int
    span: int
    window: int

    def places(self) -> list[int]:
        """Return the index of the token whose query fills each row of the window."""
        return [min(place, self.count - 1) for place in range(self.window)]

    def continues(self, other: Segment) -> bool:
        """Return whether this segment directly follows the other in a run."""
        adjacent = other.cache.block is self.cache.block and other.cache.index + 1 == self.cache.index
        return adjacent and (other.span, other.window) == (self.span, self.window)


@dataclass(frozen=True)
class Run:
    """Adjacent segments: `count` sequences from `first` on in `block`.

    rows: their R rows in the forward pass. slots (R,): where their keys go in the block's flattened slots.
    queries (count * window,): the rows asked for, of which answers (R,) are not padding. mask
    (count, 1, group * window, span) is additive.
    """

    block: CacheBlock
    first: int
    count: int
    span: int
    window: int
    rows: slice
    slots: slice | Tensor
    queries: slice | Tensor
    answers: slice | Tensor
    mask: Tensor

    def write(self, layer: int, keys: Tensor, values: Tensor) -> None:
        """Write the run's part of all rows' keys and values (M, kv_heads, head_dim) to the cache."""
        for cached, new in ((self.block.keys[layer], keys), (self.block.values[layer], values)):
            slots = cached.flatten(0, 1)
            if isinstance(self.slots, slice):
                slots[self.slots] = new[self.rows]
            else:
                slots.index_copy_(0, self.slots, new[self.rows].to(slots.dtype))

    def attend(self, layer: int, queries: Tensor) -> Tensor:
        """Return attention (R, num_heads * head_dim) for the run's rows of all queries.

        queries: (M, num_heads, head_dim).
        """
        own = slice(self.first, self.first + self.count)
        keys = self.block.keys[layer][own, : self.span].transpose(1, 2)
        values = self.block.values[layer][own, : self.span].transpose(1, 2)
        folded = fold(_take(queries, self.queries), self.count, keys.shape[1]).to(keys.dtype)
        mixed = F.scaled_dot_product_attention(folded, keys, values, attn_mask=self.mask)
        return _take(unfold(mixed, self.window), self.answers)


def fold(queries: Tensor, count: int, num_kv_heads: int) -> Tensor:
    """Return queries (count * W, heads, dim) as (count, kv_heads, group * W, dim), grouped by shared keys."""
    grouped = queries.view(count, -1, num_kv_heads, queries.shape[1] // num_kv_heads, queries.shape[2])
    return grouped.permute(0, 2, 3, 1, 4).reshape(count, num_kv_heads, -1, queries.shape[2])


def unfold(mixed: Tensor, window: int) -> Tensor:
    """Undo `fold`: return (count * window, heads * head_dim)."""
    count, num_kv_heads, rows, head_dim = mixed.shape
    parted = mixed.reshape(count, num_kv_heads, rows // window, window, head_dim).permute(0, 3, 1, 2, 4)
    return parted.reshape(count * window, -1)


def _take(rows: Tensor, index: slice | Tensor) -> Tensor:
    return rows[index] if isinstance(index, slice) else rows.index_select(0, index)


def runs_of(segments: Sequence[Segment], num_rows: int, group: int, dtype: torch.dtype) -> list[Run]:
    """Return the segments of a forward pass over `num_rows` rows as runs; segments are in row order.

    `group`: query heads per key-value head.
    """
    runs: list[list[Segment]] = []
    for segment in segments:
        if runs and segment.continues(runs[-1][-1]):
            runs[-1].append(segment)
        else:
            runs.append([segment])
    return [_run(run, num_rows, group, dtype) for run in runs]


def _run(segments: Sequence[Segment], num_rows: int, group: int, dtype: torch.dtype) -> Run:
    first, last = segments[0], segments[-1]
    block, window, num_slots = first.cache.block, first.window, first.cache.block.keys[0].shape[1]
    rows = slice(first.row, last.row + last.count)
    visible = torch.tensor([[segment.start + place for place in segment.places()] for segment in segments])
    mask = _causal_mask(visible, first.span, group, dtype)
    begins = [segment.cache.index * num_slots + segment.start for segment in segments]
    slots: slice | Tensor = slice(begins[0], begins[0] + first.count)
    queries: slice | Tensor = slice(first.row, first.row + window)
    answers: slice | Tensor = slice(0, first.count)
    if len(segments) > 1 or first.row + window > num_rows:
        queries = torch.tensor([segment.row + place for segment in segments for place in segment.places()])
    if len(segments) > 1:
        sizes = [range(segment.count) for segment in segments]
        slots = torch.tensor([b + place for b, own in zip(begins, sizes, strict=True) for place in own])
        answers = torch.tensor([number * window + place for number, own in enumerate(sizes) for place in own])
    return Run(
        block, first.cache.index, len(segments), first.span, window, rows, slots, queries, answers, mask
    )


def _causal_mask(last_visible: Tensor, span: int, group: int, dtype: torch.dtype) -> Tensor:
    """Return the additive mask (count, 1, group * window, span) for last visible slots (count, window)."""
    mask = torch.zeros(*last_visible.shape, span, dtype=dtype)
    mask.masked_fill_(torch.arange(span) > last_visible.unsqueeze(-1), -torch.inf)
    return mask.repeat(1, group, 1).unsqueeze(1)
