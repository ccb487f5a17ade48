# SPDX-License-Identifier: Apache-2.0
"""Checkpoints quantized by AWQ or GPTQ: reads their integers as our own weights, number for number.

Both store a weight of n inputs and m outputs as `qweight`, b-bit levels in words of 32 bits, `scales`
(groups, m) and `qzeros`, the packed levels that stand for 0 in each group: weight = (level - zero) * scale.

GPTQ (Frantar et al., arXiv 2210.17323; as AutoGPTQ and GPTQModel write it): qweight (n * b / 32, m) is
packed along the inputs, qzeros (groups, m * b / 32) along the outputs, lowest bits first. Format 1 stores
each zero minus 1. `g_idx` (n,) gives each input's group if groups follow the order of activations.

AWQ (Lin et al., arXiv 2306.00978; as AutoAWQ's GEMM version writes it): qweight (n, m / 8) and qzeros
(groups, m / 8) are both packed along the outputs; a word's nibbles, lowest first, are its columns
0 2 4 6 1 3 5 7.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from outrider.core.errors import ModelError
from outrider.models.checkpoint.absent import CONFIG_FILE
from outrider.models.checkpoint.headers import Shape, check_finite, check_shape
from outrider.models.checkpoint.settings import read_settings
from outrider.models.quantization.int4_tiles import GROUPS
from outrider.models.quantization.integers import INT4_GROUP, IntegerWeight

_AWQ_COLUMNS = (0, 2, 4, 6, 1, 3, 5, 7)
_WORD_BITS = 32
_LAYER = re.compile(r"(?:^|\.)layers\.(\d+\..+)$")
_REMEDY = (
    "choose the checkpoint of 4-bit AWQ (GEMM), of GPTQ with 4 or 8 bits for all layers, of torchao, or the "
    "one that is not quantized"
)


@dataclass(frozen=True)
class StoredFormat:
    """The layout of a checkpoint's integers.

    `zero_offset`: what is added to a stored zero. `ordered`: groups follow the order of activations.
    """

    method: str
    bits: int
    group_size: int
    symmetric: bool
    zero_offset: int
    ordered: bool = False


@dataclass(frozen=True)
class StoredPart:
    """A norm, or a projection (out, in) with its bias, as stored in a checkpoint."""

    weight: Tensor | IntegerWeight
    bias: Tensor | None = None


def read_format(config_file: Path) -> StoredFormat | None:
    """Return the layout, or None if neither AWQ nor GPTQ was used.

    Raises ModelError for an unsupported one.
    """
    content = read_settings(config_file)
    older = content.get("compression_config")
    settings = content.get("quantization_config", older and {"quant_method": "compressed-tensors"})
    if settings is None and isinstance(content.get("quantization"), dict):
        raise ModelError(f"{config_file}: MLX has quantized this checkpoint for Apple's chips: {_REMEDY}")
    if settings is None:
        return None
    if not isinstance(settings, dict):
        raise ModelError(
            f"{config_file}: quantization_config is {settings!r}, and must be an object with a quant_method: "
            "restore the file"
        )
    method = settings.get("quant_method")
    if method == "torchao":
        return None
    if method not in ("awq", "gptq"):
        raise ModelError(
            f"{config_file}: weights quantized by {method or 'an unknown method'} are not read: {_REMEDY}"
        )
    form, bits = _form(settings, method), settings["bits"] if "bits" in settings else settings.get("w_bit", 0)
    group_size = settings["group_size"] if "group_size" in settings else settings.get("q_group_size", 128)
    known = {"awq": ("gemm",), "gptq": ("gptq", "gptq_v2")}[method]
    checks = (
        ("bits", bits, isinstance(bits, int) and bits in ((4,) if method == "awq" else (4, 8))),
        ("layout", form, form in known),
        ("zero_point", settings.get("zero_point"), bool(settings.get("zero_point", True))),
        ("group_size", group_size, _is_group(group_size)),
        ("lm_head", settings.get("lm_head"), not settings.get("lm_head")),
        ("dynamic", settings.get("dynamic"), _changes_nothing(settings.get("dynamic"))),
    )
    for name, value, is_read in checks:
        if not is_read:
            raise ModelError(f"{config_file}: {method} with {name} {value!r} cannot be read: {_REMEDY}")
    symmetric, ordered = (bool(settings.get(name, False)) for name in ("sym", "desc_act"))
    return StoredFormat(method, bits, group_size, symmetric, int(form == "gptq"), ordered)


def _form(settings: dict[str, Any], method: str) -> str:
    """Return the layout: AWQ's `version`, GPTQ's `checkpoint_format`, or the flag of old Marlin files."""
    if method == "awq":
        return str(settings.get("version") or settings.get("format") or "gemm").lower()
    if settings.get("is_marlin_format"):
        return "marlin"
    return str(settings.get("checkpoint_format") or settings.get("format") or "gptq").lower()


def _changes_nothing(dynamic: Any) -> bool:
    """Return whether GPTQModel's rules only exclude layers ("-:pattern"), which the files show anyway."""
    rules = dynamic or {}
    return isinstance(rules, dict) and all(
        name.startswith("-:") or not rule for name, rule in rules.items() if isinstance(name, str)
    )


