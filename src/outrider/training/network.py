# SPDX-License-Identifier: Apache-2.0
"""The training view of a Qwen2-VL model: batched frames of one size, packed tasks, dense vision labels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as functional
from torch import nn
from transformers import Qwen2VLForConditionalGeneration
from transformers.models.qwen2_vl.modeling_qwen2_vl import rotate_half

from outrider.core.training_data import CELL_COLUMNS, CELL_ROWS
from outrider.training.batches import IMAGE_TOKENS, Batch, patchify

NUM_KINDS, NUM_COLOURS = 29, 12
DISTANCE_SCALE_DM = 20.0


class VisionHeads(nn.Module):
    """Reads kind, colour and distance off each merged vision token; used only in training."""

    def __init__(self, width: int):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.read = nn.Linear(width, NUM_KINDS + NUM_COLOURS + 1)
        nn.init.zeros_(self.read.weight)  # so that untrained heads do not disturb a trained tower

    def loss(self, features: torch.Tensor, cells: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the mean loss, and the accuracy of kind and colour over the tokens that show an object."""
        kinds, colours, distances = (
            self.read(self.norm(features)).float().split([NUM_KINDS, NUM_COLOURS, 1], dim=-1)
        )
        shown = cells[..., 1] > 0
        weight = torch.where(shown, 3.0, 1.0)
        kind_loss = functional.cross_entropy(kinds.flatten(0, 1), cells[..., 0].flatten(), reduction="none")
        loss = (kind_loss * weight.flatten()).mean()
        if not shown.any():
            return loss, torch.tensor(1.0)
        loss = loss + functional.cross_entropy(colours[shown], cells[..., 1][shown])
        wanted = torch.log(cells[..., 2][shown].float().clamp_min(3.0) / DISTANCE_SCALE_DM)
        loss = loss + functional.smooth_l1_loss(distances[shown].squeeze(-1), wanted)
        right = (kinds[shown].argmax(-1) == cells[..., 0][shown]) & (
            colours[shown].argmax(-1) == cells[..., 1][shown]
        )
        return loss, right.float().mean()


class PackedModel(nn.Module):
    """A Qwen2-VL model with its training heads; works on a whole Batch."""

    def __init__(self, model: Qwen2VLForConditionalGeneration, image_start: int):
        super().__init__()
        self.model = model
        self.heads = VisionHeads(model.config.text_config.hidden_size)
        self._image_start = image_start
        rows, columns = 2 * CELL_ROWS, 2 * CELL_COLUMNS
        self.register_buffer("_vision_positions", _merge_order_positions(rows, columns), persistent=False)

    def see(self, pixels: torch.Tensor) -> torch.Tensor:
        """Return merged tokens (B, 45, width) of uint8 frames.

        The tower's blocks run over a true batch dimension.
        """
        tower: Any = self.model.model.visual
        hidden = patchify(pixels)
        batch, patches, _ = hidden.shape
        hidden = functional.linear(hidden, tower.patch_embed.proj.weight.flatten(1))
        cos, sin = tower.rotary_pos_emb(hidden[0], self._vision_positions)
        for block in tower.blocks:
            hidden = hidden + _vision_attention(block.attn, block.norm1(hidden), cos, sin)
            hidden = hidden + block.mlp(block.norm2(hidden))
        return tower.merger(hidden.reshape(batch * patches, -1)).reshape(batch, IMAGE_TOKENS, -1)

    def read(self, features: torch.Tensor, batch: Batch) -> torch.Tensor:
        """Return logits (K, V) at the K task tokens that have a loss."""
        *_, last = self.layer_outputs(features, batch)
        return self.model.lm_head(self.model.model.language_model.norm(last))

    def layer_outputs(self, features: torch.Tensor, batch: Batch) -> Iterator[torch.Tensor]:
        """Yield each decoder layer's output (K, width), first to last, at the K tokens of `read`."""
        text: Any = self.model.model.language_model
        frames, prefix = len(features), len(batch.prefix_ids)
        before = text.embed_tokens(batch.prefix_ids[: self._image_start]).expand(frames, -1, -1)
        after = text.embed_tokens(batch.prefix_ids[self._image_start + IMAGE_TOKENS :]).expand(frames, -1, -1)
        prefixes = torch.cat([before, features.to(before.dtype), after], dim=1)
        hidden = torch.cat([prefixes.flatten(0, 1), text.embed_tokens(batch.task_ids)])
        positions = torch.cat(
            [batch.prefix_positions.repeat(1, frames), batch.task_positions.expand(3, -1)], dim=1
        ).unsqueeze(1)
        cos, sin = (part[0].unsqueeze(1) for part in text.rotary_emb(hidden, positions))
        for layer in text.layers:
            normed = layer.input_layernorm(hidden)
            hidden = hidden + _packed_attention(layer.self_attn, normed, cos, sin, batch, frames, prefix)
            hidden = hidden + layer.mlp(layer.post_attention_layernorm(hidden))
            yield hidden[frames * prefix :][batch.task_targets >= 0]


