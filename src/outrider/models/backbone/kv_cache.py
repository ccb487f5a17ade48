# SPDX-License-Identifier: Apache-2.0
"""The static key/value cache has room for whole sequences, so a rollback only sets a length; shapes stay."""

from __future__ import annotations

import heapq
import weakref
from dataclasses import dataclass

import torch
from torch import Tensor

from outrider.models.backbone.out_of_memory import reporting_out_of_memory


@dataclass(frozen=True)
class CacheShape:
    """The shape of one sequence's keys, and of its values."""

    num_layers: int
    num_slots: int
    num_kv_heads: int
    head_dim: int

    def num_bytes(self, dtype: torch.dtype) -> int:
        """Return the bytes of keys and values together in this type."""
        return 2 * self.num_layers * self.num_slots * self.num_kv_heads * self.head_dim * dtype.itemsize


@dataclass(frozen=True, eq=False)
class CacheBlock:
    """Keys and values of each layer, (sequences, slots, kv_heads, head_dim), for adjacent sequences.

    `whole`: the same numbers, (layers, sequences, slots, kv_heads, head_dim), keys and values.
    """

    whole: tuple[Tensor, Tensor]
    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]


@dataclass(frozen=True, eq=False)
class StaticCache:
    """One sequence's part of a block. Its owner keeps track of how many slots are valid."""

    block: CacheBlock
    index: int

    def copy_from(self, other: StaticCache, start: int, end: int) -> None:
        """Copy another sequence's slots from `start` to before `end`."""
        for own, its in zip(self.block.whole, other.block.whole, strict=True):
            own[:, self.index, start:end] = its[:, other.index, start:end]

    @property
    def location(self) -> tuple[int, int]:
        """The sort key by which neighbours follow each other."""
        return id(self.block), self.index


class CachePool:
    """Assigns caches to sequences, and takes them back when nothing refers to them any more.

    Attention over neighbours is one operation, so the lowest free cache is assigned first. If none is free,
    another block of `block_size` is allocated.
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
        """Return a cache. Raises OutOfMemoryError if it needs a new block that does not fit."""
        if not self._free:
            self._grow()
        location = heapq.heappop(self._free)
        cache = StaticCache(self._blocks[location[0]], location[1])
        weakref.finalize(cache, heapq.heappush, self._free, location)
        return cache

    def _grow(self) -> None:
        """Allocate a block of zeros: slots beyond the valid length are masked, but must be finite."""
        shape = self._shape
        size = (shape.num_layers, self._block_size, shape.num_slots, shape.num_kv_heads, shape.head_dim)
        with reporting_out_of_memory("open another session", "wait, or lower max_sessions or max_length"):
            keys, values = (torch.zeros(size, dtype=self._dtype, device=self._device) for _ in range(2))
        for index in range(self._block_size):
            heapq.heappush(self._free, (len(self._blocks), index))
        self._blocks.append(CacheBlock((keys, values), keys.unbind(), values.unbind()))