def _is_group(size: Any) -> bool:
    return size == -1 or (isinstance(size, int) and size >= INT4_GROUP and size % INT4_GROUP == 0)


class StoredLayers:
    """The language half's layers in a quantized checkpoint, read one by one."""

    def __init__(self, files: Sequence[Path], layout: StoredFormat, shapes: Mapping[str, Shape]) -> None:
        """`shapes`: those of the configured weights, by their full names."""
        self._format, self._config_file = layout, files[0].parent / CONFIG_FILE
        self._shapes = {found[1]: shape for name, shape in shapes.items() if (found := _in_layers(name))}
        self._locations: dict[str, tuple[Path, str]] = {}
        for path in files:
            with safe_open(path, framework="pt") as file:
                for name in file.keys():  # noqa: SIM118
                    found = _in_layers(name)
                    if found is not None:
                        self._locations[found[1]] = path, name
        if not any(name.endswith(".qweight") for name in self._locations):
            raise ModelError(
                f"{files[0].parent} says that {layout.method} has quantized it, and none of its layers is: "
                "restore config.json and weights from one checkpoint"
            )

    def part(self, index: int, name: str) -> StoredPart:
        """Return a layer's norm or projection by its name within the layer.

        Raises ModelError if it is missing or its shape is not the configured one.
        """
        stem = f"{index}.{name}"
        weight = self._weight(stem)
        bias = self._read(f"{stem}.bias") if f"{stem}.bias" in self._locations else None
        wanted = self._shapes[f"{stem}.weight"]
        numbers = weight if isinstance(weight, Tensor) else weight.values
        check_shape(self._config_file, f"layers.{stem}.weight", tuple(numbers.shape), wanted)
        if bias is not None:
            check_shape(self._config_file, f"layers.{stem}.bias", tuple(bias.shape), wanted[:1])
        return StoredPart(weight, bias)

    def _weight(self, stem: str) -> Tensor | IntegerWeight:
        if f"{stem}.qweight" not in self._locations:
            return self._read(f"{stem}.weight")
        tensors = {
            kind: self._read(f"{stem}.{kind}")
            for kind in ("qweight", "qzeros", "scales", "g_idx")
            if kind != "g_idx" or self._format.ordered or f"{stem}.g_idx" in self._locations
        }
        try:
            return integer_weight(tensors, self._format)
        except (RuntimeError, ValueError, IndexError) as error:
            path = self._locations[f"{stem}.qweight"][0]
            raise ModelError(
                f"{path}: {stem} does not fit its quantization_config ({error}): restore the folder"
            ) from error

    def _read(self, name: str) -> Tensor:
        if name not in self._locations:
            raise ModelError(f"the checkpoint lacks layers.{name}: restore its folder")
        path, full_name = self._locations[name]
        try:
            with safe_open(path, framework="pt") as file:
                tensor: Tensor = file.get_tensor(full_name)
        except (OSError, SafetensorError) as error:
            raise ModelError(f"{path} is truncated or corrupt ({error}): restore the file") from error
        check_finite(path, full_name, tensor)
        return tensor


