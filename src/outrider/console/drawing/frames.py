# SPDX-License-Identifier: Apache-2.0
"""Pictures as they are sent to a page: a number in four bytes, then the JPEG."""

from __future__ import annotations

import struct

_HEADER = struct.Struct(">I")


def picture_frame(number: int, jpeg: bytes) -> bytes:
    """Returns a picture's bytes on the wire; the number wraps at 2^32."""
    return _HEADER.pack(number % 2**32) + jpeg


def picture_number(frame: bytes) -> int:
    """Returns the number in a frame that `picture_frame` has packed."""
    return int(_HEADER.unpack_from(frame)[0])
