"""The static KV cache: room for a whole sequence at once, so that rollback is a length and shapes stay."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class StaticCache:
    """Keys and values (layers, kv_heads, capacity, head_dim). Its user knows how many slots are valid."""

    keys: Tensor
    values: Tensor

    @property
    def capacity(self) -> int:
        return self.keys.shape[2]


def allocate_cache(
    num_layers: int, num_kv_heads: int, capacity: int, head_dim: int, dtype: torch.dtype
) -> StaticCache:
    """Zeroed: what lies past the valid length is masked out, but must be finite."""
    shape = (num_layers, num_kv_heads, capacity, head_dim)
    return StaticCache(torch.zeros(shape, dtype=dtype), torch.zeros(shape, dtype=dtype))
