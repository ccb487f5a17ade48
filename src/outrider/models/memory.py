"""How much memory a checkpoint and its sessions take, known before anything is loaded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from outrider.core.errors import OutOfMemoryError
from outrider.core.model_options import Precision
from outrider.models.checkpoint import CONFIG_FILE
from outrider.models.headers import read_headers
from outrider.models.stored import read_format

BYTES = {"fp32": 4.0, "bf16": 2.0, "int8": 1.01, "int4": 0.57}
"""Of a packed weight, its scales included."""
STORED_BYTES = 26.0
"""Of each of a projection's quantized numbers while it is unpacked and packed anew, measured at int8."""
_WHOLE = ("visual.", "embed_tokens", "norm", "bias")


@dataclass(frozen=True)
class WeightBytes:
    """`loading`: the most that loading takes. `kept`: what stays."""

    loading: int
    kept: int


@dataclass(frozen=True)
class SessionBytes:
    """What the caches of so many sessions of so many tokens take together."""

    sessions: int
    max_length: int
    num_bytes: int


def bytes_needed(files: Sequence[Path], precision: Precision, stored_bits: int | None = None) -> WeightBytes:
    """Every weight as its file has it (float32 where it is to be), and the packed layers that grow beside
    them, of which each frees its own.

    Integers of so many `stored_bits` are read layer by layer, and made whole where that is what is packed.
    """
    read = packed = largest = 0.0
    for header in read_headers(files):
        name, count = header.name, math.prod(header.shape)
        if stored_bits is not None and name.endswith("qweight"):
            numbers = count * 32 // stored_bits
            packed += numbers * BYTES[precision]
            largest = max(largest, STORED_BYTES / 2 * numbers)
            continue
        one = count * (4 if precision == "fp32" else header.num_bytes)
        read += one
        if stored_bits is None and not any(part in name for part in _WHOLE):
            packed += count * BYTES[precision] - one
            largest = max(largest, one)
    return WeightBytes(int(read + max(packed, 0.0) + 2 * largest), int(read + packed))


def check_memory(
    folder: Path,
    files: Sequence[Path],
    precision: Precision,
    caches: SessionBytes | None = None,
    device: torch.device | None = None,
    copies: int = 1,
) -> None:
    """Raises OutOfMemoryError, saying how much is needed for so many `copies`, where less is free.

    A checkpoint is read into this machine's memory; weights and caches are kept in the device's, which is
    one copy's alone where it is a GPU.
    """
    layout = read_format(folder / CONFIG_FILE)
    weights = bytes_needed(files, precision, None if layout is None else layout.bits)
    kept = weights.kept + (0 if caches is None else caches.num_bytes)
    on_gpu = device is not None and device.type == "cuda"
    here = weights.loading if on_gpu else max(weights.loading, kept)
    places = [(copies * here, available_bytes(), _times(copies), "")]
    if on_gpu:
        places.append((kept, available_on(device), "", f" on {device}"))
    for needed, free, times, where in places:
        if needed > free:
            raise OutOfMemoryError(
                f"{folder} needs {needed / 2**30:.1f} GB to load as {precision}{times}, and "
                f"{free / 2**30:.1f} GB are free{where}: {_remedy(caches)}"
            )


def _remedy(caches: SessionBytes | None) -> str:
    advice = "close other programs, choose a smaller precision or a smaller checkpoint"
    if caches is None:
        return advice
    return (
        f"{advice}, or lower max_sessions or max_length (caches of {caches.sessions} sessions of "
        f"{caches.max_length} tokens take {caches.num_bytes / 2**30:.1f} GB)"
    )


def available_on(device: torch.device | None) -> float:
    """Of a GPU's memory what this process can still have: what is free, and what its allocator keeps back."""
    kept_back = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + kept_back


def _times(copies: int) -> str:
    return "" if copies == 1 else f" {copies} times"


def available_bytes() -> float:
    """Of this machine's memory what programs can still have; infinite where Linux does not tell."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return math.inf
    kilobytes = next((line.split()[1] for line in lines if line.startswith("MemAvailable:")), None)
    return math.inf if kilobytes is None else int(kilobytes) * 1024
