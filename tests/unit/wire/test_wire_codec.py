"""The codec accepts exactly its own frames."""

from __future__ import annotations

import random
from collections.abc import Iterator

import msgspec
import pytest
from msgspec import inspect
from support.hostile import FRAME_TYPES
from support.toys import JPEG

from outrider.core import frames as f
from outrider.core.errors import ProtocolError
from outrider.decoding.protocol.branch_codec import Run, pack_runs
from outrider.wire.codec import decode_cloud_frame, decode_edge_frame, encode, wire_bytes

RULES = f.Rules("adaptive", "coupled", 0.7, 0.9, f.MAX_VOCABULARY, -(1 << 63), True, "useful")
PLAIN_RULES = ["wait", "greedy", 0.0, 1.0, 0, 0, True, "none"]
EDGE_FRAMES = [
    f.Open(1, 2, 3, "find the chair", JPEG, (1, 2), 40, "toy", RULES),
    f.Resume(1, 2, 3, 4, 5),
    f.Draft(1, 2, 3, 1 << 31, pack_runs([Run(0, (5, 150_000)), Run(1, (6,), True)])),
    f.Draft(1, 2, 3, None, b""),
    f.Proposal(1, 2, 3, 1 << 31, None, (5, 150_000), b"evidence"),
    f.Proposal(1, 2, 3, 1 << 31, 7, (), b""),
    f.Cancel(1, 2),
    f.Close(1, 2),
    f.Ping(1, 2),
]
CLOUD_FRAMES = [
    f.Opened(1, 2, 3, 4, 5, (6, 7)),
    f.Verdict(1, 2, 3, 4, (5, 6), 7, 8, 9),
    f.Verdict(1 << 31, 200, 4096, 1 << 31, (), 0, 300, 40_000, (2, 5)),
    f.Unsettled(1, 2, 3, 4, (5, 6), 7, 8, 9, b"residue"),
    f.Hint(1, 2, 3, 0, 100, (5, 6)),
    f.PrefillAgain(1, 2),
    f.Refused(1, 2, "busy", "later"),
    f.Pong(1, 2, "toy", 32, 0, 8),
]


@pytest.mark.parametrize("frame", EDGE_FRAMES, ids=lambda frame: type(frame).__name__)
def test_edge_frames_survive_and_are_no_cloud_frames(frame):
    assert decode_edge_frame(encode(frame)) == frame
    with pytest.raises(ProtocolError):
        decode_cloud_frame(encode(frame))


@pytest.mark.parametrize("frame", CLOUD_FRAMES, ids=lambda frame: type(frame).__name__)
def test_cloud_frames_survive_and_are_no_edge_frames(frame):
    assert decode_cloud_frame(encode(frame)) == frame
    with pytest.raises(ProtocolError):
        decode_edge_frame(encode(frame))


@pytest.mark.parametrize(
    "fields",
    [
        [2, 1, 2, 3, 4, 5, 6],
        [2, 1, 2, 3],
        [2, 1, 2, 3, "digest", 5],
        [2, 1 << 32, 2, 3, 4, 5],
        [2, 1, 2, 4097, 4, 5],
        [2, 1, 2, True, 4, 5],
        [3, 1, 2, 3, 4, b""],
        [7, 1, 2, 3, 4, None, [1], "evidence"],
        [7, 1, 2, 3, 4, None, [-1], b""],
        [7, 1, 2, 3, 4, None, [1 << 20], b""],
        [7, 1, 2, 3, 4, None, [1.5], b""],
        [7, 1, 2, 3, 4, None, [float("nan")], b""],
        [7, 1, 2, 3, 4, None, [1] * 65, b""],
        [7, 1, 2, 3, 4, -1, [1], b""],
        [7, 1, 2, 3, 4, None, [1], bytes((1 << 20) + 1)],
        [99, 1, 2],
        [1, 1, 2, 3, "x" * (16 * 1024 + 1), b"", [], 4, "toy", PLAIN_RULES],
        [1, 1, 2, 3, "x", b"", [], 0, "toy", PLAIN_RULES],
        [1, 1, 2, 3, "x", b"", [], 4, "toy", ["hurry", *PLAIN_RULES[1:]]],
        [1, 1, 2, 3, "x", b"", [], 4, "toy", [*PLAIN_RULES[:-1], "many"]],
        [1, 1, 2, 3, "x", b"", [], 4, "toy", [*PLAIN_RULES[:1], "magic", *PLAIN_RULES[2:]]],
        [1, 1, 2, 3, "x", b"", [], 4, "toy", [*PLAIN_RULES[:4], -1, *PLAIN_RULES[5:]]],
        [1, 1, 2, 3, "x", b"", [], 4, "toy", [*PLAIN_RULES[:4], (1 << 20) + 1, *PLAIN_RULES[5:]]],
        [1, 1, 2, 3, "x", b"", [], 4, "toy", [*PLAIN_RULES[:5], 1 << 63, *PLAIN_RULES[6:]]],
        [1, 1, 2, 3, "x", b"", [], 4, "toy", [*PLAIN_RULES[:5], 1.0, *PLAIN_RULES[6:]]],
        [1, 1, 2, 3, "x", b"", [], 4, "toy", PLAIN_RULES[:-1]],
        {"session": 1},
        7,
    ],
)
def test_a_wrong_field_is_refused(fields):
    with pytest.raises(ProtocolError, match="malformed frame"):
        decode_edge_frame(bytes([f.PROTOCOL_VERSION]) + msgspec.msgpack.encode(fields))