def _in_layers(name: str) -> re.Match[str] | None:
    """Match a weight of the language half's layers by its full name."""
    return None if "visual." in name else _LAYER.search(name)


def integer_weight(tensors: dict[str, Tensor], layout: StoredFormat) -> IntegerWeight:
    """Return a projection from `qweight`, `qzeros`, `scales` and maybe `g_idx`.

    Raises ValueError for a misfit.
    """
    bits, half = layout.bits, 2 ** (layout.bits - 1)
    along_outputs = _AWQ_COLUMNS if layout.method == "awq" else tuple(range(_WORD_BITS // bits))
    zeros = unpack_words(tensors["qzeros"], bits, along_outputs)
    if layout.method == "awq":
        levels = unpack_words(tensors["qweight"], bits, along_outputs).t()
    else:
        levels = unpack_words(tensors["qweight"].t(), bits, along_outputs)
    scales = tensors["scales"].float().t()
    outputs, inputs = levels.shape
    size = inputs if layout.group_size == -1 else layout.group_size
    if inputs % size or scales.shape != (outputs, inputs // size) or zeros.t().shape != scales.shape:
        raise ValueError(f"levels {tuple(levels.shape)}, scales {tuple(scales.shape)}, groups of {size}")
    order = _order(tensors.get("g_idx"), inputs, size)
    values = (levels if order is None else levels[:, order]) - half
    whole = IntegerWeight(
        values.to(torch.int8).contiguous(), scales.contiguous(), bits, _zeros(zeros, layout), order
    )
    return _regrouped(whole)


def unpack_words(words: Tensor, bits: int, columns: Sequence[int]) -> Tensor:
    """Return the levels (rows, n * 32 / bits), int16, in words (rows, n).

    `columns`: the column of each level of a word, lowest bits first.
    """
    shifts = torch.arange(0, _WORD_BITS, bits, dtype=torch.int32)
    levels = (words.int().unsqueeze(-1) >> shifts) & (2**bits - 1)
    return levels[..., torch.tensor(columns).argsort()].flatten(1).to(torch.int16)


def _zeros(stored: Tensor, layout: StoredFormat) -> Tensor | None:
    """Return the zeros (out, groups) int8, centred like the values; None if all are 0.

    A symmetric checkpoint's zeros are known, however its writer has counted them. In others a zero of
    0 is stored minus 1, wrapped around.
    """
    half = 2 ** (layout.bits - 1)
    if layout.symmetric and bool(((stored == half) | (stored == half - 1)).all()):
        return None
    zeros = (stored + layout.zero_offset) % 2**layout.bits - half
    return zeros.t().to(torch.int8).contiguous()


def _order(groups: Tensor | None, inputs: int, size: int) -> Tensor | None:
    """Return the order that sorts the inputs by group; None if they are sorted already.

    Raises ValueError for invalid groups.
    """
    if groups is None:
        return None
    if groups.is_floating_point():
        raise ValueError(f"g_idx holds numbers of {groups.dtype}, which are no groups")
    first, last = (int(one) for one in groups.aminmax())
    if groups.shape != (inputs,) or first < 0 or last >= inputs // size:
        raise ValueError(f"g_idx puts {tuple(groups.shape)} inputs into groups {first} to {last}")
    counts = torch.bincount(groups.long())
    if not bool((counts == size).all()):
        raise ValueError(f"g_idx puts inputs into groups of {counts.min()} to {counts.max()}")
    return None if bool((groups.diff() >= 0).all()) else groups.argsort(stable=True)


def _regrouped(weight: IntegerWeight) -> IntegerWeight:
    """Return the same numbers in groups of a size that 4-bit products support, here and in onnxruntime."""
    size = next((one for one in GROUPS if weight.group % one == 0), weight.group)
    times = weight.group // size
    scales = weight.scales.repeat_interleave(times, dim=1)
    zeros = None if weight.zeros is None else weight.zeros.repeat_interleave(times, dim=1)
    return IntegerWeight(weight.values, scales, weight.bits, zeros, weight.order)
