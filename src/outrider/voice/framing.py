# SPDX-License-Identifier: Apache-2.0
"""Frames between the console's process and that of an engine: a letter, a length, and the content."""

from __future__ import annotations

import struct
from typing import IO

from outrider.core.errors import LinkError

MAX_BYTES = 1 << 20
READY, FAILED, LISTEN, SAMPLES, END, HEARD = b"R", b"F", b"L", b"S", b"E", b"H"
_HEADER = struct.Struct(">cI")


def write_frame(stream: IO[bytes], kind: bytes, content: bytes = b"") -> None:
    """Write one frame. Raises LinkError if the reader has ended."""
    try:
        stream.write(_HEADER.pack(kind, len(content)) + content)
        stream.flush()
    except (OSError, ValueError):
        raise LinkError("the speech engine has ended") from None


def read_frame(stream: IO[bytes]) -> tuple[bytes, bytes]:
    """Returns the kind and the content of the next frame. Raises LinkError if the other side has ended."""
    try:
        header = stream.read(_HEADER.size)
        if len(header) < _HEADER.size:
            raise LinkError("the speech engine has ended")
        kind, length = _HEADER.unpack(header)
        content = stream.read(length) if length <= MAX_BYTES else b""
    except (OSError, ValueError):
        raise LinkError("the speech engine has ended") from None
    if len(content) < length:
        raise LinkError("the speech engine has ended in the middle of a frame")
    return kind, content
