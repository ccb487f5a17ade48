"""A GPU's 4-bit product on the CPU: torch's two operations, with the checks and results of their kernels.

A word of a tile holds eight levels of one output: four from each of two tiles along the inputs. The
order of the bits in a word matters only to these two operations.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

_SHIFTS = torch.arange(0, 32, 4)


def convert(pairs: Tensor, abreast: int) -> Tensor:
    """Stands in for _convert_weight_to_int4pack.

    `pairs`: bytes (outputs, inputs / 2) of two levels each, the first in the high bits.
    """
    assert pairs.dtype == torch.uint8 and pairs.dim() == 2 and pairs.is_contiguous() and abreast in (2, 4, 8)
    outputs, inputs = pairs.shape[0], 2 * pairs.shape[1]
    assert outputs % 8 == 0 and inputs % (16 * abreast) == 0
    levels = torch.stack([pairs >> 4, pairs & 15], dim=-1).long()
    lanes = levels.view(outputs // 8, 8, inputs // (16 * abreast), abreast // 2, 2, 2, 4, 2)
    words = lanes.permute(0, 2, 1, 6, 3, 4, 5, 7).reshape(
        outputs // 8, inputs // (16 * abreast), 32, abreast // 2, 8
    )
    return (words << _SHIFTS).sum(-1).to(torch.int32)


def multiply(rows: Tensor, packed: Tensor, group: int, scales_and_zeros: Tensor) -> Tensor:
    """Stands in for _weight_int4pack_mm."""
    assert rows.dtype == scales_and_zeros.dtype == torch.bfloat16 and packed.dtype == torch.int32
    assert rows.is_contiguous() and packed.is_contiguous() and scales_and_zeros.is_contiguous()
    outputs, inputs, abreast = 8 * packed.shape[0], rows.shape[1], 2 * packed.shape[3]
    assert packed.shape[1:3] == (inputs // (16 * abreast), 32) and abreast in (2, 4, 8)
    assert group in (32, 64, 128, 256) and scales_and_zeros.shape == (inputs // group, outputs, 2)
    levels = packed.unsqueeze(-1) >> _SHIFTS & 15
    lanes = levels.view(outputs // 8, inputs // (16 * abreast), 8, 4, abreast // 2, 2, 2, 2)
    grouped = lanes.permute(0, 2, 1, 4, 5, 6, 3, 7).reshape(outputs, inputs // group, group)
    scales, zeros = scales_and_zeros.float().permute(2, 1, 0).unsqueeze(-1)
    weight = ((grouped - 8) * scales + zeros).bfloat16().float().view(outputs, inputs)
    return (rows.float() @ weight.t()).bfloat16()


def stand_in_for_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "_convert_weight_to_int4pack", convert)
    monkeypatch.setattr(torch, "_weight_int4pack_mm", multiply)
