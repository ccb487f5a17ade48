# SPDX-License-Identifier: Apache-2.0
"""Reads a GGUF file's tensors as numbers."""

from __future__ import annotations

import torch
from torch import Tensor

from outrider.core.errors import ModelError
from outrider.models.gguf.file import GgufFile, StoredTensor, import_gguf
from outrider.models.gguf.names import EMBEDDINGS

_NUMBERS_AT_ONCE = 2**22
"""Reading a tensor needs extra memory of a few bytes for each of this many numbers."""


def own_dtype(file: GgufFile) -> torch.dtype:
    """Return the dtype in which a file's matrices are read if no other is requested.

    float16 represents a quantized weight eight times as precisely as bfloat16.
    """
    kind = file.tensors[EMBEDDINGS].kind if EMBEDDINGS in file.tensors else ""
    return {"F32": torch.float32, "BF16": torch.bfloat16}.get(kind, torch.float16)


def read_tensors(file: GgufFile, dtype: torch.dtype, with_layers: bool = True) -> dict[str, Tensor]:
    """Return the tensors by their names among transformers' modules.

    Raises ModelError for NaN or infinity.
    """
    wanted = (one for name, one in file.tensors.items() if with_layers or ".layers." not in name)
    return {one.name: _read(file, one, dtype) for one in wanted}


def _read(file: GgufFile, stored: StoredTensor, dtype: torch.dtype) -> Tensor:
    gguf = import_gguf()
    kind, width = gguf.GGMLQuantizationType[stored.kind], stored.shape[-1]
    read, at_once = torch.empty(len(stored.rows), width, dtype=dtype), max(1, _NUMBERS_AT_ONCE // width)
    for first in range(0, len(stored.rows), at_once):
        numbers = gguf.dequantize(stored.rows[first : first + at_once].copy(), kind)
        read[first : first + at_once] = torch.from_numpy(numbers)
    if not bool(read.isfinite().all()):
        raise ModelError(
            f"{file.path}: {stored.name} holds what is no number of {dtype}: restore the file, or download "
            "it again"
        )
    return read.view(stored.shape)
