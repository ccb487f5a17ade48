# SPDX-License-Identifier: Apache-2.0
"""Chooses the matrix for a weight: unpacked, or packed to integers for the device that multiplies it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from outrider.core.model_options import Precision
from outrider.models.quantization.int4_tiled import TiledInt4Matrix, TiledInt8Matrix
from outrider.models.quantization.integers import (
    IntegerWeight,
    are_alike,
    join_integers,
    round_to_integers,
    side_by_side,
)
from outrider.models.quantization.matrices import (
    DenseMatrix,
    ExactMatrix,
    Int4Matrix,
    Int8Matrix,
    JoinedMatrix,
    Matrix,
)

Packer = Callable[["Tensor | IntegerWeight", Precision], Matrix]


def pack_exactly(weight: Tensor | IntegerWeight, precision: Precision) -> Matrix:
    """Prepare a weight like `pack`, but for float32 arithmetic."""
    weight = _as_packed(weight, precision)
    if isinstance(weight, IntegerWeight):
        return ExactMatrix(weight)
    return DenseMatrix(
        weight.detach().to(torch.bfloat16 if precision == "bf16" else torch.float32).float().t()
    )


PACKED: dict[str, dict[int, Callable[[IntegerWeight, torch.device], Matrix]]] = {
    "cpu": {
        8: lambda weight, device: Int8Matrix(weight.to(device)),
        4: lambda weight, device: Int4Matrix(weight.to(device)),
    },
    "cuda": {8: TiledInt8Matrix.of, 4: TiledInt4Matrix.of},
}
"""The packed matrices, by kind of device and bits per weight."""


def pack(weight: Tensor | IntegerWeight, precision: Precision, device: torch.device | None = None) -> Matrix:
    """Prepare a Linear's weight (out, in) for products. int4 needs `in` to be a multiple of INT4_GROUP.

    A checkpoint's 4-bit integers are kept at int4. All others are dequantized, and rounded anew if the
    precision is one of integers. Integers are packed for `device`, on a GPU in its memory, or by default for
    the weight's device. Unpacked weights are not moved.
    """
    weight = _as_packed(weight, precision)
    if isinstance(weight, IntegerWeight):
        device = weight.values.device if device is None else device
        if device.type not in PACKED:
            device = torch.device("cpu")
        return PACKED[device.type][weight.bits](weight, device)
    if precision == "fp32":
        return DenseMatrix(weight.detach().float().t().contiguous())
    # A CPU without bfloat16 products takes ten to forty times as long if these are ordered by input.
    on_cpu = device is None or device.type == "cpu"
    whole = weight.detach().bfloat16().t()
    return DenseMatrix(whole if on_cpu else whole.contiguous())


def _as_packed(weight: Tensor | IntegerWeight, precision: Precision) -> Tensor | IntegerWeight:
    """Return an integer weight for an integer precision, else a floating-point one."""
    if isinstance(weight, IntegerWeight):
        if weight.bits == 4 and precision == "int4":
            return weight
        weight = weight.dequantized()
    return round_to_integers(weight, int(precision[3:])) if precision in ("int8", "int4") else weight


def pack_stored(weights: Sequence[Tensor | IntegerWeight], precision: Precision, packer: Packer) -> Matrix:
    """Pack weights of the same rows from a quantized checkpoint; unquantized ones stay unquantized."""
    whole = [weight for weight in weights if isinstance(weight, Tensor)]
    if len(whole) == len(weights):
        return packer(side_by_side(whole), "bf16" if precision in ("int8", "int4") else precision)
    integers = [weight for weight in weights if isinstance(weight, IntegerWeight)]
    if len(integers) == len(weights) and all(are_alike(integers[0], other) for other in integers[1:]):
        return packer(join_integers(integers), precision)
    return JoinedMatrix(tuple(pack_stored([weight], precision, packer) for weight in weights))
