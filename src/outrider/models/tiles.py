"""A GPU's 4-bit product: weights in the tiles of its tensor cores, as torch's kernel for them reads them.

Rows are bfloat16, and so is a weight, (level - 8) * scale + zero; sums are float32, results bfloat16. Sixteen
rows are one tile, and what is summed in which order does not depend on how many there are: a row's product is
the same, bit for bit, beside whatever rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

LEAST_CAPABILITY = (8, 0)
"""Of an NVIDIA GPU that has the kernel."""
TILE_OUTPUTS, TILE_INPUTS = 8, 16
GROUPS = (256, 128, 64, 32)
"""How many inputs may share a scale."""
_TILES_ABREAST = (8, 4, 2)
"""How many tiles along the inputs are read at once: the more the better."""
_OUTPUTS_AT_ONCE = 8192
"""What packing takes beside the weights is as much as these outputs have, not a whole head."""


@dataclass(frozen=True)
class Tiles:
    """Levels of (outputs, inputs), outputs filled up to whole tiles.

    packed: (outputs / 8, inputs / (16 * abreast), 32, abreast / 2) int32. scales_and_zeros: (groups,
    outputs, 2) bfloat16.
    """

    packed: Tensor
    group: int
    scales_and_zeros: Tensor

    @property
    def num_outputs(self) -> int:
        """With those that fill the last tile."""
        return self.scales_and_zeros.shape[1]

    def times(self, rows: Tensor) -> Tensor:
        """rows (M, inputs) @ weight, (M, num_outputs) in bfloat16."""
        return torch._weight_int4pack_mm(
            rows.bfloat16().contiguous(), self.packed, self.group, self.scales_and_zeros
        )

    def columns(self, indices: Tensor) -> Tensor:
        """The weights (inputs, len(indices)) of some outputs in float32; no other tiles are multiplied."""
        indices = indices.to(self.packed.device)
        tiles, places = (indices // TILE_OUTPUTS).unique(return_inverse=True)
        within = torch.arange(TILE_OUTPUTS, device=tiles.device)
        outputs = (tiles[:, None] * TILE_OUTPUTS + within).flatten()
        part = Tiles(self.packed[tiles], self.group, self.scales_and_zeros[:, outputs].contiguous())
        one_hot = torch.eye(len(self.scales_and_zeros) * self.group, device=tiles.device)
        return part.times(one_hot)[:, places * TILE_OUTPUTS + indices % TILE_OUTPUTS].float()


def tile(levels: Tensor, scales: Tensor, zeros: Tensor) -> Tiles:
    """Levels (outputs, inputs) from 0 to 15 with scales and zeros (outputs, groups), one of GROUPS wide."""
    outputs, inputs = levels.shape
    spare = (0, 0, 0, -outputs % TILE_OUTPUTS)
    abreast = next(one for one in _TILES_ABREAST if inputs % (TILE_INPUTS * one) == 0)
    filled = F.pad(levels.to(torch.uint8), spare)
    both = [F.pad(each, spare).t().bfloat16() for each in (scales, zeros)]
    return Tiles(
        torch.cat([_packed(part, abreast) for part in filled.split(_OUTPUTS_AT_ONCE)]),
        inputs // scales.shape[1],
        torch.stack(both, dim=-1).contiguous(),
    )


def _packed(levels: Tensor, abreast: int) -> Tensor:
    pairs = levels[:, 0::2] << 4 | levels[:, 1::2]
    return torch._convert_weight_to_int4pack(pairs.contiguous(), abreast)


def widest_group(inputs: int) -> int:
    """For scales that all inputs share; they must be a multiple of the least group."""
    return next(one for one in GROUPS if inputs % one == 0)
