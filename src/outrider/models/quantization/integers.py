# SPDX-License-Identifier: Apache-2.0
"""Weights as integers times scales: made here, or taken from an AWQ or GPTQ checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from outrider.models.quantization.int4_tiles import NUMBERS_AT_ONCE, parts_of

INT4_GROUP = 32


@dataclass(frozen=True)
class IntegerWeight:
    """A weight (out, in) as integers times scales: int8 has a scale per output, int4 one per group.

    values: (out, in) int8, centred on 0. scales: (out, groups) float32. zeros: (out, groups) int8, the
    value that stands for 0; None if it is 0 everywhere. order: (in,) the input of each column; None if they
    are in order. `round_to_integers` sets neither of these, and its scales are exact in bfloat16.
    """

    values: Tensor
    scales: Tensor
    bits: int
    zeros: Tensor | None = None
    order: Tensor | None = None

    def to(self, device: torch.device) -> IntegerWeight:
        """Return a copy on the device."""
        moved = [None if part is None else part.to(device) for part in (self.zeros, self.order)]
        return IntegerWeight(self.values.to(device), self.scales.to(device), self.bits, *moved)

    def part(self, outputs: slice) -> IntegerWeight:
        """Return the weight of some of the outputs."""
        zeros = None if self.zeros is None else self.zeros[outputs]
        return IntegerWeight(self.values[outputs], self.scales[outputs], self.bits, zeros, self.order)

    @property
    def group(self) -> int:
        """How many columns share a scale."""
        return self.values.shape[1] // self.scales.shape[1]

    def dequantized(self) -> Tensor:
        """Return the weight (out, in) that the integers represent, in float32."""
        outputs, inputs = self.values.shape
        grouped = self.values.view(outputs, self.scales.shape[1], -1)
        if self.zeros is not None:
            grouped = grouped - self.zeros[:, :, None].short()
        whole = (grouped * self.scales[:, :, None]).view(outputs, inputs)
        return whole if self.order is None else whole[:, self.order.argsort()]


def round_to_integers(weight: Tensor, bits: int, numbers_at_once: int = NUMBERS_AT_ONCE) -> IntegerWeight:
    """Round a weight (out, in) to the nearest integers, with scales that fit each group's largest.

    Weights of 4 bits share a scale in groups of INT4_GROUP along `in`, which must be a multiple of it.
    About `numbers_at_once` weights are rounded at a time.
    """
    outputs, inputs = weight.shape
    width, largest = inputs if bits == 8 else INT4_GROUP, 2 ** (bits - 1) - 1
    values = torch.empty(outputs, inputs, dtype=torch.int8, device=weight.device)
    scales = torch.empty(outputs, inputs // width, dtype=torch.float32, device=weight.device)
    for part in parts_of(outputs, inputs, numbers_at_once=numbers_at_once):
        grouped = weight[part].detach().float().view(-1, inputs // width, width)
        scales[part] = (grouped.abs().amax(-1) / largest).clamp_min(1e-12).bfloat16().float()
        rounded = (grouped / scales[part, :, None]).round_().clamp_(-largest - 1, largest)
        values[part] = rounded.view(-1, inputs)
    return IntegerWeight(values, scales, bits)


def join_integers(weights: Sequence[IntegerWeight]) -> IntegerWeight:
    """Join weights that `are_alike` into one, with the outputs of all in order."""
    values = side_by_side([weight.values for weight in weights])
    scales = side_by_side([weight.scales for weight in weights])
    zeros = None
    if any(weight.zeros is not None for weight in weights):
        none = [torch.zeros_like(weight.scales, dtype=torch.int8) for weight in weights]
        own_zeros = [weight.zeros for weight in weights]
        zeros = side_by_side([n if own is None else own for own, n in zip(own_zeros, none, strict=True)])
    return IntegerWeight(values, scales, weights[0].bits, zeros, weights[0].order)


def are_alike(first: IntegerWeight, other: IntegerWeight) -> bool:
    """Return whether two weights can be joined: same bits, group size and column order."""
    if (first.bits, first.group) != (other.bits, other.group):
        return False
    if first.order is None or other.order is None:
        return first.order is other.order
    return torch.equal(first.order, other.order)


def side_by_side(tensors: Sequence[Tensor]) -> Tensor:
    """Concatenate the outputs; a single tensor is not copied."""
    return tensors[0] if len(tensors) == 1 else torch.cat(list(tensors))
