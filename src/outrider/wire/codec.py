"""Frames to bytes and back. Whatever is not exactly a frame of this version is a ProtocolError.

A payload is one version byte and one msgpack array. Nothing is ever unpickled or evaluated.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from outrider.core.errors import ProtocolError
from outrider.core.frames import MAX_FRAME_BYTES, PROTOCOL_VERSION, CloudFrame, EdgeFrame, Frame

_ENCODER = msgspec.msgpack.Encoder()
_AnyFrame = TypeVar("_AnyFrame")
_EDGE_DECODER: msgspec.msgpack.Decoder[EdgeFrame] = msgspec.msgpack.Decoder(EdgeFrame)
_CLOUD_DECODER: msgspec.msgpack.Decoder[CloudFrame] = msgspec.msgpack.Decoder(CloudFrame)
_VERSION_BYTE = bytes([PROTOCOL_VERSION])
_SHORT_MESSAGE_BYTES = 255


def encode(frame: Frame) -> bytes:
    """The payload of a frame. Raises ProtocolError where it would exceed MAX_FRAME_BYTES."""
    payload = _VERSION_BYTE + _ENCODER.encode(frame)
    if len(payload) > MAX_FRAME_BYTES:
        raise ProtocolError(
            f"a frame of {len(payload)} bytes exceeds {MAX_FRAME_BYTES}: send a smaller image"
        )
    return payload


def decode_edge_frame(payload: bytes) -> EdgeFrame:
    """What an edge sent. Raises ProtocolError."""
    return _decode(payload, _EDGE_DECODER)


def decode_cloud_frame(payload: bytes) -> CloudFrame:
    """What a cloud sent. Raises ProtocolError."""
    return _decode(payload, _CLOUD_DECODER)


def wire_bytes(payload: bytes) -> int:
    """The size of a payload with ZMTP's flags and length before it. TCP and CURVE come on top."""
    return len(payload) + (2 if len(payload) <= _SHORT_MESSAGE_BYTES else 9)


def _decode(payload: bytes, decoder: msgspec.msgpack.Decoder[_AnyFrame]) -> _AnyFrame:
    if not payload:
        raise ProtocolError("an empty frame")
    if len(payload) > MAX_FRAME_BYTES:
        raise ProtocolError(f"a frame of {len(payload)} bytes exceeds {MAX_FRAME_BYTES}")
    if payload[0] != PROTOCOL_VERSION:
        raise ProtocolError(
            f"protocol version {payload[0]}, this side speaks {PROTOCOL_VERSION}: update the older one"
        )
    try:
        return decoder.decode(memoryview(payload)[1:])
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise ProtocolError(f"malformed frame: {error}") from error
