# SPDX-License-Identifier: Apache-2.0
"""A model in one GGUF file: found, opened and checked before any weight is read."""

from __future__ import annotations

import math
import mmap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outrider.core.errors import ModelError
from outrider.core.files.git_lfs import unreadable
from outrider.models.gguf.layout import TensorLocation, read_layout
from outrider.models.gguf.names import module_name

SUFFIX = ".gguf"
ARCHITECTURE = "qwen2"
"""The only supported architecture: Qwen2's and Qwen2.5's text models, and models derived from them."""
_INSTALL = "pip install 'outrider[gguf]'"
_WHOLE, _INTEGERS = ("F32", "F16", "BF16"), ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0")
_READ = (*_WHOLE, *_INTEGERS, "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K")
_REMEDY = "restore the file, or download it again"


def is_gguf(path: Path) -> bool:
    """Return whether a file is a GGUF file by its name."""
    return path.suffix.lower() == SUFFIX


def gguf_of(model: Path) -> Path | None:
    """Return the GGUF file of a model's path: itself, or the one in a folder without config.json.

    Raises ModelError if a folder has several.
    """
    if is_gguf(model) and not model.is_dir():
        return model
    if not model.is_dir() or (model / "config.json").exists():
        return None
    files = sorted(filter(is_gguf, model.iterdir()))
    if len(files) > 1:
        names = ", ".join(path.name for path in files)
        raise ModelError(f"{model} holds several GGUF files, {names}: give the path of one")
    return files[0] if files else None


@dataclass(frozen=True)
class StoredTensor:
    """A tensor's `name` and shape in transformers' modules, its ggml type, and its bytes, row by row."""

    name: str
    shape: tuple[int, ...]
    kind: str
    rows: NDArray[np.uint8]


@dataclass(frozen=True)
class GgufFile:
    """A checked file: its metadata, and its tensors by their names in transformers' modules."""

    path: Path
    metadata: Mapping[str, Any]
    tensors: Mapping[str, StoredTensor]

    def get(self, key: str, kind: type | tuple[type, ...], default: Any = None) -> Any:
        """Return a metadata value, or the default if it is missing. Raises ModelError for a wrong type."""
        value = self.metadata.get(key, default)
        if value is default or (isinstance(value, kind) and not (kind is int and isinstance(value, bool))):
            return value
        raise ModelError(f"{self.path}: {key} is {str(value)[:60]!r}: {_REMEDY}")

    def need(self, key: str, kind: type | tuple[type, ...]) -> Any:
        """Return a metadata value. Raises ModelError if it is missing."""
        value = self.get(key, kind)
        if value is None:
            raise ModelError(f"{self.path} does not say its {key}: {_REMEDY}")
        return value


def open_gguf(path: Path) -> GgufFile:
    """Return the checked file, its weights mapped but not read.

    Raises ModelError for a file that is damaged, cut off, a part of several, or of another architecture.
    """
    try:
        stat = path.stat()
        return _opened(path, stat.st_size, stat.st_mtime_ns)
    except OSError as error:
        raise ModelError(f"{path} cannot be read ({error.strerror}): {_REMEDY}") from error


@lru_cache(maxsize=2)
def _opened(path: Path, num_bytes: int, _: int) -> GgufFile:
    """Read a file once per size and time, because a draft and a target may share it."""
    if num_bytes == 0:
        raise ModelError(f"{path} is empty: {_REMEDY}")
    with path.open("rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    try:
        layout = read_layout(data)
    except ValueError as error:
        raise unreadable(path, f"is no sound GGUF file ({error}): {_REMEDY}") from error
    _check_kind(path, layout.metadata)
    tensors = _stored(path, data, layout.tensors)
    return GgufFile(path, layout.metadata, {one.name: one for one in tensors})


def _check_kind(path: Path, metadata: Mapping[str, Any]) -> None:
    """Raise ModelError unless the file holds a whole model of the architecture."""
    architecture, kind = metadata.get("general.architecture"), metadata.get("general.type", "model")
    if kind != "model":
        raise ModelError(f"{path} holds a {kind!r}, no model: give the GGUF file of a whole model")
    if architecture != ARCHITECTURE:
        raise ModelError(
            f"{path} is of the architecture {architecture!r}, and of GGUF files only {ARCHITECTURE!r} is "
            "read: choose a Qwen2 or Qwen2.5 text model, or a Qwen2-VL or Qwen2.5-VL folder"
        )
    if metadata.get("split.count", 1) not in (0, 1):
        raise ModelError(
            f"{path} is one of {metadata['split.count']} parts: join them with "
            "`llama-gguf-split --merge FIRST-PART WHOLE.gguf`"
        )


def _stored(path: Path, data: mmap.mmap, file_tensors: tuple[TensorLocation, ...]) -> Iterator[StoredTensor]:
    constants = import_gguf()
    known = {int(one): one for one in constants.GGMLQuantizationType}
    names: set[str] = set()
    for tensor in file_tensors:
        kind = known[tensor.kind].name if tensor.kind in known else str(tensor.kind)
        if kind not in _READ:
            raise ModelError(
                f"{path}: {tensor.name} is of the type {kind}, and {', '.join(_READ)} are read: choose "
                "another quantization of the model, such as Q4_K_M"
            )
        name = module_name(tensor.name)
        if name is None or name in names:
            what = "a second" if name in names else "a tensor that no Qwen2 model has,"
            raise ModelError(f"{path} holds {what} {tensor.name}: choose another file of the model")
        names.add(name)
        block, block_bytes = constants.GGML_QUANT_SIZES[known[tensor.kind]]
        yield StoredTensor(name, tensor.shape, kind, _rows(path, data, tensor, block, block_bytes))


def _rows(
    path: Path, data: mmap.mmap, tensor: TensorLocation, block: int, block_bytes: int
) -> NDArray[np.uint8]:
    """Return a tensor's bytes (rows, bytes per row). Raises ModelError if they exceed the file."""
    *outer, width = tensor.shape
    if width % block:
        raise ModelError(f"{path}: {tensor.name} is {width} wide, and its blocks {block}: {_REMEDY}")
    row_bytes, count = width // block * block_bytes, math.prod(outer)
    if tensor.offset + count * row_bytes > len(data):
        raise ModelError(f"{path} is cut off: {tensor.name} goes on past its {len(data)} bytes: {_REMEDY}")
    flat = np.frombuffer(data, np.uint8, count * row_bytes, tensor.offset)
    return flat.reshape(count, row_bytes)


def import_gguf() -> Any:
    """Import the `gguf` package. Raises ModelError if it is not installed."""
    try:
        import gguf
    except ImportError as error:
        raise ModelError(f"GGUF files are read with the package gguf ({error}): {_INSTALL}") from error
    return gguf
