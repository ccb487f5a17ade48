"""The language half of Qwen2-VL as plain functions over its weights and a static KV cache.

Weights are fused (q, k and v; gate and up) and residuals ride along in the matrix products: at the size of
the shipped pair the number of operations costs most. Stateless: the same weights serve every session.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from outrider.models.cache import StaticCache
from outrider.models.matrices import Matrix
from outrider.models.positions import RotaryTable


@dataclass(frozen=True)
class RmsNorm:
    """x / sqrt(mean(x^2) + eps) * weight as x / hypot(|x|, floor) * gain: half of `F.rms_norm`'s cost."""

    gain: Tensor
    floor: Tensor

    @classmethod
    def of(cls, weight: Tensor, eps: float) -> RmsNorm:
        size = weight.shape[0]
        return cls(weight * math.sqrt(size), weight.new_tensor(math.sqrt(size * eps)))

    def __call__(self, hidden: Tensor) -> Tensor:
        length = torch.linalg.vector_norm(hidden, dim=-1, keepdim=True)
        return hidden / torch.hypot(length, self.floor) * self.gain


@dataclass(frozen=True)
class LayerWeights:
    """One decoder layer; qkv is [q | k | v] and gate_up [gate | up] along the outputs."""

    input_norm: RmsNorm
    qkv: Matrix
    qkv_bias: Tensor
    attention_out: Matrix
    mlp_norm: RmsNorm
    gate_up: Matrix
    down: Matrix


@dataclass(frozen=True)
class TextShape:
    """Sizes of the stack; `num_heads` query heads share `num_kv_heads` key-value heads in equal groups."""

    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int


@dataclass(frozen=True)
class TextStack:
    """Weights of the language half; `head` is (hidden, V) with V the tokenizer's real vocabulary.

    What runs from layer to layer is float32; `cache_dtype` is the type of keys and values.
    """

    shape: TextShape
    rotary: RotaryTable
    embeddings: Tensor
    layers: tuple[LayerWeights, ...]
    final_norm: RmsNorm
    head: Matrix
    cache_dtype: torch.dtype = torch.float32

    def embed(self, token_ids: Sequence[int]) -> Tensor:
        """Embedded tokens (M, hidden)."""
        return self.embeddings[torch.tensor(token_ids, dtype=torch.long)].float()

    def forward(
        self,
        hidden: Tensor,
        positions: Tensor,
        cache: StaticCache,
        start: int,
        span: int,
        after_layer: Callable[[int, Tensor], None] | None = None,
    ) -> Tensor:
        """Run M embedded tokens (M, hidden) at cache slots start..; the last layer's output (M, hidden).

        Token i attends to slots 0..start+i below `span`. A row's result is the same, bit for bit, at whatever
        row it stands, as long as M and span are the same. `after_layer` is shown each layer's number, from 1,
        and its output before the next one runs.
        """
        rotation = self.rotary.at(positions)
        mask = _causal_mask(hidden.shape[0], start, span, self.shape).to(cache.keys.dtype)
        for index, layer in enumerate(self.layers):
            slots = cache.keys[index], cache.values[index]
            hidden = _attend(hidden, layer, rotation, mask, slots, start, self.shape)
            hidden = _transform(hidden, layer)
            if after_layer is not None:
                after_layer(index + 1, hidden)
        return hidden

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits (M, V) of the last layer's output (M, hidden)."""
        return self.head.times(self.final_norm(hidden))


def _causal_mask(count: int, start: int, span: int, shape: TextShape) -> Tensor:
    """Additive mask (group * M, span): rows are the M tokens once for each query head of a group."""
    slots = torch.arange(span)
    last_visible = torch.arange(start, start + count).unsqueeze(1)
    mask = torch.zeros(count, span).masked_fill_(slots > last_visible, -torch.inf)
    return mask.repeat(shape.num_heads // shape.num_kv_heads, 1)


def _rotate(heads: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """Turn (M, H, head_dim) by its positions' angles."""
    cos, signed_sin = rotation
    half = heads.shape[-1] // 2
    swapped = torch.cat([heads[..., half:], heads[..., :half]], dim=-1)
    return torch.addcmul(heads * cos, swapped, signed_sin)


def _attend(
    hidden: Tensor,
    layer: LayerWeights,
    rotation: tuple[Tensor, Tensor],
    mask: Tensor,
    slots: tuple[Tensor, Tensor],
    start: int,
    shape: TextShape,
) -> Tensor:
    """Attention with its residual; writes the tokens' keys and values into `slots` first."""
    count, span = hidden.shape[0], mask.shape[1]
    num_kv, head_dim = shape.num_kv_heads, shape.head_dim
    normed = layer.input_norm(hidden)
    heads = layer.qkv.times(normed, layer.qkv_bias).view(count, -1, head_dim)
    turned = _rotate(heads[:, : shape.num_heads + num_kv], rotation)
    keys, values = slots
    keys[:, start : start + count] = turned[:, shape.num_heads :].transpose(0, 1)
    values[:, start : start + count] = heads[:, shape.num_heads + num_kv :].transpose(0, 1)
    grouped = turned[:, : shape.num_heads].view(count, num_kv, -1, head_dim).permute(1, 2, 0, 3)
    queries = grouped.reshape(1, num_kv, -1, head_dim).to(keys.dtype)
    mixed = F.scaled_dot_product_attention(
        queries, keys[None, :, :span], values[None, :, :span], attn_mask=mask[None, None]
    )
    flat = mixed.view(num_kv, -1, count, head_dim).permute(2, 0, 1, 3).reshape(count, -1).to(hidden.dtype)
    return layer.attention_out.times(flat, hidden)


def _transform(hidden: Tensor, layer: LayerWeights) -> Tensor:
    """The gated feed-forward part with its residual."""
    both = layer.gate_up.times(layer.mlp_norm(hidden))
    gate, up = both.chunk(2, dim=1)
    return layer.down.times(F.silu(gate) * up, hidden)
