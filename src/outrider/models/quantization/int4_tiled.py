# SPDX-License-Identifier: Apache-2.0
"""Integers as an NVIDIA GPU multiplies them: 4 and 8 bits per weight, in tiles of its 4-bit product."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from outrider.models.quantization.int4_tiles import (
    NUMBERS_AT_ONCE,
    Tiles,
    Tiling,
    parts_of,
    whole_tiles,
    widest_group,
)
from outrider.models.quantization.integers import IntegerWeight
from outrider.models.quantization.matrices import only_here


@dataclass(frozen=True)
class TiledInt4Matrix:
    """Four bits per weight on a GPU. Scales are rounded as in `Int4Matrix`, and then the weights.

    Weights of a checkpoint change by at most a 16th of a scale.
    """

    tiles: Tiles
    outputs: int
    order: Tensor | None

    @classmethod
    def of(
        cls, weight: IntegerWeight, place: torch.device, numbers_at_once: int = NUMBERS_AT_ONCE
    ) -> TiledInt4Matrix:
        """Pack a weight in the memory of `place`, about `numbers_at_once` numbers at a time."""
        outputs, inputs = weight.values.shape
        tiling = Tiling(whole_tiles(outputs), inputs, weight.group)
        for outputs_of_part in parts_of(outputs, inputs, numbers_at_once=numbers_at_once):
            part = weight.part(outputs_of_part).to(place)
            zeros = torch.zeros_like(part.scales) if part.zeros is None else -part.zeros * part.scales
            tiling.put(outputs_of_part.start, (part.values + 8).view(torch.uint8), part.scales, zeros)
        return cls(tiling.done(), outputs, part.order)

    @property
    def shape(self) -> tuple[int, int]:
        """Returns (inputs, outputs) of the weight."""
        return len(self.tiles.scales_and_zeros) * self.tiles.group, self.outputs

    def times(self, rows: Tensor, addend: Tensor | None = None) -> Tensor:
        """Returns `rows` (M, in) times the weight, plus `addend` (M, out) if given."""
        ordered = rows if self.order is None else rows.index_select(1, self.order)
        product = self.tiles.times(ordered)[:, : self.outputs].to(rows.dtype)
        return product if addend is None else product + addend

    def columns(self, indices: Tensor) -> Tensor:
        """Returns the weight's columns (in, len(indices)) in float32."""
        found = self.tiles.columns(indices)
        return found if self.order is None else found[self.order.argsort()]

    def to(self, device: torch.device) -> TiledInt4Matrix:
        """Returns itself. Raises ConfigError for a device of another kind."""
        return _stays(self, self.tiles, device)


@dataclass(frozen=True)
class TiledInt8Matrix:
    """Eight bits per weight on a GPU, as two 4-bit digits in one 4-bit product.

    `scales`: (outputs,) float32. With number + 128 = 16 * high + low, the number is (16 * (high - 8) + 8) +
    (low - 8). Both parts are centred on 0, and bfloat16 represents them exactly.
    """

    tiles: Tiles
    scales: Tensor

    @classmethod
    def of(
        cls, weight: IntegerWeight, place: torch.device, numbers_at_once: int = NUMBERS_AT_ONCE
    ) -> TiledInt8Matrix:
        """Pack a weight in the memory of `place`, about `numbers_at_once` numbers at a time."""
        outputs, inputs = weight.values.shape
        half, group = whole_tiles(outputs), widest_group(inputs)
        tiling, scales = Tiling(2 * half, inputs, group), []
        for outputs_of_part in parts_of(outputs, inputs, numbers_at_once=numbers_at_once):
            part, first = weight.part(outputs_of_part).to(place), outputs_of_part.start
            # Bytes wrap around: read as unsigned, plus 128, gives the number + 128.
            levels = part.values.view(torch.uint8) + 128
            ones = torch.ones(len(levels), inputs // group, dtype=torch.float32, device=levels.device)
            tiling.put(first, levels >> 4, 16 * ones, 8 * ones)
            tiling.put(half + first, levels & 15, ones, 0 * ones)
            scales.append(part.scales[:, 0])
        return cls(tiling.done(), torch.cat(scales))

    @property
    def shape(self) -> tuple[int, int]:
        """Returns (inputs, outputs) of the weight."""
        return len(self.tiles.scales_and_zeros) * self.tiles.group, len(self.scales)

    def times(self, rows: Tensor, addend: Tensor | None = None) -> Tensor:
        """Returns `rows` (M, in) times the weight, plus `addend` (M, out) if given."""
        high, low = self.tiles.times(rows).float().chunk(2, dim=1)
        product = ((high + low)[:, : len(self.scales)] * self.scales).to(rows.dtype)
        return product if addend is None else product + addend

    def columns(self, indices: Tensor) -> Tensor:
        """Returns the weight's columns (in, len(indices)) in float32."""
        indices = indices.to(self.scales.device)
        digits = self.tiles.columns(torch.cat([indices, indices + self.tiles.num_outputs // 2]))
        high, low = digits.chunk(2, dim=1)
        return (high + low) * self.scales[indices]

    def to(self, device: torch.device) -> TiledInt8Matrix:
        """Returns itself. Raises ConfigError for a device of another kind."""
        return _stays(self, self.tiles, device)


TiledMatrix = TypeVar("TiledMatrix", TiledInt4Matrix, TiledInt8Matrix)


def _stays(matrix: TiledMatrix, tiles: Tiles, device: torch.device) -> TiledMatrix:
    if tiles.packed.device.type != device.type:
        raise only_here(device)
    return matrix
