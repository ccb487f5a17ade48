"""Weight matrices as the runtime multiplies by them: whole, or packed to 8 or 4 bits a weight.

Only weights are packed; rows are multiplied as bfloat16 and what is added to them stays in their own type.
The kernels are torch's own, the ones that torchao dispatches to, on a CPU and on a GPU. A row's product is
the same, bit for bit, at whatever row it stands. Integers are made here, or kept as an AWQ or GPTQ
checkpoint has them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from outrider.core.errors import ConfigError
from outrider.core.model_options import Precision
from outrider.models.tiles import Tiles, Tiling, parts_of, whole_tiles, widest_group

INT4_GROUP = 32
_INT4_COLUMNS = 16
"""The CPU's 4-bit kernel wants a multiple of this many output columns."""
_INT4_BLOCK = 64
"""Outputs packed apart from the others on any CPU: its own blocks are 16, 32 or 64 of them."""


class Matrix(Protocol):
    """A weight (in, out) that any number of sessions share."""

    @property
    def shape(self) -> tuple[int, int]:
        """(in, out)."""

    def times(self, rows: Tensor, addend: Tensor | None = None) -> Tensor:
        """rows (M, in) @ weight + addend, (M, out); addend is (M, out) or (out,)."""

    def columns(self, indices: Tensor) -> Tensor:
        """The weights (in, len(indices)) of some outputs, in float32."""

    def to(self, device: torch.device) -> Matrix:
        """Raises ConfigError where it is packed for another kind of device."""


Packer = Callable[["Tensor | IntegerWeight", Precision], Matrix]


@dataclass(frozen=True)
class DenseMatrix:
    """`weight` (in, out), in whatever order it lies in memory."""

    weight: Tensor

    @property
    def shape(self) -> tuple[int, int]:
        return self.weight.shape[0], self.weight.shape[1]

    def times(self, rows: Tensor, addend: Tensor | None = None) -> Tensor:
        if self.weight.dtype != rows.dtype:
            product = torch.mm(rows.to(self.weight.dtype), self.weight).to(rows.dtype)
            return product if addend is None else product + addend
        return torch.mm(rows, self.weight) if addend is None else torch.addmm(addend, rows, self.weight)

    def columns(self, indices: Tensor) -> Tensor:
        return self.weight[:, indices].float()

    def to(self, device: torch.device) -> DenseMatrix:
        return DenseMatrix(self.weight.to(device))


@dataclass(frozen=True)
class IntegerWeight:
    """A weight (out, in) as integers times scales: int8 has a scale for each output, int4 for each group.

    values: (out, in) int8 around 0. scales: (out, groups) float32. zeros: (out, groups) int8, the value that
    stands for 0, where that is not 0 everywhere. order: (in,) the input that each column belongs to, where
    that is not its own place. What `round_to_integers` makes has neither, and scales exact in bfloat16.
    """

    values: Tensor
    scales: Tensor
    bits: int
    zeros: Tensor | None = None
    order: Tensor | None = None

    def to(self, device: torch.device) -> IntegerWeight:
        moved = [None if one is None else one.to(device) for one in (self.zeros, self.order)]
        return IntegerWeight(self.values.to(device), self.scales.to(device), self.bits, *moved)

    def part(self, outputs: slice) -> IntegerWeight:
        """Of some of the outputs."""
        zeros = None if self.zeros is None else self.zeros[outputs]
        return IntegerWeight(self.values[outputs], self.scales[outputs], self.bits, zeros, self.order)

    @property
    def group(self) -> int:
        """How many columns share a scale."""
        return self.values.shape[1] // self.scales.shape[1]

    def dequantized(self) -> Tensor:
        """The weight (out, in) that the integers stand for, in float32."""
        outputs, inputs = self.values.shape
        grouped = self.values.view(outputs, self.scales.shape[1], -1)
        if self.zeros is not None:
            grouped = grouped - self.zeros[:, :, None].short()
        whole = (grouped * self.scales[:, :, None]).view(outputs, inputs)
        return whole if self.order is None else whole[:, self.order.argsort()]


