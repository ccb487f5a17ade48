# SPDX-License-Identifier: Apache-2.0
"""Encodes and decodes frames. Anything that is not exactly a frame of this version raises ProtocolError.

A payload is one version byte, below 128, and one msgpack array. Nothing is unpickled or evaluated.

The three most frequent frames have a short form, and no other. Its first byte holds the top bit, the kind
(three bits, the index in KINDS) and the version (four bits). A digest follows if the kind has one, as four
bytes, lowest first; then the kind's numbers as varints (`core.varints`), in the schema's order; then, to
the end, a Draft's runs unchanged or the other kinds' tokens as varints. Each frame has exactly one
encoding, and its fields are checked against the schema like those of any other frame.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple, TypeVar, get_args

import msgspec

from outrider.core.errors import ProtocolError
from outrider.core.frames import (
    MAX_FRAME_BYTES,
    MAX_NEW_TOKENS,
    PROTOCOL_VERSION,
    CloudFrame,
    Draft,
    EdgeFrame,
    Frame,
    Hint,
    Verdict,
)
from outrider.core.varints import read_varints, skip_varints, write_varints


class Kind(NamedTuple):
    """A short form of one type of frame, with or without a digest. `num_numbers`: numbers before the runs or
    tokens.
    """

    frame: type[Draft | Hint | Verdict]
    has_digest: bool
    num_numbers: int


COMPACT_FRAMES = (Draft, Hint, Verdict)
KINDS = (
    Kind(Draft, False, 3),
    Kind(Draft, True, 3),
    Kind(Hint, False, 5),
    *[Kind(Verdict, True, 6 + num_kept) for num_kept in range(3)],
)
"""By the index in a frame's first byte. That of a Verdict depends on how many numbers `kept` has."""
IS_COMPACT, VERSION_BITS = 0x80, 0x0F
_KIND_SHIFT, _KIND_BITS = 4, 0x07
_FIRST_BYTES = [
    bytes([IS_COMPACT | kind_index << _KIND_SHIFT | PROTOCOL_VERSION]) for kind_index in range(len(KINDS))
]
_DRAFT, _DIGEST_DRAFT, _HINT, *_VERDICTS = _FIRST_BYTES
_TAG_OF_DRAFT, _TAG_OF_HINT, _TAG_OF_VERDICT = (frame.__struct_config__.tag for frame in COMPACT_FRAMES)
_DIGEST_BYTES = 4
_MAX_BYTES = 4 * MAX_NEW_TOKENS
"""Every frame of these kinds is shorter; a longer payload is not decoded."""


def encode_compact(frame: Draft | Hint | Verdict) -> bytes:
    """Return the payload of a frame whose fields are within their bounds."""
    if isinstance(frame, Draft):
        numbers = write_varints((frame.session, frame.epoch, frame.base))
        if frame.digest is None:
            return _DRAFT + numbers + frame.runs
        return _DIGEST_DRAFT + _digest_bytes(frame.digest) + numbers + frame.runs
    where = frame.session, frame.epoch, frame.base
    if isinstance(frame, Hint):
        return _HINT + write_varints((*where, frame.exit, frame.confidence, *frame.tokens))
    numbers = write_varints(
        (*where, frame.drafted, frame.passes, frame.verify_us, *frame.kept, *frame.tokens)
    )
    return _VERDICTS[len(frame.kept)] + _digest_bytes(frame.digest) + numbers


def decode_compact(payload: bytes, frames: Collection[type]) -> Any:
    """Decode one of `frames`; the version has been checked. Raises ProtocolError or ValidationError."""
    kind_index = payload[0] >> _KIND_SHIFT & _KIND_BITS
    if kind_index >= len(KINDS) or KINDS[kind_index].frame not in frames:
        raise ProtocolError(f"no frame of kind {kind_index} goes this way")
    if len(payload) > _MAX_BYTES:
        raise ProtocolError(f"{len(payload)} bytes are too many for its kind")
    frame, has_digest, num_numbers = KINDS[kind_index]
    start = 1 + _DIGEST_BYTES if has_digest else 1
    digest = int.from_bytes(payload[1:start], "little") if has_digest else None
    fields: tuple[Any, ...]
    if frame is Draft:
        end = skip_varints(payload, start, num_numbers)
        fields = (_TAG_OF_DRAFT, *read_varints(payload[start:end]), digest, payload[end:])
    else:
        numbers = read_varints(payload[start:])
        tokens = numbers[num_numbers:]
        if len(numbers) < num_numbers:
            raise ProtocolError("a number is missing")
        if frame is Hint:
            fields = (_TAG_OF_HINT, *numbers[:num_numbers], tokens)
        else:
            fields = (_TAG_OF_VERDICT, *numbers[:3], digest, tokens, *numbers[3:6], numbers[6:num_numbers])
    return msgspec.convert(fields, frame)


def _digest_bytes(digest: int) -> bytes:
    return digest.to_bytes(_DIGEST_BYTES, "little")


_ENCODER = msgspec.msgpack.Encoder()
_AnyFrame = TypeVar("_AnyFrame")
_EDGE_DECODER: msgspec.msgpack.Decoder[EdgeFrame] = msgspec.msgpack.Decoder(EdgeFrame)
_CLOUD_DECODER: msgspec.msgpack.Decoder[CloudFrame] = msgspec.msgpack.Decoder(CloudFrame)
_EDGE_FRAMES, _CLOUD_FRAMES = frozenset(get_args(EdgeFrame)), frozenset(get_args(CloudFrame))
_VERSION_BYTE = bytes([PROTOCOL_VERSION])
_SHORT_MESSAGE_BYTES = 255


def encode(frame: Frame) -> bytes:
    """Return the payload of a frame. Raises ProtocolError if it exceeds MAX_FRAME_BYTES."""
    if isinstance(frame, COMPACT_FRAMES):
        return encode_compact(frame)
    payload = _VERSION_BYTE + _ENCODER.encode(frame)
    if len(payload) > MAX_FRAME_BYTES:
        raise ProtocolError(
            f"a frame of {len(payload)} bytes exceeds {MAX_FRAME_BYTES}: send a smaller image"
        )
    return payload


def decode_edge_frame(payload: bytes) -> EdgeFrame:
    """Decode a frame from an edge. Raises ProtocolError."""
    return _decode(payload, _EDGE_DECODER, _EDGE_FRAMES)


def decode_cloud_frame(payload: bytes) -> CloudFrame:
    """Decode a frame from a cloud. Raises ProtocolError."""
    return _decode(payload, _CLOUD_DECODER, _CLOUD_FRAMES)


def wire_bytes(payload: bytes) -> int:
    """Return a payload's size with ZMTP's flags and length. TCP and CURVE add to it."""
    return len(payload) + (2 if len(payload) <= _SHORT_MESSAGE_BYTES else 9)


def frame_bytes(frame: Frame) -> int:
    """Return a frame's size on the wire in bytes. Raises ProtocolError like `encode`."""
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
