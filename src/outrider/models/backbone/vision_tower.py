# SPDX-License-Identifier: Apache-2.0
"""Vision towers as plain functions over their weights, a few layers at a time.

As in the language half, queries and keys are rotated in one operation. Qwen2.5-VL's tower runs in
transformers' own code, in one part.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VisionTransformerPretrainedModel
from transformers.models.qwen2_vl.modeling_qwen2_vl import Qwen2VisionTransformerPretrainedModel
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLVisionModel
from transformers.vision_utils import get_vision_interpolation_indices_and_weights

from outrider.models.backbone.text_stack import rotate

PARTS = 3
"""The most parts of a frame's encoding; with the shipped target each takes about as long as a batch."""
Rotation = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Features:
    """A tower's output for a still: merged `tokens` (N, hidden), and `deep` features.

    `deep` has, for each of the first decoder layers, what is added to the tokens after it, (N, hidden)
    (DeepStack, arXiv 2406.04334).
    """

    tokens: Tensor
    deep: tuple[Tensor, ...] = ()

    def float(self) -> Features:
        """Return a copy in float32."""
        return Features(self.tokens.float(), tuple(feature.float() for feature in self.deep))


Encoding = Generator[None, None, Features]


def encode_patches(tower: torch.nn.Module, patches: Tensor, rows: int, columns: int) -> Encoding:
    """Return the rows * columns / merge^2 features of one still's patches (rows * columns, inputs).

    Patches are in the order of merge blocks. Other work may run between parts.
    """
    return ENCODERS[type(tower)](tower, patches, rows, columns)


def _encode_qwen2(tower: Any, patches: Tensor, rows: int, columns: int) -> Encoding:
    return _run_blocks(tower, tower.patch_embed(patches), rows, columns, {})


def _encode_qwen2_5(tower: Any, patches: Tensor, rows: int, columns: int) -> Encoding:
    yield from ()
    grid = torch.tensor([[1, rows, columns]], device=patches.device)
    return Features(tower(patches, grid_thw=grid).pooler_output)


def _encode_qwen3(tower: Any, patches: Tensor, rows: int, columns: int) -> Encoding:
    """Encode with learned positions, interpolated to the still's grid, and with deep features."""
    hidden = tower.patch_embed(patches)
    indices, weights = _interpolation(tower.num_grid_per_side, rows, columns, tower.spatial_merge_size)
    positions = tower.pos_embed(indices.to(hidden.device)) * weights.to(hidden.device).unsqueeze(-1)
    mergers = dict(zip(tower.deepstack_visual_indexes, tower.deepstack_merger_list, strict=True))
    return _run_blocks(tower, hidden + positions.sum(1).to(hidden.dtype), rows, columns, mergers)


ENCODERS: dict[type, Callable[[Any, Tensor, int, int], Encoding]] = {
    Qwen2VisionTransformerPretrainedModel: _encode_qwen2,
    Qwen2_5_VisionTransformerPretrainedModel: _encode_qwen2_5,
    Qwen3VLVisionModel: _encode_qwen3,
}


def _run_blocks(
    tower: Any, hidden: Tensor, rows: int, columns: int, mergers: Mapping[int, torch.nn.Module]
) -> Encoding:
    """Run the layers in parts. `mergers`: by layer number, from 0, what merges its output for the decoder."""
    rotation, deep = _rotation(tower, rows, columns), []
    together = -(-len(tower.blocks) // PARTS)
    for number, block in enumerate(tower.blocks):
        if number and number % together == 0:
            yield
        hidden = _attend(hidden, block, rotation)
        hidden = hidden + block.mlp(block.norm2(hidden))
        if number in mergers:
            deep.append(mergers[number](hidden))
    return Features(tower.merger(hidden), tuple(deep))


def _attend(hidden: Tensor, block: Any, rotation: Rotation) -> Tensor:
    """Return `hidden` plus attention, in which every patch attends to the whole frame."""
    attention, count = block.attn, hidden.shape[0]
    num_heads = attention.num_heads
    heads = attention.qkv(block.norm1(hidden)).view(count, 3 * num_heads, -1)
    turned = rotate(heads[:, : 2 * num_heads].float(), rotation).to(heads.dtype)
    turned = turned.transpose(0, 1).unsqueeze(0)
    values = heads[:, 2 * num_heads :].transpose(0, 1).unsqueeze(0)
    mixed = F.scaled_dot_product_attention(turned[:, :num_heads], turned[:, num_heads:], values)
    return hidden + attention.proj(mixed[0].transpose(0, 1).reshape(count, -1))


def _rotation(tower: Any, rows: int, columns: int) -> Rotation:
    """Return cosines and signed sines (N, 1, head_dim) for `rotate`, in float32."""
    device = tower.rotary_pos_emb.inv_freq.device
    positions = _patch_positions(rows, columns, tower.spatial_merge_size).to(device)
    # Of its first argument only device and type are used.
    cos, sin = tower.rotary_pos_emb(positions, positions)
    signs = torch.ones_like(sin[:1])
    signs[:, : sin.shape[1] // 2] = -1.0
    return cos.unsqueeze(1), (sin * signs).unsqueeze(1)


@lru_cache(maxsize=8)
def _interpolation(side: int, rows: int, columns: int, merge: int) -> tuple[Tensor, Tensor]:
    """Return which of `side`^2 learned positions (N, 4) make up each patch's, and their weights (N, 4)."""
    grid = torch.tensor([[1, rows, columns]])
    interpolation: tuple[Tensor, Tensor] = get_vision_interpolation_indices_and_weights(
        grid, side, align_corners=True, spatial_merge_size=merge
    )
    return interpolation


@lru_cache(maxsize=8)
def _patch_positions(rows: int, columns: int, merge: int) -> Tensor:
    """Return row and column (N, 2) of each patch."""
    grid = torch.stack(torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij"))
    blocks = grid.view(2, rows // merge, merge, columns // merge, merge)
    return blocks.transpose(2, 3).flatten(1).t()
