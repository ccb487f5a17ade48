# SPDX-License-Identifier: Apache-2.0
"""Whole numbers as LEB128 varints: seven bits per byte, lowest first; the top bit is set if more follow."""

from __future__ import annotations

from collections.abc import Iterable

from outrider.core.errors import ProtocolError

MAX_BYTES = 5
CUT_OFF, NOT_SHORTEST = "a packed number is cut off", "a packed number is not in its shortest form"


def write_varints(numbers: Iterable[int]) -> bytes:
    """Encode numbers, each 0 <= number < 2^35, in shortest form. Raises ValueError for one below 0."""
    payload = bytearray()
    for number in numbers:
        while number > 0x7F:
            payload.append(number & 0x7F | 0x80)
            number >>= 7
        payload.append(number)
    return bytes(payload)


def read_varints(payload: bytes) -> list[int]:
    """Decode numbers. Raises ProtocolError for one that is cut off, padded, or over five bytes long."""
    numbers: list[int] = []
    number = shift = 0
    for digit in payload:
        if digit > 0x7F:
            number |= (digit & 0x7F) << shift
            shift += 7
            if shift >= 7 * MAX_BYTES:  # at once: a growing number would cost the square of its length
                raise ProtocolError(NOT_SHORTEST)
        elif shift:
            if digit == 0:
                raise ProtocolError(NOT_SHORTEST)
            numbers.append(number | digit << shift)
            number = shift = 0
        else:
            numbers.append(digit)
    if shift:
        raise ProtocolError(CUT_OFF)
    return numbers


def skip_varints(payload: bytes, start: int, count: int) -> int:
    """Return where `count` numbers from `start` end. Raises ProtocolError if there are fewer."""
    for at, digit in enumerate(payload[start : start + MAX_BYTES * count], start + 1):
        count -= digit <= 0x7F
        if count == 0:
            return at
    raise ProtocolError(CUT_OFF)
