# SPDX-License-Identifier: Apache-2.0
"""Reads a checkpoint's weights from its files' headers, and checks them against the configuration."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from outrider.core.errors import ModelError
from outrider.models.gguf.file import is_gguf, open_gguf
from outrider.models.gguf.weights import own_dtype

FILE_BYTES = {
    **{"F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2, "U16": 2},
    **{"I8": 1, "U8": 1, "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1},
}
_PREFIX = re.compile(r"^(?:model\.)?(?:language_model\.)?(?:model\.)?")
_LAYER = re.compile(r"(?:visual\.)?(layers|blocks)\.(\d{1,9})\.")
"""A weight of a decoder layer or a vision layer, by its bare name."""
_DTYPES = {"F16": torch.float16, "BF16": torch.bfloat16}
_FLOATS = ("F64", "F32", *_DTYPES)
_HEAD = "lm_head.weight"
"""Missing in checkpoints whose embeddings are also their head."""

Shape = tuple[int, ...]


@dataclass(frozen=True)
class WeightHeader:
    """A weight's name, shape and type; `num_bytes` is the size of one number in the file."""

    name: str
    shape: Shape
    num_bytes: int
    dtype: str

    @property
    def total_bytes(self) -> int:
        """The size of the weight in the file, in bytes."""
        return math.prod(self.shape) * self.num_bytes


def read_headers(files: Sequence[Path]) -> Iterator[WeightHeader]:
    """Yield name, shape and type of each weight without reading the weights."""
    for path in files:
        yield from _gguf_headers(path) if is_gguf(path) else _safetensors_headers(path)


def _safetensors_headers(path: Path) -> Iterator[WeightHeader]:
    with safe_open(path, framework="pt") as file:
        for name in file.keys():  # noqa: SIM118
            one = file.get_slice(name)
            dtype = str(one.get_dtype())
            yield WeightHeader(name, tuple(one.get_shape()), FILE_BYTES.get(dtype, 4), dtype)


def _gguf_headers(path: Path) -> Iterator[WeightHeader]:
    """Yield each weight with the bytes per number that it is read with, not those in the file."""
    file = open_gguf(path)
    for one in file.tensors.values():
        yield WeightHeader(one.name, one.shape, own_dtype(file).itemsize, one.kind)


def check_layer_count(config_file: Path, files: Sequence[Path], settings: Mapping[str, Any]) -> None:
    """Raise ModelError for more layers than the files have weights; creating them might never end.

    `settings`: the content of `config_file`. transformers lists the kind of each layer that it names.
    """
    parts = [settings, settings.get("text_config"), settings.get("vision_config")]
    named = (
        part.get(key) for part in parts if isinstance(part, dict) for key in ("num_hidden_layers", "depth")
    )
    configured = max((one for one in named if isinstance(one, int)), default=0)
    count = sum(1 for _ in read_headers(files))
    if configured > count:
        raise ModelError(
            f"{config_file} names {configured} layers, and there are {count} weights: restore both from one "
            "checkpoint"
        )


def check_no_more_layers(config_file: Path, files: Sequence[Path], config: Any) -> None:
    """Raise ModelError for weights of more layers than configured;
    the configured ones alone write another text.
    """
    depth = getattr(getattr(config, "vision_config", None), "depth", 0)
    configured = {"layers": config.get_text_config().num_hidden_layers, "blocks": depth}
    for header in read_headers(files):
        found = _LAYER.match(_bare(header.name))
        if found is not None and int(found[2]) >= configured[found[1]]:
            raise ModelError(
                f"{config_file} names {configured[found[1]]} {found[1]}, and the weights have {header.name}: "
                "restore both from one checkpoint"
            )


def check_fit(config_file: Path, files: Sequence[Path], wanted: Mapping[str, Shape]) -> None:
    """Raise ModelError that names the first weight with a wrong shape, else a missing one.

    Names are compared without the prefixes that differ between versions of transformers.
    """
    stored: dict[str, Shape] = {}
    bare = {_bare(name): shape for name, shape in wanted.items()}
    for header in read_headers(files):
        bare_name = _bare(header.name)
        if bare_name in stored:
            raise ModelError(
                f"{config_file.parent} holds {bare_name} twice, under two names or in two files, the second "
                f"{header.name}: restore its weights from one save"
            )
        stored[bare_name] = header.shape
        if not is_gguf(files[0]):
            _check_plain(config_file, header, bare_name, bare)
    for name, shape in bare.items():
        check_shape(config_file, name, stored.get(name, shape), shape)
    missing = [name for name in bare if name not in stored and name != _HEAD]
    if missing:
        raise ModelError(
            f"{config_file.parent} lacks {len(missing)} weights that its {config_file.name} names, the first "
            f"{missing[0]}: restore both from one checkpoint"
        )


def check_shape(config_file: Path, name: str, found: Shape, wanted: Shape) -> None:
    """Raise ModelError for a weight whose shape is not the configured one."""
    if found != wanted:
        raise ModelError(
            f"{name} has the shape {found} in the weights of {config_file.parent}, but {wanted} "
            f"after its {config_file.name}: restore both from one checkpoint"
        )


def _check_plain(config_file: Path, header: WeightHeader, name: str, wanted: Mapping[str, Shape]) -> None:
    """Raise ModelError for a quantizer's or an adapter's weights that the configuration does not mention.

    transformers would load the numbers without their scales.
    """
    if name in wanted and header.dtype not in _FLOATS:
        found = f"{header.name} of the type {header.dtype}"
    elif name not in wanted and not name.endswith(".bias") and _owner(name, wanted) is not None:
        found = f"{header.name} beside {_owner(name, wanted)}"
    else:
        return
    raise ModelError(
        f"{config_file.parent} holds {found}: a quantizer or an adapter has made it, and "
        f"{config_file.name} names none; choose the checkpoint that is not quantized, or merge the adapter"
    )


def _owner(name: str, wanted: Mapping[str, Shape]) -> str | None:
    """Return the configured weight that a name belongs to: its own, or that of an enclosing module."""
    parts = name.split(".")
    stems = (".".join(parts[:count]).removesuffix(".weight") for count in range(1, len(parts)))
    return next((f"{stem}.weight" for stem in stems if f"{stem}.weight" in wanted), None)


def file_dtype(files: Sequence[Path]) -> torch.dtype:
    """Return the one type of all matrices, else float32, which can represent every other."""
    weights = (one for one in read_headers(files) if one.name.endswith(".weight") and len(one.shape) > 1)
    found = {one.dtype for one in weights}
    return _DTYPES.get(found.pop(), torch.float32) if len(found) == 1 else torch.float32


def _bare(name: str) -> str:
    return _PREFIX.sub("", name)


def check_finite(source: Path, name: str, numbers: Tensor) -> None:
    """Raise ModelError for a weight with NaN or infinity, with which no text could be written.

    Integers and weights quantized by another package are not checked. The check reads a few GB per second.
    """
    if type(numbers) is not Tensor or not numbers.is_floating_point() or not numbers.numel():
        return
    if numbers.itemsize > 1 and not all(bound.isfinite() for bound in numbers.aminmax()):
        raise ModelError(f"{source}: {name} holds NaN or infinity: restore the folder, or train it again")
