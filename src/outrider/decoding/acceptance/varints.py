# SPDX-License-Identifier: Apache-2.0
"""Arrays of whole numbers as varints (`core.varints`)."""

from __future__ import annotations

import numpy as np

from outrider.core.errors import ProtocolError
from outrider.core.varints import CUT_OFF, MAX_BYTES, NOT_SHORTEST, read_varints

_FEW_BYTES = 128
"""Of so few numbers arrays cost more than they save."""
_SHIFTS = 7 * np.arange(MAX_BYTES)


def encode_varints(values: np.ndarray) -> bytes:
    """int64 (n,), each 0 <= value < 2^35, shortest form."""
    rest = values[:, None] >> _SHIFTS
    digits = (rest & 0x7F | (rest > 0x7F) << 7).astype(np.uint8)
    rest[:, 0] |= 1  # a zero has a digit too
    return digits[rest > 0].tobytes()


def decode_varints(payload: bytes) -> np.ndarray:
    """int64 (n,). Raises ProtocolError for a number cut off, of more than five bytes, or padded."""
    if len(payload) <= _FEW_BYTES:
        return np.array(read_varints(payload), dtype=np.int64)
    digits = np.frombuffer(payload, dtype=np.uint8)
    if digits[-1] >= 0x80:
        raise ProtocolError(CUT_OFF)
    ends = (digits < 0x80).nonzero()[0] + 1
    starts = np.concatenate(([0], ends[:-1]))
    sizes = ends - starts
    if np.max(sizes) > MAX_BYTES or ((digits[ends - 1] == 0) & (sizes > 1)).any():
        raise ProtocolError(NOT_SHORTEST)
    places = np.arange(len(digits)) - starts.repeat(sizes)
    return np.bitwise_or.reduceat((digits & 0x7F).astype(np.int64) << 7 * places, starts)
