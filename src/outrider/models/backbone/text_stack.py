# SPDX-License-Identifier: Apache-2.0
"""The language half of a vision-language model, as plain functions over its weights and a static cache.

Weights are fused (q, k and v; gate and up), and residuals are added within the matrix products: at the size
of the shipped pair the number of operations costs most. Stateless: the same weights serve every session.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from outrider.models.backbone.attention import Run, Segment, runs_of
from outrider.models.backbone.mrope import RotaryTable
from outrider.models.quantization.matrices import Matrix

AfterLayer = Callable[[int, Tensor, Tensor], None]
"""Called with a layer's number, from 1, its output (M, hidden), and that output at a length of about 1."""


@dataclass(frozen=True)
class RmsNorm:
    """x / sqrt(mean(x^2) + eps) * weight, computed as x / hypot(|x|, floor) * gain:
    half of `F.rms_norm`'s cost.
    """

    gain: Tensor
    floor: Tensor

    @classmethod
    def of(cls, weight: Tensor, eps: float) -> RmsNorm:
        """Return the norm with a checkpoint's `weight` (hidden,) and epsilon."""
        size = weight.shape[-1]
        return cls(weight * math.sqrt(size), weight.new_tensor(math.sqrt(size * eps)))

    def to(self, device: torch.device) -> RmsNorm:
        """Return a copy on the device."""
        return RmsNorm(self.gain.to(device), self.floor.to(device))

    def unit(self, hidden: Tensor) -> Tensor:
        """Return hidden (M, size) scaled to a length of about 1, before the gain."""
        return hidden / torch.hypot(torch.linalg.vector_norm(hidden, dim=-1, keepdim=True), self.floor)

    def __call__(self, hidden: Tensor) -> Tensor:
        return self.unit(hidden) * self.gain


@dataclass(frozen=True)
class LayerWeights:
    """One decoder layer; qkv is [q | k | v] and gate_up [gate | up] along the outputs.

    `head_norm`: the norm of each head of q and k, if the architecture has it; its gain is (heads,
    head_dim).
    """

    input_norm: RmsNorm
    qkv: Matrix
    qkv_bias: Tensor
    attention_out: Matrix
    mlp_norm: RmsNorm
    gate_up: Matrix
    down: Matrix
    head_norm: RmsNorm | None = None

    def to(self, device: torch.device) -> LayerWeights:
        """Return a copy on the device."""
        weights = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{name: part.to(device) for name, part in weights.items() if part is not None})


@dataclass(frozen=True)
class TextShape:
    """Sizes of the stack; `num_heads` query heads share `num_kv_heads` key-value heads in equal groups."""

    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int

    @property
    def attention_width(self) -> int:
        """The width of all query heads together."""
        return self.num_heads * self.head_dim


@dataclass(frozen=True)
class TextStack:
    """Weights of the language half; `head` is (hidden, V), with V the tokenizer's real vocabulary.

    Values between layers are float32; `cache_dtype` is the type of keys and values.
    """

    shape: TextShape
    rotary: RotaryTable
    embeddings: Tensor
    layers: tuple[LayerWeights, ...]
    final_norm: RmsNorm
    head: Matrix
    cache_dtype: torch.dtype = torch.float32

    def embed(self, token_ids: Sequence[int]) -> Tensor:
        """Return embedded tokens (M, hidden)."""
        return self.embeddings[torch.tensor(token_ids, device=self.embeddings.device)].float()

    def forward(
        self,
        hidden: Tensor,
        positions: Tensor,
        runs: Sequence[Run],
        after_layer: AfterLayer | None = None,
        deep: Sequence[Tensor] = (),
    ) -> Tensor:
        """Run M embedded tokens (M, hidden) of one or more sequences;
        return the last layer's output (M, hidden).

        Rows of no run are spare. A row's result has the same bits at any row index and next to any other
        rows, as long as its run's window and span are the same. `after_layer` is called after each layer
        but the last, before the next one runs, which uses the same unit rows. `deep`: what is added to the
        first rows (n, hidden) after each of the first layers.
        """
        rotation = self.rotary.at(positions)
        for index, layer in enumerate(self.layers):
            unit = layer.input_norm.unit(hidden)
            if index > 0 and after_layer is not None:
                after_layer(index, hidden, unit)
            hidden = _attend(hidden, unit, layer, rotation, runs, index, self.shape)
            hidden = transform(hidden, layer)
            if index < len(deep):
                hidden[: len(deep[index])] += deep[index]
        return hidden

    def runs(self, segments: Sequence[Segment], num_rows: int) -> list[Run]:
        """Return the runs for `forward` of `num_rows` rows; segments are in row order."""
        group = self.shape.num_heads // self.shape.num_kv_heads
        device = self.embeddings.device
        with contextlib.nullcontext() if device.type == "cpu" else device:
            return runs_of(segments, num_rows, group, self.cache_dtype)

    def to(self, device: torch.device) -> TextStack:
        """Return a copy on another device; packed integers must be there already."""
        return replace(
            self,
            rotary=self.rotary.to(device),
            embeddings=self.embeddings.to(device),
            layers=tuple(layer.to(device) for layer in self.layers),
            final_norm=self.final_norm.to(device),
            head=self.head.to(device),
        )

    def logits(self, hidden: Tensor) -> Tensor:
        """Return logits (M, V) of the last layer's output (M, hidden)."""
        return self.head.times(self.final_norm(hidden))


def rotate(heads: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """Rotate (M, H, head_dim) by its positions' angles."""
    cos, signed_sin = rotation
    half = heads.shape[-1] // 2
    swapped = torch.cat([heads[..., half:], heads[..., :half]], dim=-1)
    return torch.addcmul(heads * cos, swapped, signed_sin)


def _attend(
    hidden: Tensor,
    unit: Tensor,
    layer: LayerWeights,
    rotation: tuple[Tensor, Tensor],
    runs: Sequence[Run],
    index: int,
    shape: TextShape,
) -> Tensor:
    """Return `hidden` plus attention; `unit` are its rows at a length of about 1.

    Writes the tokens' keys and values to their caches first.
    """
    queries, keys, values = project(unit * layer.input_norm.gain, layer, rotation, shape)
    mixed = hidden.new_zeros(len(hidden), shape.attention_width)
    for run in runs:
        run.write(index, keys, values)
        mixed[run.rows] = run.attend(index, queries)
    return layer.attention_out.times(mixed, hidden)


def project(
    rows: Tensor, layer: LayerWeights, rotation: tuple[Tensor, Tensor], shape: TextShape
) -> tuple[Tensor, Tensor, Tensor]:
    """Project normed rows: queries (M, num_heads, head_dim), keys and values (M, num_kv_heads, head_dim)."""
    num_turned = shape.num_heads + shape.num_kv_heads
    heads = layer.qkv.times(rows, layer.qkv_bias).view(len(rows), -1, shape.head_dim)
    plain, values = heads[:, :num_turned], heads[:, num_turned:]
    turned = rotate(plain if layer.head_norm is None else layer.head_norm(plain), rotation)
    return turned[:, : shape.num_heads], turned[:, shape.num_heads :], values


def transform(hidden: Tensor, layer: LayerWeights) -> Tensor:
    """Return `hidden` plus the gated feed-forward part."""
    both = layer.gate_up.times(layer.mlp_norm(hidden))
    gate, up = both.chunk(2, dim=1)
    return layer.down.times(F.silu(gate) * up, hidden)
