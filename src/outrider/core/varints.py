# SPDX-License-Identifier: Apache-2.0
"""Whole numbers as LEB128 varints: seven bits a byte, lowest first, the top bit set where more follow."""

from __future__ import annotations

from collections.abc import Iterable

from outrider.core.errors import ProtocolError

MAX_BYTES = 5
CUT_OFF, NOT_SHORTEST = "a packed number is cut off", "a packed number is not in its shortest form"


def write_varints(numbers: Iterable[int]) -> bytes:
    """Each 0 <= number < 2^35, shortest form. Raises ValueError for one below 0."""
    payload = bytearray()
    for number in numbers:
        while number > 0x7F:
            payload.append(number & 0x7F | 0x80)
            number >>= 7
        payload.append(number)
    return bytes(payload)


def read_varints(payload: bytes) -> list[int]:
    """Raises ProtocolError for a number cut off, of more than five bytes, or padded."""
    numbers: list[int] = []
    number = shift = 0
    for digit in payload:
        if digit > 0x7F:
            number |= (digit & 0x7F) << shift
            shift += 7
            if shift >= 7 * MAX_BYTES:  # at once: a number that grew on would cost the square of its length
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
    """Where so many numbers that begin at `start` end. Raises ProtocolError where no so many do."""
    for at, digit in enumerate(payload[start : start + MAX_BYTES * count], start + 1):
        count -= digit <= 0x7F
        if count == 0:
            return at
    raise ProtocolError(CUT_OFF)