def round_to_integers(weight: Tensor, bits: int) -> IntegerWeight:
    """The nearest integers to a weight (out, in) under scales that just hold the largest of a group.

    Weights of 4 bits share a scale in groups of INT4_GROUP along `in`, which must be a multiple of it.
    """
    outputs, inputs = weight.shape
    width, largest = inputs if bits == 8 else INT4_GROUP, 2 ** (bits - 1) - 1
    values = torch.empty(outputs, inputs, dtype=torch.int8, device=weight.device)
    scales = torch.empty(outputs, inputs // width, device=weight.device)
    for part in parts_of(outputs, inputs):
        grouped = weight[part].detach().float().view(-1, inputs // width, width)
        scales[part] = (grouped.abs().amax(-1) / largest).clamp_min(1e-12).bfloat16().float()
        rounded = (grouped / scales[part, :, None]).round_().clamp_(-largest - 1, largest)
        values[part] = rounded.view(-1, inputs)
    return IntegerWeight(values, scales, bits)


@dataclass(frozen=True)
class ExactMatrix:
    """Integers multiplied in float32: slow, and what exported graphs of the same integers compute."""

    weight: IntegerWeight

    @property
    def shape(self) -> tuple[int, int]:
        return self.weight.values.shape[1], self.weight.values.shape[0]

    def times(self, rows: Tensor, addend: Tensor | None = None) -> Tensor:
        product = torch.mm(rows, self.weight.dequantized().t())
        return product if addend is None else product + addend

    def columns(self, indices: Tensor) -> Tensor:
        return self.weight.dequantized()[indices].t()

    def to(self, device: torch.device) -> ExactMatrix:
        raise _only_here(device)


class Int8Matrix:
    """Eight bits a weight, a scale for each output."""

    def __init__(self, weight: IntegerWeight) -> None:
        self._values = weight.values.contiguous()
        self._scales = weight.scales[:, 0].bfloat16()

    @property
    def shape(self) -> tuple[int, int]:
        return self._values.shape[1], self._values.shape[0]

    def times(self, rows: Tensor, addend: Tensor | None = None) -> Tensor:
        product = torch._weight_int8pack_mm(rows.bfloat16(), self._values, self._scales).to(rows.dtype)
        return product if addend is None else product + addend

    def columns(self, indices: Tensor) -> Tensor:
        return (self._values[indices] * self._scales[indices, None].float()).t()

    def to(self, device: torch.device) -> Int8Matrix:
        raise _only_here(device)


class Int4Matrix:
    """Four bits a weight, a scale for each group of them; the kernel is the CPU's.

    It takes scales, and scales times zeros, as bfloat16: where they are a checkpoint's, of 16 bits of another
    kind, a weight is off by at most a 32nd of its scale.
    """

    def __init__(self, weight: IntegerWeight) -> None:
        self._num_outputs, self._num_inputs = weight.values.shape
        self._group, self._order = weight.group, weight.order
        spare = (0, 0, 0, -self._num_outputs % _INT4_COLUMNS)
        nibbles = F.pad(weight.values.int() + 8, spare, value=8)
        offsets = torch.zeros_like(weight.scales) if weight.zeros is None else -weight.zeros * weight.scales
        self._packed = torch._convert_weight_to_int4pack_for_cpu(nibbles, 1)
        both = [F.pad(each, spare).t().bfloat16() for each in (weight.scales, offsets)]
        self._scales_and_zeros = torch.stack(both, dim=-1).contiguous()

    @property
    def shape(self) -> tuple[int, int]:
        return self._num_inputs, self._num_outputs

    def times(self, rows: Tensor, addend: Tensor | None = None) -> Tensor:
        product = torch._weight_int4pack_mm_for_cpu(
            self._narrow(rows), self._packed, self._group, self._scales_and_zeros
        )
        product = product[:, : self._num_outputs].to(rows.dtype)
        return product if addend is None else product + addend

    def columns(self, indices: Tensor) -> Tensor:
        """Made block by block, as a head's whole product would take gigabytes."""
        one_hot = self._narrow(torch.eye(self._num_inputs))
        found, blocks = torch.empty(self._num_inputs, len(indices)), indices // _INT4_BLOCK
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
        raise _only_here(device)


@dataclass(frozen=True)
class TiledInt4Matrix:
    """Four bits a weight on a GPU: its scales are rounded as `Int4Matrix` has them, and then the weights.

    A checkpoint's are off by at most a 16th of a scale.
    """

    tiles: Tiles
    outputs: int
    order: Tensor | None

    @classmethod
    def of(cls, weight: IntegerWeight, place: torch.device) -> TiledInt4Matrix:
        """In the memory of `place`, to which the weight is brought part by part."""
        outputs, inputs = weight.values.shape
        tiling = Tiling(whole_tiles(outputs), inputs, weight.group)
        for outputs_of_part in parts_of(outputs, inputs):
            part = weight.part(outputs_of_part).to(place)
            zeros = torch.zeros_like(part.scales) if part.zeros is None else -part.zeros * part.scales
            tiling.put(outputs_of_part.start, (part.values + 8).view(torch.uint8), part.scales, zeros)
        return cls(tiling.done(), outputs, part.order)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.tiles.scales_and_zeros) * self.tiles.group, self.outputs

    def times(self, rows: Tensor, addend: Tensor | None = None) -> Tensor:
        ordered = rows if self.order is None else rows.index_select(1, self.order)
        product = self.tiles.times(ordered)[:, : self.outputs].to(rows.dtype)
        return product if addend is None else product + addend

    def columns(self, indices: Tensor) -> Tensor:
        found = self.tiles.columns(indices)
        return found if self.order is None else found[self.order.argsort()]

    def to(self, device: torch.device) -> TiledInt4Matrix:
        return _stays(self, self.tiles, device)


@dataclass(frozen=True)
class TiledInt8Matrix:
    """Eight bits a weight on a GPU, as two digits of four in one 4-bit product; `scales` (outputs,) float32.

    With number + 128 = 16 * high + low the number is (16 * (high - 8) + 8) + (low - 8): both parts lie around
    0, and bfloat16 holds them exactly.
    """

    tiles: Tiles
    scales: Tensor

    @classmethod
    def of(cls, weight: IntegerWeight, place: torch.device) -> TiledInt8Matrix:
        """In the memory of `place`, to which the weight is brought part by part."""
        outputs, inputs = weight.values.shape
        half, group = whole_tiles(outputs), widest_group(inputs)
        tiling, scales = Tiling(2 * half, inputs, group), []
        for outputs_of_part in parts_of(outputs, inputs):
            part, first = weight.part(outputs_of_part).to(place), outputs_of_part.start
            # A byte wraps round: what is taken for unsigned and has 128 added is the number + 128.
            levels = part.values.view(torch.uint8) + 128
            ones = torch.ones(len(levels), inputs // group, device=levels.device)
            tiling.put(first, levels >> 4, 16 * ones, 8 * ones)
            tiling.put(half + first, levels & 15, ones, 0 * ones)
            scales.append(part.scales[:, 0])
        return cls(tiling.done(), torch.cat(scales))

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.tiles.scales_and_zeros) * self.tiles.group, len(self.scales)

    def times(self, rows: Tensor, addend: Tensor | None = None) -> Tensor:
        high, low = self.tiles.times(rows).float().chunk(2, dim=1)
        product = ((high + low)[:, : len(self.scales)] * self.scales).to(rows.dtype)
        return product if addend is None else product + addend

    def columns(self, indices: Tensor) -> Tensor:
        indices = indices.to(self.scales.device)
        digits = self.tiles.columns(torch.cat([indices, indices + self.tiles.num_outputs // 2]))
        high, low = digits.chunk(2, dim=1)
        return (high + low) * self.scales[indices]

    def to(self, device: torch.device) -> TiledInt8Matrix:
        return _stays(self, self.tiles, device)


@dataclass(frozen=True)
class JoinedMatrix:
    """Matrices of the same rows side by side, which are not packed alike."""

    parts: tuple[Matrix, ...]

    @property
    def shape(self) -> tuple[int, int]:
        return self.parts[0].shape[0], sum(part.shape[1] for part in self.parts)

    def times(self, rows: Tensor, addend: Tensor | None = None) -> Tensor:
        product = torch.cat([part.times(rows) for part in self.parts], dim=-1)
        return product if addend is None else product + addend

    def columns(self, indices: Tensor) -> Tensor:
        every = [part.columns(torch.arange(part.shape[1], device=indices.device)) for part in self.parts]
        return torch.cat(every, dim=-1)[:, indices]

    def to(self, device: torch.device) -> JoinedMatrix:
        return JoinedMatrix(tuple(part.to(device) for part in self.parts))


@dataclass(frozen=True)
class ForeignMatrix:
    """Projections that torchao has quantized, as its own modules multiply; with biases."""

    projections: tuple[Any, ...]
    num_inputs: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.num_inputs, sum(one.out_features for one in self.projections)

    def times(self, rows: Tensor, addend: Tensor | None = None) -> Tensor:
        narrow = rows.to(_dtype_of(self.projections[0]))
        product = torch.cat([one(narrow) for one in self.projections], dim=-1).to(rows.dtype)
        return product if addend is None else product + addend

    def columns(self, indices: Tensor) -> Tensor:
        rows = torch.eye(self.num_inputs)
        return (self.times(rows) - self.times(torch.zeros_like(rows)))[:, indices]

    def to(self, device: torch.device) -> ForeignMatrix:
        return ForeignMatrix(tuple(one.to(device) for one in self.projections), self.num_inputs)


def _only_here(device: torch.device) -> ConfigError:
    return ConfigError(
        f"device={device}: int8 and int4 are multiplied on a CPU or an NVIDIA GPU, packed for one; "
        "use precision=bf16, which an AWQ or GPTQ checkpoint may have too, or a checkpoint that torchao has "
        "quantized"
    )


TiledMatrix = TypeVar("TiledMatrix", TiledInt4Matrix, TiledInt8Matrix)


def _stays(matrix: TiledMatrix, tiles: Tiles, device: torch.device) -> TiledMatrix:
    if tiles.packed.device.type != device.type:
        raise _only_here(device)
    return matrix


def _dtype_of(projection: Any) -> torch.dtype:
    """What rows a quantized projection takes: its bias's or its scales' type."""
    tensors = [*projection.parameters(), *projection.buffers()]
    return next((one.dtype for one in tensors if one.is_floating_point()), torch.float32)


def pack_exactly(weight: Tensor | IntegerWeight, precision: Precision) -> Matrix:
    """As `pack`, for float32 arithmetic."""
    weight = _as_packed(weight, precision)
    if isinstance(weight, IntegerWeight):
        return ExactMatrix(weight)
    return DenseMatrix(
        weight.detach().to(torch.bfloat16 if precision == "bf16" else torch.float32).float().t()
    )


PACKED: dict[str, dict[int, Callable[[IntegerWeight, torch.device], Matrix]]] = {
    "cpu": {
        8: lambda weight, place: Int8Matrix(weight.to(place)),
        4: lambda weight, place: Int4Matrix(weight.to(place)),
    },
    "cuda": {8: TiledInt8Matrix.of, 4: TiledInt4Matrix.of},
}
"""By kind of device and bits a weight: what multiplies there."""


def pack(weight: Tensor | IntegerWeight, precision: Precision, place: torch.device | None = None) -> Matrix:
    """A Linear's weight (out, in) made ready to multiply by. int4 needs `in` a multiple of INT4_GROUP.

    Integers of a checkpoint stay what they are at int4, and are made whole at any other precision. Integers
    are packed for `place`, in its memory where that is a GPU's, or for where the weight lies; what stays
    whole is not moved.
    """
    weight = _as_packed(weight, precision)
    if isinstance(weight, IntegerWeight):
        place = weight.values.device if place is None else place
        if place.type not in PACKED:
            place = torch.device("cpu")
        return PACKED[place.type][weight.bits](weight, place)
    dtype = torch.float32 if precision == "fp32" else torch.bfloat16
    return DenseMatrix(weight.detach().to(dtype).t().contiguous())


def _as_packed(weight: Tensor | IntegerWeight, precision: Precision) -> Tensor | IntegerWeight:
    """Integers where the precision is one of integers."""
    if isinstance(weight, IntegerWeight):
        if weight.bits == 4 and precision == "int4":
            return weight
        weight = weight.dequantized()
    return round_to_integers(weight, int(precision[3:])) if precision in ("int8", "int4") else weight


def pack_stored(weights: Sequence[Tensor | IntegerWeight], precision: Precision, packer: Packer) -> Matrix:
    """Weights of the same rows as a quantized checkpoint has them; what it has left whole stays so."""
    whole = [weight for weight in weights if isinstance(weight, Tensor)]
    if len(whole) == len(weights):
        return packer(_side_by_side(whole), "bf16" if precision in ("int8", "int4") else precision)
    integers = [weight for weight in weights if isinstance(weight, IntegerWeight)]
    if len(integers) == len(weights) and all(_alike(integers[0], other) for other in integers[1:]):
        return packer(_joined(integers), precision)
    return JoinedMatrix(tuple(pack_stored([weight], precision, packer) for weight in weights))


def _joined(weights: Sequence[IntegerWeight]) -> IntegerWeight:
    values = _side_by_side([one.values for one in weights])
    scales = _side_by_side([one.scales for one in weights])
    zeros = None
    if any(one.zeros is not None for one in weights):
        none = [torch.zeros_like(one.scales, dtype=torch.int8) for one in weights]
        given = [one.zeros for one in weights]
        zeros = _side_by_side([n if own is None else own for own, n in zip(given, none, strict=True)])
    return IntegerWeight(values, scales, weights[0].bits, zeros, weights[0].order)


def _alike(one: IntegerWeight, other: IntegerWeight) -> bool:
    """Whether they can be one weight: with groups of one size, their columns in one order."""
    if (one.bits, one.group) != (other.bits, other.group):
        return False
    if one.order is None or other.order is None:
        return one.order is other.order
    return torch.equal(one.order, other.order)


def _side_by_side(tensors: Sequence[Tensor]) -> Tensor:
    return tensors[0] if len(tensors) == 1 else torch.cat(list(tensors))
