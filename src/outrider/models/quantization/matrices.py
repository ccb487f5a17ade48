# SPDX-License-Identifier: Apache-2.0
"""Weight matrices for the runtime's products: unpacked, or packed to 8 or 4 bits per weight for a CPU.

Only weights are packed. Rows are multiplied as bfloat16, and addends keep their own type. The kernels are
torch's own, those that torchao dispatches to. A row's product has the same bits at any row index.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from outrider.core.errors import ConfigError
from outrider.models.quantization.int4_tiles import NUMBERS_AT_ONCE, parts_of
from outrider.models.quantization.integers import IntegerWeight

_INT4_COLUMNS = 16
"""The CPU's 4-bit kernel needs a multiple of this many output columns."""
_INT4_BLOCK = 64
"""Outputs that any CPU packs independently of others: its own blocks are 16, 32 or 64 of them."""


class Matrix(Protocol):
    """A weight (in, out), shared by any number of sessions."""

    @property
    def shape(self) -> tuple[int, int]:
        """Returns (inputs, outputs) of the weight."""

    def times(self, rows: Tensor, addend: Tensor | None = None) -> Tensor:
        """Returns rows (M, in) @ weight + addend, (M, out); addend is (M, out) or (out,)."""

    def columns(self, indices: Tensor) -> Tensor:
        """Returns the weights (in, len(indices)) of some outputs, in float32."""

    def to(self, device: torch.device) -> Matrix:
        """Returns the matrix on a device. Raises ConfigError if it is packed for another kind of device."""


@dataclass(frozen=True)
class DenseMatrix:
    """A plain `weight` (in, out), in any memory order."""

    weight: Tensor

    @property
    def shape(self) -> tuple[int, int]:
        """Returns (inputs, outputs) of the weight."""
        return self.weight.shape[0], self.weight.shape[1]

    def times(self, rows: Tensor, addend: Tensor | None = None) -> Tensor:
        """Returns `rows` (M, in) times the weight, plus `addend` (M, out) if given."""
        if self.weight.dtype != rows.dtype:
            product = torch.mm(rows.to(self.weight.dtype), self.weight).to(rows.dtype)
            return product if addend is None else product + addend
        return torch.mm(rows, self.weight) if addend is None else torch.addmm(addend, rows, self.weight)

    def columns(self, indices: Tensor) -> Tensor:
        """Returns the weight's columns (in, len(indices)) in float32."""
        return self.weight[:, indices].float()

    def to(self, device: torch.device) -> DenseMatrix:
        """Returns a copy on the device."""
        return DenseMatrix(self.weight.to(device))


@dataclass(frozen=True)
class ExactMatrix:
    """Integers multiplied in float32: slow, but it computes what exported graphs of the same integers do."""

    weight: IntegerWeight

    @property
    def shape(self) -> tuple[int, int]:
        """Returns (inputs, outputs) of the weight."""
        return self.weight.values.shape[1], self.weight.values.shape[0]

    def times(self, rows: Tensor, addend: Tensor | None = None) -> Tensor:
        """Returns `rows` (M, in) times the weight, plus `addend` (M, out) if given."""
        product = torch.mm(rows, self.weight.dequantized().t())
        return product if addend is None else product + addend

    def columns(self, indices: Tensor) -> Tensor:
        """Returns the weight's columns (in, len(indices)) in float32."""
        return self.weight.dequantized()[indices].t()

    def to(self, device: torch.device) -> ExactMatrix:
        """Raises ConfigError: the matrix cannot move to another device."""
        raise only_here(device)


class Int8Matrix:
    """Eight bits per weight, with a scale per output."""

    def __init__(self, weight: IntegerWeight) -> None:
        self._values = weight.values.contiguous()
        self._scales = weight.scales[:, 0].bfloat16()

    @property
    def shape(self) -> tuple[int, int]:
        """Returns (inputs, outputs) of the weight."""
        return self._values.shape[1], self._values.shape[0]

    def times(self, rows: Tensor, addend: Tensor | None = None) -> Tensor:
        """Returns `rows` (M, in) times the weight, plus `addend` (M, out) if given."""
        product = torch._weight_int8pack_mm(rows.bfloat16(), self._values, self._scales).to(rows.dtype)
        return product if addend is None else product + addend

    def columns(self, indices: Tensor) -> Tensor:
        """Returns the weight's columns (in, len(indices)) in float32."""
        return (self._values[indices] * self._scales[indices, None].float()).t()

    def to(self, device: torch.device) -> Int8Matrix:
        """Raises ConfigError: the matrix is packed for its device."""
        raise only_here(device)


