# SPDX-License-Identifier: Apache-2.0
"""Qwen2-VL's vision tower as a plain function over its weights, a few layers at a time.

As in the language half, queries and keys turn in one operation. Qwen2.5-VL's tower runs as transformers has
it, in one piece.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers.models.qwen2_vl.modeling_qwen2_vl import (
    Qwen2VisionTransformerPretrainedModel,
    Qwen2VLVisionBlock,
)

from outrider.models.backbone.text_stack import rotate

PARTS = 3
"""So many parts has a frame's encoding at most; of the shipped target's, each is about as long as a batch."""
Rotation = tuple[Tensor, Tensor]


def encode_patches(
    tower: torch.nn.Module, patches: Tensor, rows: int, columns: int
) -> Generator[None, None, Tensor]:
    """The merged tokens (rows * columns / merge^2, hidden) of one still's patches (rows * columns, inputs).

    Patches come merge block by merge block. Between parts, others may have their turn.
    """
    if not isinstance(tower, Qwen2VisionTransformerPretrainedModel):
        grid = torch.tensor([[1, rows, columns]], device=patches.device)
        return tower(patches, grid_thw=grid).pooler_output
    hidden, blocks = tower.patch_embed(patches), list(tower.blocks)
    rotation = _rotation(tower, rows, columns)
    together = -(-len(blocks) // PARTS)
    for first in range(0, len(blocks), together):
        if first:
            yield
        for block in blocks[first : first + together]:
            hidden = _attend(hidden, block, rotation)
            hidden = hidden + block.mlp(block.norm2(hidden))
    return tower.merger(hidden)


def _attend(hidden: Tensor, block: Qwen2VLVisionBlock, rotation: Rotation) -> Tensor:
    """Every patch reads all of the frame, residual included."""
    attention, count = block.attn, hidden.shape[0]
    num_heads = attention.num_heads
    heads = attention.qkv(block.norm1(hidden)).view(count, 3 * num_heads, -1)
    turned = rotate(heads[:, : 2 * num_heads].float(), rotation).to(heads.dtype)
    turned = turned.transpose(0, 1).unsqueeze(0)
    values = heads[:, 2 * num_heads :].transpose(0, 1).unsqueeze(0)
    mixed = F.scaled_dot_product_attention(turned[:, :num_heads], turned[:, num_heads:], values)
    return hidden + attention.proj(mixed[0].transpose(0, 1).reshape(count, -1))


def _rotation(tower: Any, rows: int, columns: int) -> Rotation:
    """Cosines and signed sines (N, 1, head_dim) as `rotate` takes them, in float32."""
    places = _places(rows, columns, tower.spatial_merge_size).to(tower.rotary_pos_emb.inv_freq.device)
    # Of its first argument it takes the device and type alone.
    cos, sin = tower.rotary_pos_emb(places, places)
    signs = torch.ones_like(sin[:1])
    signs[:, : sin.shape[1] // 2] = -1.0
    return cos.unsqueeze(1), (sin * signs).unsqueeze(1)


@lru_cache(maxsize=8)
def _places(rows: int, columns: int, merge: int) -> Tensor:
    """Row and column (N, 2) of each patch."""
    grid = torch.stack(torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij"))
    blocks = grid.view(2, rows // merge, merge, columns // merge, merge)
    return blocks.transpose(2, 3).flatten(1).t()
