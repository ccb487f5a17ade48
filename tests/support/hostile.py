"""Hostile payloads: frames of every type, generated from the schemas, and every way to damage one."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import inspect

from outrider.core.errors import ProtocolError
from outrider.core.frames import Frame
from outrider.wire.codec import encode

FRAME_TYPES: tuple[inspect.StructType, ...] = tuple(
    kind for kind in inspect.type_info(Frame).types if isinstance(kind, inspect.StructType)
)
HOSTILE_VALUES: tuple[Any, ...] = (
    -1,
    1 << 20,
    (1 << 32) - 1,
    1 << 32,
    (1 << 64) - 1,
    -(1 << 63),
    float("nan"),
    float("inf"),
    -0.5,
    True,
    None,
    "",
    "x" * 70_000,
    "\x00\ud7ff",
    b"",
    b"\xff\xd8" * 1000,
    (),
    (0,) * 5000,
    (float("nan"),),
    ((((((0,),),),),),),
    {"tokens": 1},
    {1: {2: {3: 4}}},
)
# Array, map, string and bytes headers that announce up to 4 GiB, deep nesting, reserved and extension types.
HOSTILE_BYTES: tuple[bytes, ...] = (
    b"\xdd\xff\xff\xff\xff",
    b"\xdf\xff\xff\xff\xff",
    b"\xdb\xff\xff\xff\xff",
    b"\xc6\xff\xff\xff\xff",
    b"\xc9\xff\xff\xff\xff\x01",
    b"\xdc\xff\xff",
    b"\x91" * 3000,
    b"\x81" * 3000,
    b"\xc1",
    b"\xcb" + struct.pack(">d", float("nan")),
    b"\xca" + struct.pack(">f", float("inf")),
    b"\xcf" + b"\xff" * 8,
    b"\xd3\x80" + b"\x00" * 7,
    b"\x00" * 64,
    # Varints: too long, padded, and unterminated.
    b"\xff" * 5 + b"\x01",
    b"\x81\x80\x00",
    b"\x80" * 20_000,
)
_BITS = range(8)
_UNWRITABLE = (TypeError, ValueError, OverflowError, AttributeError, LookupError)


def valid_value(kind: Any, rng: random.Random) -> Any:
    """Returns a value that a schema allows. Small ones are more frequent, so that frames share sessions."""
    if isinstance(kind, inspect.IntType):
        low = kind.ge if kind.ge is not None else 0
        high = kind.le if kind.le is not None else (kind.lt or (1 << 32)) - 1
        return rng.choice((low, high, rng.randint(low, high), *(min(high, low + n) for n in range(4))))
    if isinstance(kind, inspect.FloatType):
        low, high = kind.ge or kind.gt or 0.0, kind.le or kind.lt or 1.0
        return rng.uniform(low, high)
    if isinstance(kind, inspect.StrType):
        return "w" * rng.choice((0, 1, min(kind.max_length or 40, 40)))
    if isinstance(kind, inspect.BytesType):
        return rng.choice((b"", b"\xff\xd8 a frame", b"\x89PNG"))
    if isinstance(kind, (inspect.VarTupleType, inspect.ListType)):
        length = rng.randint(0, min(kind.max_length or 6, 6))
        return tuple(valid_value(kind.item_type, rng) for _ in range(length))
    if isinstance(kind, inspect.TupleType):
        return tuple(valid_value(item, rng) for item in kind.item_types)
    if isinstance(kind, inspect.LiteralType):
        return rng.choice(kind.values)
    if isinstance(kind, inspect.UnionType):
        return valid_value(rng.choice(kind.types), rng)
    if isinstance(kind, inspect.StructType):
        return kind.cls(*(valid_value(field.type, rng) for field in kind.fields))
    if isinstance(kind, inspect.BoolType):
        return rng.random() < 0.5
    if isinstance(kind, inspect.NoneType):
        return None
    raise TypeError(f"no values for {kind}: teach them here")


def valid_frame(rng: random.Random) -> Frame:
    """Returns a frame of a random type with random fields."""
    frame: Frame = valid_value(rng.choice(FRAME_TYPES), rng)
    return frame


def wrong_field(frame: Frame, rng: random.Random) -> bytes | None:
    """Returns an encoded frame with a hostile value in one field, or None if it cannot be encoded."""
    name = rng.choice(frame.__struct_fields__)
    value = rng.choice(HOSTILE_VALUES)
    old = getattr(frame, name)
    if isinstance(old, tuple) and old and rng.random() < 0.5:
        value = (*old[:-1], value)
    try:
        return encode(msgspec.structs.replace(frame, **{name: value}))
    except (*_UNWRITABLE, ProtocolError, msgspec.MsgspecError):
        return None


def other_field(frame: Frame, rng: random.Random) -> bytes:
    """Returns an encoded frame with another allowed value in one field: only the protocol can refuse it."""
    kind = next(kind for kind in FRAME_TYPES if kind.cls is type(frame))
    field = rng.choice(kind.fields)
    return encode(msgspec.structs.replace(frame, **{field.name: valid_value(field.type, rng)}))


def damaged(payload: bytes, other: bytes, rng: random.Random) -> bytes:
    """Returns a damaged payload: cut, extended, spliced, with hostile bytes inside, or with flipped bits."""
    kind = rng.randrange(6)
    at = rng.randrange(len(payload) + 1)
    if kind == 0:
        return payload[:at]
    if kind == 1:
        return payload + rng.randbytes(rng.randint(1, 40))
    if kind == 2:
        return payload[:at] + rng.choice(HOSTILE_BYTES) + payload[at + rng.randint(0, 3) :]
    if kind == 3:
        return payload[:at] + other[at:]
    flipped = bytearray(payload)
    for _ in range(rng.randint(1, 3)):
        if flipped:
            flipped[rng.randrange(len(flipped))] ^= 1 << rng.choice(_BITS)
    return bytes(flipped)


def hostile_payloads(rng: random.Random, recorded: Sequence[Frame]) -> Iterator[bytes]:
    """Yields payloads without end: damaged bytes, wrong fields, and valid but false variants of frames.

    `recorded` may grow meanwhile.
    """
    pool = [encode(valid_frame(rng)) for _ in range(500)]
    while True:
        heard = rng.choice(recorded) if recorded and rng.random() < 0.7 else valid_frame(rng)
        pool[rng.randrange(len(pool))] = payload = encode(heard)
        yield payload
        yield wrong_field(heard, rng) or payload[:-1]
        yield other_field(heard, rng)
        yield other_field(heard, rng)
        for _ in range(6):
            yield damaged(rng.choice(pool), payload, rng)
