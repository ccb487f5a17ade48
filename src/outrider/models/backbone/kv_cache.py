# SPDX-License-Identifier: Apache-2.0
"""The static KV cache: room for whole sequences at once, so that rollback is a length and shapes stay."""

from __future__ import annotations

import heapq
import weakref
from dataclasses import dataclass

import torch
from torch import Tensor

from outrider.models.backbone.out_of_memory import telling_out_of_memory


@dataclass(frozen=True)
class CacheShape:
    """Of one sequence's keys, and of its values."""

    num_layers: int
    num_slots: int
    num_kv_heads: int
    head_dim: int

    def num_bytes(self, dtype: torch.dtype) -> int:
        """Of both, where numbers are of this type."""
        return 2 * self.num_layers * self.num_slots * self.num_kv_heads * self.head_dim * dtype.itemsize


@dataclass(frozen=True, eq=False)
class CacheBlock:
    """Keys and values of each layer, (sequences, slots, kv_heads, head_dim), of sequences side by side.

    `whole`: the same numbers, (layers, sequences, slots, kv_heads, head_dim), keys and values.
    """

    whole: tuple[Tensor, Tensor]
    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]


@dataclass(frozen=True, eq=False)
class StaticCache:
    """One sequence's place in a block. Its user knows how many slots are valid."""

    block: CacheBlock
    index: int

    def copy_from(self, other: StaticCache, start: int, end: int) -> None:
        """Take over another sequence's slots from `start` to before `end`."""
        for own, its in zip(self.block.whole, other.block.whole, strict=True):
            own[:, self.index, start:end] = its[:, other.index, start:end]

    @property
    def place(self) -> tuple[int, int]:
        """Neighbours follow each other in this order."""
        return id(self.block), self.index


class CachePool:
    """Gives places to sequences and takes them back when nobody holds them any more.

    Neighbours are attended to in one operation, so the lowest place that is free goes first. Where all are
    taken, another block of `block_size` is allocated.
    """

    def __init__(
        self, shape: CacheShape, dtype: torch.dtype, block_size: int = 1, device: torch.device | None = None
    ) -> None:
        self._shape = shape
        self._dtype = dtype
        self._device = device
        self._block_size = block_size
        self._blocks: list[CacheBlock] = []
        self._free: list[tuple[int, int]] = []

    def take(self) -> StaticCache:
        """Raises OutOfMemoryError where a block is needed that there is no room for."""
        if not self._free:
            self._grow()
        place = heapq.heappop(self._free)
        cache = StaticCache(self._blocks[place[0]], place[1])
        weakref.finalize(cache, heapq.heappush, self._free, place)
        return cache

    def _grow(self) -> None:
        """Zeroed: what lies past the valid length is masked out, but must be finite."""
        shape = self._shape
        size = (shape.num_layers, self._block_size, shape.num_slots, shape.num_kv_heads, shape.head_dim)
        with telling_out_of_memory("open another session", "wait, or lower max_sessions or max_length"):
            keys, values = (torch.zeros(size, dtype=self._dtype, device=self._device) for _ in range(2))
        for index in range(self._block_size):
            heapq.heappush(self._free, (len(self._blocks), index))
        self._blocks.append(CacheBlock((keys, values), keys.unbind(), values.unbind()))
