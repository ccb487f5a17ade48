# SPDX-License-Identifier: Apache-2.0
"""What the bytes of a JPEG show without decoding: whether it is complete, and its size."""

from __future__ import annotations

from outrider.core.errors import FrameError

MAX_SIDE_PX = 4096
MAX_SCANS = 100
"""Passes over the picture: a progressive JPEG has about ten, and each costs decoding time for all blocks."""
_START = b"\xff\xd8\xff"
_SCAN = b"\xff\xda"
_END = b"\xff\xd9"
_WITHOUT_LENGTH = frozenset({0x01, *range(0xD0, 0xDA)})
_PICTURE_HEADERS = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


def jpeg_size(jpeg: bytes) -> tuple[int, int]:
    """Return width and height in pixels, read from the header before anything is decoded.

    Raises FrameError for bytes that are not a JPEG, for a truncated one (decoders fill the missing part
    with grey), for sides beyond MAX_SIDE_PX (a few bytes can claim gigabytes) and for more than MAX_SCANS
    scans (of a few bytes each, they can take a decoder minutes).
    """
    if not jpeg.startswith(_START):
        raise FrameError(f"the frame of {len(jpeg)} bytes is no JPEG: check the camera's encoding")
    # The same bytes in a comment, or after the end, are not a scan.
    looks_whole, looked = jpeg.rstrip(b"\0").endswith(_END), jpeg.count(_SCAN)
    scans = looked if looks_whole and looked <= MAX_SCANS else _scans_to_the_end(jpeg)
    if scans is None:
        raise FrameError(f"the JPEG of {len(jpeg)} bytes is truncated: check the camera or the link")
    width, height = _picture_header(jpeg)
    if not (1 <= width <= MAX_SIDE_PX and 1 <= height <= MAX_SIDE_PX):
        raise FrameError(f"the JPEG is {width}x{height}; sides may be 1 to {MAX_SIDE_PX} px: scale it down")
    if scans > MAX_SCANS:
        raise FrameError(f"the JPEG has more than {MAX_SCANS} scans: save it as a usual, baseline one")
    return width, height


def _scans_to_the_end(jpeg: bytes) -> int | None:
    """Return the number of scans before the picture's end; None without an end.

    What follows it is ignored.
    """
    at, scans = 2, 0
    while (at := jpeg.find(b"\xff", at)) >= 0 and at + 1 < len(jpeg):
        marker = jpeg[at + 1]
        if marker == _END[1]:
            return scans
        if marker == 0xFF:
            at += 1
        elif marker == 0x00 or marker in _WITHOUT_LENGTH:
            at += 2
        else:
            scans += marker == _SCAN[1]
            at += 2 + int.from_bytes(jpeg[at + 2 : at + 4], "big")
    return None


def _picture_header(jpeg: bytes) -> tuple[int, int]:
    """Return the size in the first frame header among the marker segments (ITU T.81, B.2.2)."""
    at = 2
    while at + 9 <= len(jpeg) and jpeg[at] == 0xFF:
        marker = jpeg[at + 1]
        if marker in _PICTURE_HEADERS:
            return int.from_bytes(jpeg[at + 7 : at + 9], "big"), int.from_bytes(jpeg[at + 5 : at + 7], "big")
        if marker == 0xFF:
            at += 1
        elif marker in _WITHOUT_LENGTH:
            at += 2
        else:
            at += 2 + int.from_bytes(jpeg[at + 2 : at + 4], "big")
    raise FrameError(f"the JPEG of {len(jpeg)} bytes has no picture header: check the camera")
