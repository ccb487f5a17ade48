"""The static KV cache: room for a whole sequence at once, so that rollback is a length and shapes stay."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class StaticCache:
    """Keys and values (layers, kv_heads, slots, head_dim). Its user knows how many slots are valid."""

    keys: Tensor
    values: Tensor


def allocate_cache(
    num_layers: int, num_kv_heads: int, num_slots: int, head_dim: int, dtype: torch.dtype
) -> StaticCache:
    """Zeroed: what lies past the valid length is masked out, but must be finite."""
    shape = (num_layers, num_kv_heads, num_slots, head_dim)
    return StaticCache(torch.zeros(shape, dtype=dtype), torch.zeros(shape, dtype=dtype))
