# SPDX-License-Identifier: Apache-2.0
"""Language models of published widths with random weights, to measure without a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from outrider.core.model_options import Precision
from outrider.models.backbone.mrope import RotaryTable, axes_in_sections
from outrider.models.backbone.text_stack import LayerWeights, RmsNorm, TextShape, TextStack
from outrider.models.checkpoint.weights import whole_dtype
from outrider.models.quantization.matrices import Matrix
from outrider.models.quantization.matrix_choice import pack, pack_exactly

_HOST = torch.device("cpu")
EPS = 1e-6
THETA = 1e6
MROPE_SECTION = [16, 24, 24]


@dataclass(frozen=True)
class Widths:
    """The widths of a language model; heads are 128 wide."""

    hidden: int
    intermediate: int
    num_heads: int
    num_kv_heads: int
    num_layers: int = 28
    vocab_size: int = 151_936

    @property
    def shape(self) -> TextShape:
        """The shape of the text model."""
        return TextShape(self.num_layers, self.num_heads, self.num_kv_heads, 128)


QWEN2_VL_2B = Widths(1536, 8960, 12, 2)
QWEN2_VL_7B = Widths(3584, 18944, 28, 4, vocab_size=152_064)


def random_stack(
    widths: Widths, precision: Precision, exact: bool = False, seed: int = 0, device: torch.device = _HOST
) -> TextStack:
    """Return a stack of normal weights, scaled to keep activations in bounds.

    `exact` as in `build_text_stack`. They are made and packed on the `device`, one after the other: at most
    one of them is there unpacked.
    """
    seeded = torch.Generator(device).manual_seed(seed)
    packer = pack_exactly if exact else pack

    def weight(outputs: int, inputs: int) -> Tensor:
        return torch.randn(outputs, inputs, generator=seeded, device=device) * (0.5 / inputs**0.5)

    def matrix(outputs: int, inputs: int) -> Matrix:
        return packer(weight(outputs, inputs), precision)

    def layer() -> LayerWeights:
        hidden, shape = widths.hidden, widths.shape
        query_width = shape.num_heads * shape.head_dim
        qkv_width = query_width + 2 * shape.num_kv_heads * shape.head_dim
        return LayerWeights(
            RmsNorm.of(torch.ones(hidden), EPS),
            matrix(qkv_width, hidden),
            torch.zeros(qkv_width),
            matrix(hidden, query_width),
            RmsNorm.of(torch.ones(hidden), EPS),
            matrix(2 * widths.intermediate, hidden),
            matrix(hidden, widths.intermediate),
        )

    stack = TextStack(
        shape=widths.shape,
        rotary=RotaryTable(widths.shape.head_dim, THETA, axes_in_sections(MROPE_SECTION)),
        embeddings=weight(widths.vocab_size, widths.hidden).to(whole_dtype(precision)),
        layers=tuple(layer() for _ in range(widths.num_layers)),
        final_norm=RmsNorm.of(torch.ones(widths.hidden), EPS),
        head=matrix(widths.vocab_size, widths.hidden),
        cache_dtype=torch.float32 if exact else whole_dtype(precision),
    )
    return stack if device == _HOST else stack.to(device)
