# SPDX-License-Identifier: Apache-2.0
"""Computes how much memory a checkpoint and its sessions take, before anything is loaded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from outrider.core.errors import OutOfMemoryError
from outrider.core.model_options import Precision
from outrider.models.checkpoint.awq_gptq import read_format
from outrider.models.checkpoint.headers import read_headers
from outrider.models.checkpoint.settings import config_file
from outrider.models.footprint.free_memory import available_bytes, available_on

BYTES = {"fp32": 4.0, "bf16": 2.0, "int8": 1.04, "int4": 0.63}
"""The most bytes of a packed weight, scales and zeros included, for any group size and device."""
STORED_BYTES = 26.0
"""Bytes for each quantized number of a projection while it is unpacked and repacked, measured at int8."""
_EMBEDDINGS, _HEAD = "embed_tokens", "lm_head"
_WHOLE = ("visual.", _EMBEDDINGS, "norm", "bias")
_FOREIGN = "_qdata"
"""The end of the name of integers that torchao keeps as they are."""


@dataclass(frozen=True)
class WeightBytes:
    """`loading`: the most that loading takes. `kept`: what is needed afterwards."""

    loading: int
    kept: int


@dataclass(frozen=True)
class SessionBytes:
    """The memory of `sessions` caches with `max_length` tokens each.

    On a GPU also the buffers of their static steps, and those for choosing tokens.
    """

    sessions: int
    max_length: int
    num_bytes: int
    steps_bytes: int = 0
    choice_bytes: int = 0

    @property
    def all_bytes(self) -> int:
        """The bytes of caches and buffers together."""
        return self.num_bytes + self.steps_bytes + self.choice_bytes


def bytes_needed(files: Sequence[Path], precision: Precision, stored_bits: int | None = None) -> WeightBytes:
    """Return the memory for loading and for keeping a checkpoint's weights.

    Every weight is read in its file's type (float32 if wanted). The packed layers are added one by one, and
    each frees its original. Embeddings that are not kept as read are copied, and a packed head is added to
    the embeddings that it is tied to. Integers of `stored_bits` bits are read layer by layer, and
    dequantized if that is what is packed.
    """
    read = packed = largest = copied = tied = 0.0
    for header in read_headers(files):
        name, count = header.name, math.prod(header.shape)
        if stored_bits is not None and name.endswith("qweight"):
            numbers = count * 32 // stored_bits
            packed += numbers * BYTES[precision]
            largest = max(largest, STORED_BYTES / 2 * numbers)
            continue
        if name.endswith(_FOREIGN):
            read += count * header.num_bytes
            continue
        layer_bytes = count * (4 if precision == "fp32" else header.num_bytes)
        read += layer_bytes
        if _EMBEDDINGS in name:
            copied += 2 * count if precision != "fp32" and header.dtype != "BF16" else 0
            tied += count * BYTES[precision] if precision in ("int8", "int4") else 0
        if _HEAD in name:
            tied = -math.inf
        if stored_bits is None and not any(part in name for part in _WHOLE):
            packed += count * BYTES[precision] - layer_bytes
            largest = max(largest, layer_bytes)
    return WeightBytes(
        int(read + max(packed, 0.0) + copied + 2 * largest), int(read + packed + max(tied, 0.0))
    )


def check_memory(
    folder: Path,
    files: Sequence[Path],
    precision: Precision,
    caches: SessionBytes | None = None,
    device: torch.device | None = None,
    copies: int = 1,
) -> None:
    """Raise OutOfMemoryError, with the memory that `copies` copies need, if less is free.

    A checkpoint is read into this machine's memory. Weights and caches are kept in the device's memory,
    which on a GPU holds one copy only.
    """
    layout = read_format(config_file(folder))
    weights = bytes_needed(files, precision, None if layout is None else layout.bits)
    kept = weights.kept + (0 if caches is None else caches.all_bytes)
    on_gpu = device is not None and device.type == "cuda"
    here = weights.loading if on_gpu else max(weights.loading, kept)
    memories = [(copies * here, available_bytes(), _times(copies), "")]
    if on_gpu:
        memories.append((kept, available_on(device), "", f" on {device}"))
    for needed, free, times, where in memories:
        if needed > free:
            raise OutOfMemoryError(
                f"{folder} needs {needed / 2**30:.1f} GB to load as {precision}{times}, and "
                f"{free / 2**30:.1f} GB are free{where}: {_remedy(caches)}"
            )


def check_graph_memory(
    folder: Path, files: Sequence[Path], precision: Precision, cache: SessionBytes, building: bool
) -> None:
    """Raise OutOfMemoryError, with the memory that static graphs need, if less is free.

    To build them a checkpoint is read, and then one byte held for each weight of 4 or 8 bits. Weights of
    more bits, bf16 included, are float32 in the graphs.
    """
    layout = read_format(config_file(folder))
    stored_bits = None if layout is None else layout.bits
    whole: Precision = "fp32" if precision == "bf16" else precision
    kept = bytes_needed(files, whole, stored_bits).kept + cache.num_bytes
    built_of: Precision = "int8" if precision == "int4" else whole
    needed = max(kept, bytes_needed(files, built_of, stored_bits).loading if building else 0)
    free, what = available_bytes(), "build" if building else "load"
    if needed > free:
        raise OutOfMemoryError(
            f"{folder} needs {needed / 2**30:.1f} GB to {what} as static graphs in {precision}, and "
            f"{free / 2**30:.1f} GB are free: {_remedy(cache)}"
        )


def _remedy(caches: SessionBytes | None) -> str:
    advice = "close other programs, choose a smaller precision or a smaller checkpoint"
    if caches is None:
        return advice
    return (
        f"{advice}, or lower max_sessions or max_length (caches of {caches.sessions} sessions of "
        f"{caches.max_length} tokens take {caches.num_bytes / 2**30:.1f} GB{_steps(caches)})"
    )


def _steps(caches: SessionBytes) -> str:
    if not caches.steps_bytes:
        return ""
    steps, choices = (each / 2**30 for each in (caches.steps_bytes, caches.choice_bytes))
    return f", their static steps {steps:.1f} GB, the choice of tokens {choices:.1f} GB"


def _times(copies: int) -> str:
    return "" if copies == 1 else f" {copies} times"
