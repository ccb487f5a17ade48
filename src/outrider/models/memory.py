"""How much memory a checkpoint takes, known from its files' headers before anything is loaded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from outrider.core.errors import ModelError
from outrider.core.model_options import Precision
from outrider.models.checkpoint import CONFIG_FILE
from outrider.models.headers import read_headers
from outrider.models.stored import read_format

BYTES = {"fp32": 4.0, "bf16": 2.0, "int8": 1.01, "int4": 0.57}
"""Of a packed weight, its scales included."""
STORED_BYTES = 26.0
"""Of each of a projection's quantized numbers while it is unpacked and packed anew, measured at int8."""
_WHOLE = ("visual.", "embed_tokens", "norm", "bias")


def bytes_needed(files: Sequence[Path], precision: Precision, stored_bits: int | None = None) -> int:
    """The most that loading takes: every weight as its file has it (float32 where it is to be), and the
    packed layers that grow beside them, of which each frees its own.

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
    return int(read + max(packed, 0.0) + 2 * largest)


def check_memory(folder: Path, files: Sequence[Path], precision: Precision, copies: int = 1) -> None:
    """Raises ModelError, saying how much is needed for so many `copies`, where less is free."""
    layout = read_format(folder / CONFIG_FILE)
    needed = copies * bytes_needed(files, precision, None if layout is None else layout.bits)
    free = available_bytes()
    if needed > free:
        raise ModelError(
            f"{folder} needs {needed / 2**30:.1f} GB to load as {precision}{_times(copies)}, and "
            f"{free / 2**30:.1f} GB are free: close other programs, choose a smaller precision or a smaller "
            "checkpoint"
        )


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