class Int4Matrix:
    """Four bits per weight, with a scale per group; the kernel is the CPU's.

    It uses scales, and scales times zeros, as bfloat16. A checkpoint's 16-bit scales of another type are
    rounded, which changes a weight by at most a 32nd of its scale.
    """

    def __init__(self, weight: IntegerWeight, numbers_at_once: int = NUMBERS_AT_ONCE) -> None:
        """About `numbers_at_once` weights are packed at a time."""
        self._num_outputs, self._num_inputs = weight.values.shape
        self._group, self._order = weight.group, weight.order
        spare = (0, 0, 0, -self._num_outputs % _INT4_COLUMNS)
        offsets = torch.zeros_like(weight.scales) if weight.zeros is None else -weight.zeros * weight.scales
        parts = parts_of(self._num_outputs, self._num_inputs, _INT4_BLOCK, numbers_at_once)
        self._packed = torch.cat([_packed(weight.values[part]) for part in parts])
        both = [F.pad(each, spare).t().bfloat16() for each in (weight.scales, offsets)]
        self._scales_and_zeros = torch.stack(both, dim=-1).contiguous()

    @property
    def shape(self) -> tuple[int, int]:
        """Returns (inputs, outputs) of the weight."""
        return self._num_inputs, self._num_outputs

    def times(self, rows: Tensor, addend: Tensor | None = None) -> Tensor:
        """Returns `rows` (M, in) times the weight, plus `addend` (M, out) if given."""
        product = torch._weight_int4pack_mm_for_cpu(
            self._narrow(rows), self._packed, self._group, self._scales_and_zeros
        )
        product = product[:, : self._num_outputs].to(rows.dtype)
        return product if addend is None else product + addend

    def columns(self, indices: Tensor) -> Tensor:
        """Returns the weight's columns (in, len(indices)) in float32.

        They are computed block by block, because a whole head takes gigabytes.
        """
        one_hot = self._narrow(torch.eye(self._num_inputs, dtype=torch.float32))
        found = torch.empty(self._num_inputs, len(indices), dtype=torch.float32)
        blocks = indices // _INT4_BLOCK
        for block in blocks.unique().tolist():
            asked, start = blocks == block, block * _INT4_BLOCK
            part = slice(start, start + _INT4_BLOCK)
            scales_and_zeros = self._scales_and_zeros[:, part].contiguous()
            columns = torch._weight_int4pack_mm_for_cpu(
                one_hot, self._packed[part], self._group, scales_and_zeros
            )
            found[:, asked] = columns[:, indices[asked] - start].float()
        return found

    def _narrow(self, rows: Tensor) -> Tensor:
        return rows.bfloat16() if self._order is None else rows.bfloat16().index_select(1, self._order)

    def to(self, device: torch.device) -> Int4Matrix:
        """Raises ConfigError: the matrix is packed for its device."""
        raise only_here(device)


def _packed(values: Tensor) -> Tensor:
    """Packs some of a matrix's outputs (out, in) for the 4-bit kernel."""
    spare = (0, 0, 0, -len(values) % _INT4_COLUMNS)
    return torch._convert_weight_to_int4pack_for_cpu(F.pad(values.int() + 8, spare, value=8), 1)


@dataclass(frozen=True)
class JoinedMatrix:
    """Matrices of the same rows, concatenated, that are packed differently."""

    parts: tuple[Matrix, ...]

    @property
    def shape(self) -> tuple[int, int]:
        """Returns (inputs, outputs) of the parts together."""
        return self.parts[0].shape[0], sum(part.shape[1] for part in self.parts)

    def times(self, rows: Tensor, addend: Tensor | None = None) -> Tensor:
        """Returns `rows` (M, in) times the weight, plus `addend` (M, out) if given."""
        product = torch.cat([part.times(rows) for part in self.parts], dim=-1)
        return product if addend is None else product + addend

    def columns(self, indices: Tensor) -> Tensor:
        """Returns the weight's columns (in, len(indices)) in float32."""
        every = [part.columns(torch.arange(part.shape[1], device=indices.device)) for part in self.parts]
        return torch.cat(every, dim=-1)[:, indices]

    def to(self, device: torch.device) -> JoinedMatrix:
        """Returns a copy on the device."""
        return JoinedMatrix(tuple(part.to(device) for part in self.parts))


@dataclass(frozen=True)
class ForeignMatrix:
    """Projections quantized by torchao, multiplied by its own modules, biases included."""

    projections: tuple[Any, ...]
    num_inputs: int

    @property
    def shape(self) -> tuple[int, int]:
        """Returns (inputs, outputs) of the projections together."""
        return self.num_inputs, sum(projection.out_features for projection in self.projections)

    def times(self, rows: Tensor, addend: Tensor | None = None) -> Tensor:
        """Returns `rows` (M, in) times the weight, plus `addend` (M, out) if given."""
        narrow = rows.to(_dtype_of(self.projections[0]))
        product = torch.cat([projection(narrow) for projection in self.projections], dim=-1).to(rows.dtype)
        return product if addend is None else product + addend

    def columns(self, indices: Tensor) -> Tensor:
        """Returns the weight's columns (in, len(indices)), found by multiplying with unit vectors."""
        rows = torch.eye(self.num_inputs, dtype=torch.float32)
        return (self.times(rows) - self.times(torch.zeros_like(rows)))[:, indices]

    def to(self, device: torch.device) -> ForeignMatrix:
        """Returns the projections on the device."""
        return ForeignMatrix(tuple(known.to(device) for known in self.projections), self.num_inputs)


def only_here(device: torch.device) -> ConfigError:
    """Returns the error for a packed matrix that is to move to another kind of device."""
    return ConfigError(
        f"device={device}: int8 and int4 are multiplied on a CPU or an NVIDIA GPU, packed for one; "
        "use precision=bf16, which an AWQ or GPTQ checkpoint may have too, or a checkpoint that torchao has "
        "quantized"
    )


def _dtype_of(projection: Any) -> torch.dtype:
    """Returns the row type of a quantized projection: that of its bias or its scales."""
    tensors = [*projection.parameters(), *projection.buffers()]
    return next((tensor.dtype for tensor in tensors if tensor.is_floating_point()), torch.float32)
