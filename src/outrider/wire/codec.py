# SPDX-License-Identifier: Apache-2.0
"""Frames to bytes and back. Whatever is not exactly a frame of this version is a ProtocolError.

A payload is one version byte, below 128, and one msgpack array; or, for the frames that go all the time, the
short form of `wire.compact`, and for these no other. Nothing is ever unpickled or evaluated.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar, get_args

import msgspec

from outrider.core.errors import ProtocolError
from outrider.core.frames import MAX_FRAME_BYTES, PROTOCOL_VERSION, CloudFrame, EdgeFrame, Frame
from outrider.wire.compact import COMPACT_FRAMES, IS_COMPACT, VERSION_BITS, decode_compact, encode_compact

_ENCODER = msgspec.msgpack.Encoder()
_AnyFrame = TypeVar("_AnyFrame")
_EDGE_DECODER: msgspec.msgpack.Decoder[EdgeFrame] = msgspec.msgpack.Decoder(EdgeFrame)
_CLOUD_DECODER: msgspec.msgpack.Decoder[CloudFrame] = msgspec.msgpack.Decoder(CloudFrame)
_EDGE_FRAMES, _CLOUD_FRAMES = frozenset(get_args(EdgeFrame)), frozenset(get_args(CloudFrame))
_VERSION_BYTE = bytes([PROTOCOL_VERSION])
_SHORT_MESSAGE_BYTES = 255


def encode(frame: Frame) -> bytes:
    """The payload of a frame. Raises ProtocolError where it would exceed MAX_FRAME_BYTES."""
    if isinstance(frame, COMPACT_FRAMES):
        return encode_compact(frame)
    payload = _VERSION_BYTE + _ENCODER.encode(frame)
    if len(payload) > MAX_FRAME_BYTES:
        raise ProtocolError(
            f"a frame of {len(payload)} bytes exceeds {MAX_FRAME_BYTES}: send a smaller image"
        )
    return payload


def decode_edge_frame(payload: bytes) -> EdgeFrame:
    """What an edge sent. Raises ProtocolError."""
    return _decode(payload, _EDGE_DECODER, _EDGE_FRAMES)


def decode_cloud_frame(payload: bytes) -> CloudFrame:
    """What a cloud sent. Raises ProtocolError."""
    return _decode(payload, _CLOUD_DECODER, _CLOUD_FRAMES)


def wire_bytes(payload: bytes) -> int:
    """The size of a payload with ZMTP's flags and length before it. TCP and CURVE come on top."""
    return len(payload) + (2 if len(payload) <= _SHORT_MESSAGE_BYTES else 9)


def frame_bytes(frame: Frame) -> int:
    """The bytes of a frame on the wire. Raises ProtocolError as `encode` does."""
    return wire_bytes(encode(frame))


def _decode(
    payload: bytes, decoder: msgspec.msgpack.Decoder[_AnyFrame], frames: Collection[type]
) -> _AnyFrame:
    if not payload:
        raise ProtocolError("an empty frame")
    if len(payload) > MAX_FRAME_BYTES:
        raise ProtocolError(f"a frame of {len(payload)} bytes exceeds {MAX_FRAME_BYTES}")
    is_compact = payload[0] >= IS_COMPACT
    version = payload[0] & VERSION_BITS if is_compact else payload[0]
    if version != PROTOCOL_VERSION:
        raise ProtocolError(
            f"protocol version {version}, this side speaks {PROTOCOL_VERSION}: update the older one"
        )
    try:
        if is_compact:
            compact: _AnyFrame = decode_compact(payload, frames)
            return compact
        frame = decoder.decode(memoryview(payload)[1:])
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError, RecursionError, ProtocolError) as error:
        raise ProtocolError(f"malformed frame: {error}") from error
    if isinstance(frame, COMPACT_FRAMES):
        raise ProtocolError(f"malformed frame: a {type(frame).__name__} that is not in its short form")
    return frame
