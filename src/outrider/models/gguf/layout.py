# SPDX-License-Identifier: Apache-2.0
"""A GGUF file's header: its metadata, and the positions of its tensors.

The format is ggml's (`docs/gguf.md` there), versions 2 and 3, little endian. The `gguf` package reads it
too, but with one numpy view per token: for a vocabulary of 150,000 that takes twenty times as long.
"""

from __future__ import annotations

import math
import mmap
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

MAGIC = b"GGUF"
VERSIONS = (2, 3)
_ALIGNMENT_KEY, _ALIGNMENT = "general.alignment", 32
_MAX_DIMENSIONS = 4
_STRING, _ARRAY = 8, 9
_NUMBERS = {
    0: "<u1",
    1: "<i1",
    2: "<u2",
    3: "<i2",
    4: "<u4",
    5: "<i4",
    6: "<f4",
    7: "?",
    10: "<u8",
    11: "<i8",
    12: "<f8",
}
"""The numpy format of a metadata value, by the number of its type."""


@dataclass(frozen=True)
class TensorLocation:
    """A tensor's `shape` as torch has it, the number of its ggml type, and the start of its data."""

    name: str
    shape: tuple[int, ...]
    kind: int
    offset: int


@dataclass(frozen=True)
class Layout:
    """The content of a header: the metadata by key, and the position of every tensor."""

    metadata: dict[str, Any]
    tensors: tuple[TensorLocation, ...]


def read_layout(data: mmap.mmap | bytes) -> Layout:
    """Read the header from a whole file's bytes. Raises ValueError if it is invalid or cut off."""
    cursor = _Cursor(data)
    if cursor.take(4) != MAGIC:
        raise ValueError("it does not begin with GGUF")
    version = cursor.number("<u4")
    if int.from_bytes(version.to_bytes(4, "little"), "big") in VERSIONS:
        raise ValueError("it is big endian, and little-endian files are read")
    if version not in VERSIONS:
        raise ValueError(f"it is of version {version}, and {' and '.join(map(str, VERSIONS))} are read")
    num_tensors, num_keys = cursor.number("<u8"), cursor.number("<u8")
    metadata: dict[str, Any] = {}
    for _ in range(num_keys):
        key = cursor.string()
        metadata[key] = cursor.value(cursor.number("<u4"))
    places = [cursor.place() for _ in range(num_tensors)]
    alignment = metadata.get(_ALIGNMENT_KEY, _ALIGNMENT)
    if not isinstance(alignment, int) or alignment < 1:
        raise ValueError(f"{_ALIGNMENT_KEY} is {alignment!r}")
    begin = -(-cursor.at // alignment) * alignment
    return Layout(
        metadata, tuple(TensorLocation(one.name, one.shape, one.kind, begin + one.offset) for one in places)
    )


class _Cursor:
    """Reads forward; every read is bounded by the file's end."""

    def __init__(self, data: mmap.mmap | bytes) -> None:
        self.at = 0
        self._data = data

    def take(self, count: int) -> bytes:
        if count > len(self._data) - self.at:
            raise ValueError("it ends within its header")
        taken = self._data[self.at : self.at + count]
        self.at += count
        return taken

    def number(self, form: str) -> Any:
        return self.numbers(form, 1)[0]

    def numbers(self, form: str, count: int) -> list[Any]:
        return np.frombuffer(self.take(count * np.dtype(form).itemsize), form).tolist()

    def string(self) -> str:
        (length,) = struct.unpack("<Q", self.take(8))
        return self.take(length).decode()

    def value(self, kind: int) -> Any:
        """Read a metadata value of the type with this number."""
        if kind == _STRING:
            return self.string()
        if kind == _ARRAY:
            return self._array(self.number("<u4"), self.number("<u8"))
        if kind not in _NUMBERS:
            raise ValueError(f"it has a value of the unknown type {kind}")
        return self.number(_NUMBERS[kind])

    def _array(self, kind: int, count: int) -> list[Any]:
        if kind == _STRING:
            return [self.string() for _ in range(count)]
        if kind not in _NUMBERS:
            raise ValueError(f"it has an array of the unknown type {kind}")
        return self.numbers(_NUMBERS[kind], count)

    def place(self) -> TensorLocation:
        """Read a tensor's position; its offset counts from the start of the data section."""
        name, dimensions = self.string(), self.number("<u4")
        if not 1 <= dimensions <= _MAX_DIMENSIONS:
            raise ValueError(f"{name} has {dimensions} dimensions")
        shape = tuple(reversed(self.numbers("<u8", dimensions)))
        if math.prod(shape) == 0:
            raise ValueError(f"{name} has the shape {shape}")
        return TensorLocation(name, shape, self.number("<u4"), self.number("<u8"))
