"""Whole numbers as LEB128 varints: seven bits a byte, lowest first, the top bit set where more follow."""

from __future__ import annotations

import numpy as np

from outrider.core.errors import ProtocolError

_MAX_BYTES = 5
_THRESHOLDS = np.array([1 << 7 * size for size in range(1, _MAX_BYTES)])


def encode_varints(values: np.ndarray) -> bytes:
    """int64 (n,), each 0 <= value < 2^35, shortest form."""
    sizes = np.searchsorted(_THRESHOLDS, values, side="right") + 1
    ends = np.cumsum(sizes)
    digits = np.empty(int(sizes.sum()), dtype=np.uint8)
    for place in range(_MAX_BYTES):
        has = sizes > place
        more = (sizes[has] > place + 1).astype(np.int64) << 7
        digits[ends[has] - sizes[has] + place] = (values[has] >> 7 * place & 0x7F) | more
    return digits.tobytes()


def decode_varints(payload: bytes) -> np.ndarray:
    """int64 (n,). Raises ProtocolError for a number cut off, of more than five bytes, or padded."""
    digits = np.frombuffer(payload, dtype=np.uint8)
    ends = np.flatnonzero(digits < 0x80) + 1
    if len(digits) and (len(ends) == 0 or ends[-1] != len(digits)):
        raise ProtocolError("a packed number is cut off")
    starts = np.concatenate(([0], ends[:-1])) if len(ends) else ends
    sizes = ends - starts
    if np.any(sizes > _MAX_BYTES) or np.any((digits[ends - 1] == 0) & (sizes > 1)):
        raise ProtocolError("a packed number is not in its shortest form")
    values = np.zeros(len(ends), dtype=np.int64)
    for place in range(_MAX_BYTES):
        has = sizes > place
        values[has] |= (digits[starts[has] + place].astype(np.int64) & 0x7F) << 7 * place
    return values
