"""Whole numbers as LEB128 varints: seven bits a byte, lowest first, the top bit set where more follow."""

from __future__ import annotations

import numpy as np

from outrider.core.errors import ProtocolError

_MAX_BYTES = 5
_FEW_BYTES = 128
"""Of so few numbers arrays cost more than they save."""
_SHIFTS = 7 * np.arange(_MAX_BYTES)
_CUT_OFF, _NOT_SHORTEST = "a packed number is cut off", "a packed number is not in its shortest form"


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
        raise ProtocolError(_CUT_OFF)
    ends = (digits < 0x80).nonzero()[0] + 1
    starts = np.concatenate(([0], ends[:-1]))
    sizes = ends - starts
    if sizes.max() > _MAX_BYTES or ((digits[ends - 1] == 0) & (sizes > 1)).any():
        raise ProtocolError(_NOT_SHORTEST)
    places = np.arange(len(digits)) - starts.repeat(sizes)
    return np.bitwise_or.reduceat((digits & 0x7F).astype(np.int64) << 7 * places, starts)


def read_varints(payload: bytes) -> list[int]:
    """`decode_varints` as plain numbers."""
    numbers: list[int] = []
    number = shift = 0
    for digit in payload:
        number |= (digit & 0x7F) << shift
        shift += 7
        if digit >= 0x80:
            continue
        if shift > 7 and (digit == 0 or shift > 7 * _MAX_BYTES):
            raise ProtocolError(_NOT_SHORTEST)
        numbers.append(number)
        number = shift = 0
    if shift:
        raise ProtocolError(_CUT_OFF)
    return numbers