def _packed_attention(
    attention: Any,
    hidden: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    batch: Batch,
    frames: int,
    prefix: int,
) -> torch.Tensor:
    """Causal attention of all prefixes, and of each task over its frame's prefix and itself."""
    dim = attention.head_dim
    query, key, value = (
        project(hidden).view(len(hidden), -1, dim)
        for project in (attention.q_proj, attention.k_proj, attention.v_proj)
    )
    cos, sin = cos.to(query.dtype), sin.to(query.dtype)
    query, key = query * cos + rotate_half(query) * sin, key * cos + rotate_half(key) * sin
    cut = frames * prefix
    heads = [part[:cut].view(frames, prefix, -1, dim).transpose(1, 2) for part in (query, key, value)]
    tasks = [_padded(part[cut:], batch).transpose(1, 2) for part in (query, key, value)]
    causal = torch.ones(prefix, prefix, dtype=torch.bool, device=hidden.device).tril()
    own = _attend(heads[0], heads[1], heads[2], causal)
    keys = torch.cat([heads[1][batch.owner], tasks[1]], dim=2)
    values = torch.cat([heads[2][batch.owner], tasks[2]], dim=2)
    mask = torch.ones(batch.width, prefix + batch.width, dtype=torch.bool, device=hidden.device).tril(prefix)
    mixed = _attend(tasks[0], keys, values, mask)
    flat = mixed.transpose(1, 2).reshape(-1, mixed.shape[1] * dim)[batch.padded_index]
    return attention.o_proj(torch.cat([own.transpose(1, 2).reshape(cut, -1), flat]))


def _padded(part: torch.Tensor, batch: Batch) -> torch.Tensor:
    """Lay out (T, heads, dim) as (S, width, heads, dim), with zeros after the end of a task."""
    empty = part.new_zeros(len(batch.owner) * batch.width, *part.shape[1:])
    return empty.index_copy(0, batch.padded_index, part).view(len(batch.owner), batch.width, *part.shape[1:])


def _attend(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Grouped-query attention by plain products: on a CPU their backward pass beats the fused kernel's."""
    tasks, heads, width, dim = query.shape
    groups = key.shape[1]
    query = query.reshape(tasks, groups, -1, dim)
    scores = (query @ key.transpose(-1, -2)).view(tasks, heads, width, -1).float() * dim**-0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = scores.softmax(-1).to(value.dtype)
    return (weights.view(tasks, groups, -1, weights.shape[-1]) @ value).view(tasks, heads, width, dim)


def _merge_order_positions(rows: int, columns: int, merge: int = 2) -> torch.Tensor:
    """Return (row, column) of each patch in merge order, int64 (N, 2)."""
    grid = torch.stack(torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij"), dim=-1)
    grid = grid.reshape(rows // merge, merge, columns // merge, merge, 2).transpose(1, 2)
    return grid.reshape(-1, 2)


def _vision_attention(
    attention: Any, hidden: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> torch.Tensor:
    batch, patches, width = hidden.shape
    heads = attention.num_heads
    query, key, value = (
        attention.qkv(hidden).view(batch, patches, 3, heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
    )
    cos, sin = cos.to(query.dtype), sin.to(query.dtype)
    query, key = query * cos + rotate_half(query) * sin, key * cos + rotate_half(key) * sin
    mixed = _attend(query, key, value)
    return attention.proj(mixed.transpose(1, 2).reshape(batch, patches, width))
