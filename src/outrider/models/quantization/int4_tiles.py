# SPDX-License-Identifier: Apache-2.0
"""A GPU's 4-bit product: weights in the tiles of its tensor cores, as torch's kernel reads them.

Rows are bfloat16, and so is a weight, (level - 8) * scale + zero; sums are float32, results bfloat16.
Sixteen rows are one tile, and the order of summation does not depend on their number: a row's product has
the same bits next to any other rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

MIN_CAPABILITY = (8, 0)
"""The least compute capability of an NVIDIA GPU with the kernel."""
TILE_OUTPUTS, TILE_INPUTS = 8, 16
GROUPS = (256, 128, 64, 32)
"""The numbers of inputs that may share a scale."""
_TILES_ABREAST = (8, 4, 2)
"""How many tiles along the inputs may be read at once; the largest possible number is used."""
NUMBERS_AT_ONCE = 2**24
"""Packing needs extra memory of a few bytes for each of this many numbers, not for a whole head."""


@dataclass(frozen=True)
class Tiles:
    """Levels of (outputs, inputs); the outputs are padded to whole tiles.

    packed: (outputs / 8, inputs / (16 * abreast), 32, abreast / 2) int32. scales_and_zeros: (groups,
    outputs, 2) bfloat16.
    """

    packed: Tensor
    group: int
    scales_and_zeros: Tensor

    @property
    def num_outputs(self) -> int:
        """The number of outputs, padding included."""
        return self.scales_and_zeros.shape[1]

    def times(self, rows: Tensor) -> Tensor:
        """Return rows (M, inputs) @ weight, (M, num_outputs), in bfloat16."""
        return torch._weight_int4pack_mm(
            rows.bfloat16().contiguous(), self.packed, self.group, self.scales_and_zeros
        )

    def columns(self, indices: Tensor) -> Tensor:
        """Return the weights (inputs, len(indices)) of some outputs in float32;
        only their tiles are multiplied.
        """
        indices = indices.to(self.packed.device)
        tiles, places = (indices // TILE_OUTPUTS).unique(return_inverse=True)
        within = torch.arange(TILE_OUTPUTS, device=tiles.device)
        outputs = (tiles[:, None] * TILE_OUTPUTS + within).flatten()
        part = Tiles(self.packed[tiles], self.group, self.scales_and_zeros[:, outputs].contiguous())
        one_hot = torch.eye(len(self.scales_and_zeros) * self.group, dtype=torch.float32, device=tiles.device)
        return part.times(one_hot)[:, places * TILE_OUTPUTS + indices % TILE_OUTPUTS].float()


class Tiling:
    """Tiles that are filled part by part."""

    def __init__(self, outputs: int, inputs: int, group: int) -> None:
        """`outputs` fill whole tiles; a `group` of inputs, one of GROUPS, shares a scale."""
        self._outputs, self._inputs, self._group = outputs, inputs, group
        self._abreast = next(size for size in _TILES_ABREAST if inputs % (TILE_INPUTS * size) == 0)
        self._tiles: Tiles | None = None

    def put(self, first: int, levels: Tensor, scales: Tensor, zeros: Tensor) -> None:
        """Put outputs from `first` on, at the start of a tile.

        levels (outputs, inputs) uint8 from 0 to 15, scales and zeros (outputs, groups). If they do not fill
        their last tile, it is padded.
        """
        if self._tiles is None:
            self._tiles = self._empty(levels.device)
        spare = (0, 0, 0, -len(levels) % TILE_OUTPUTS)
        filled = F.pad(levels, spare) if spare[-1] else levels
        pairs = filled[:, 0::2] << 4 | filled[:, 1::2]
        tiles = slice(first // TILE_OUTPUTS, (first + len(filled)) // TILE_OUTPUTS)
        self._tiles.packed[tiles] = torch._convert_weight_to_int4pack(pairs, self._abreast)
        both = torch.stack([F.pad(each, spare).t() for each in (scales, zeros)], dim=-1)
        self._tiles.scales_and_zeros[:, first : first + len(filled)] = both

    def done(self) -> Tiles:
        """Return the tiles, once all outputs have been put."""
        assert self._tiles is not None
        return self._tiles

    def _empty(self, device: torch.device) -> Tiles:
        across = self._inputs // (TILE_INPUTS * self._abreast)
        shape = self._outputs // TILE_OUTPUTS, across, 32, self._abreast // 2
        pairs = self._inputs // self._group, self._outputs, 2
        return Tiles(
            torch.empty(shape, dtype=torch.int32, device=device),
            self._group,
            torch.empty(pairs, dtype=torch.bfloat16, device=device),
        )


def whole_tiles(outputs: int) -> int:
    """Return the number of outputs, padded to whole tiles."""
    return outputs + -outputs % TILE_OUTPUTS


def parts_of(
    outputs: int, inputs: int, multiple: int = TILE_OUTPUTS, numbers_at_once: int = NUMBERS_AT_ONCE
) -> Iterator[slice]:
    """Return the outputs of a matrix in parts of whole tiles, to be rounded or packed one after the other.

    A part has at most `numbers_at_once` weights, but at least `multiple` outputs.
    """
    at_once = max(numbers_at_once // inputs // multiple, 1) * multiple
    return (slice(first, min(first + at_once, outputs)) for first in range(0, outputs, at_once))


def widest_group(inputs: int) -> int:
    """Return the largest group of GROUPS that divides `inputs`, for scales that all inputs share."""
    return next(size for size in GROUPS if inputs % size == 0)