def test_a_frame_with_every_field_right_is_not_refused():
    """The correct frames that the wrong ones above are made from."""
    for fields in (
        [2, 1, 2, 3, 4, 5],
        [7, 1, 2, 3, 4, None, [1], b""],
        [1, 1, 2, 3, "x", b"", [], 4, "toy", PLAIN_RULES],
    ):
        decode_edge_frame(bytes([f.PROTOCOL_VERSION]) + msgspec.msgpack.encode(fields))


def test_other_versions_empty_and_oversized_payloads_are_refused():
    with pytest.raises(ProtocolError, match=f"version 1, this side speaks {f.PROTOCOL_VERSION}"):
        decode_edge_frame(b"\x01" + encode(EDGE_FRAMES[1])[1:])
    with pytest.raises(ProtocolError, match=f"version 6, this side speaks {f.PROTOCOL_VERSION}"):
        decode_edge_frame(b"\x06" + msgspec.msgpack.encode(EDGE_FRAMES[2]))
    with pytest.raises(ProtocolError, match="empty"):
        decode_edge_frame(b"")
    with pytest.raises(ProtocolError, match="exceeds"):
        decode_edge_frame(bytes(f.MAX_FRAME_BYTES + 1))
    with pytest.raises(ProtocolError, match="smaller image"):
        encode(f.Open(1, 2, 3, "x", bytes(f.MAX_FRAME_BYTES), (), 40, "toy", RULES))


@pytest.mark.parametrize("kind", FRAME_TYPES, ids=lambda kind: kind.cls.__name__)
def test_every_field_of_every_frame_is_bounded(kind):
    """So no number is out of range or NaN, and no text, list or picture is unlimited."""
    assert list(unbounded(kind)) == []


def unbounded(kind, path: str = "") -> Iterator[str]:
    """Yield the fields of a schema that lack a bound."""
    if isinstance(kind, inspect.StructType):
        for field in kind.fields:
            yield from unbounded(field.type, f"{path}.{field.name}")
    elif isinstance(kind, inspect.UnionType):
        for option in kind.types:
            yield from unbounded(option, path)
    elif isinstance(kind, (inspect.IntType, inspect.FloatType)):
        if (kind.ge is None and kind.gt is None) or (kind.le is None and kind.lt is None):
            yield path
    elif isinstance(kind, (inspect.VarTupleType, inspect.ListType)):
        if kind.max_length is None:
            yield path
        yield from unbounded(kind.item_type, f"{path}[]")
    elif isinstance(kind, inspect.TupleType):
        for item in kind.item_types:
            yield from unbounded(item, f"{path}[]")
    elif isinstance(kind, (inspect.StrType, inspect.BytesType)):
        if kind.max_length is None:
            yield path
    elif not isinstance(kind, (inspect.LiteralType, inspect.BoolType, inspect.NoneType)):
        yield f"{path} of an unknown type {kind}"


def test_mutated_frames_are_frames_or_protocol_errors():
    rng = random.Random(4)
    payloads = [encode(frame) for frame in EDGE_FRAMES + CLOUD_FRAMES]
    refused = 0
    for _ in range(5000):
        payload = _mutate(bytearray(rng.choice(payloads)), rng)
        for decode in (decode_edge_frame, decode_cloud_frame):
            try:
                assert encode(decode(payload))
            except ProtocolError:
                refused += 1
    assert refused > 5000


def _mutate(payload: bytearray, rng: random.Random) -> bytes:
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(payload) + 1)
        kind = rng.randrange(3)
        if kind == 0:
            payload[at:at] = rng.randbytes(rng.randint(1, 5))
        elif kind == 1:
            del payload[at : at + rng.randint(1, 5)]
        elif at < len(payload):
            payload[at] = rng.randrange(256)
    return bytes(payload)


def test_a_round_of_the_wire_is_small():
    draft = f.Draft(1 << 31, 1000, 90, 1 << 31, pack_runs([Run(0, (151_000,) * 4)]))
    verdict = f.Verdict(1 << 31, 1000, 90, 1 << 31, (151_000,) * 5, 4, 30, 40_000)
    hint = f.Hint(1 << 31, 1000, 90, 3, 80, (151_000,) * 5)
    assert wire_bytes(encode(draft)) <= 28
    assert wire_bytes(encode(verdict)) <= 35
    assert wire_bytes(encode(hint)) <= 28
