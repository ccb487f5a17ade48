# SPDX-License-Identifier: Apache-2.0
"""How many bytes a draft's distribution takes on the wire, at the sizes of real models."""

from __future__ import annotations

import math

import torch

from outrider.decoding.acceptance.packing import pack_peer_rows
from outrider.decoding.acceptance.quantized import PEER_BITS, unbiased_grid

_OFFSETS = 8


def zipf_row_bytes(vocab_size: int, exponent: float, seed: int = 0) -> tuple[float, float]:
    """Perplexity and mean bytes of a distribution that falls like rank^-exponent, in random order."""
    ranked = torch.arange(1, vocab_size + 1, dtype=torch.float64) ** -exponent
    ranked /= ranked.sum()
    row = torch.zeros_like(ranked)
    row[torch.randperm(vocab_size, generator=torch.Generator().manual_seed(seed))] = ranked
    sizes = [
        len(pack_peer_rows([unbiased_grid(row, PEER_BITS, (index + 0.5) / _OFFSETS)]))
        for index in range(_OFFSETS)
    ]
    return math.exp(-float((ranked * ranked.log()).sum())), sum(sizes) / _OFFSETS
