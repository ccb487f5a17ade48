"""The short form: each frame has one encoding, and only frames of its own direction are decoded."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.hostile import FRAME_TYPES, HOSTILE_BYTES, damaged, valid_value

from outrider.core import frames as f
from outrider.core.errors import ProtocolError
from outrider.wire.codec import COMPACT_FRAMES, KINDS, decode_cloud_frame, decode_edge_frame, encode

DRAFT, DIGEST_DRAFT, HINT, VERDICT, _, KEPT_VERDICT = (
    bytes([0x80 | kind_index << 4 | f.PROTOCOL_VERSION]) for kind_index in range(len(KINDS))
)
DIGEST = bytes([4, 0, 0, 1])
NEXT_VERSION = f"version {f.PROTOCOL_VERSION + 1}, this side speaks {f.PROTOCOL_VERSION}: update"
U32_MAX = b"\xff\xff\xff\xff\x0f"

u32 = st.integers(0, 2**32 - 1) | st.integers(0, 300)
positions = st.integers(0, f.MAX_NEW_TOKENS)
tokens = st.integers(0, f.MAX_VOCABULARY - 1) | st.integers(0, 300)
drafts = st.builds(f.Draft, u32, u32, positions, st.none() | u32, st.binary(max_size=f.MAX_RUNS_BYTES))
hints = st.builds(
    f.Hint,
    u32,
    u32,
    positions,
    st.integers(0, 255),
    st.integers(0, 100),
    st.lists(tokens, max_size=f.MAX_CHUNK_TOKENS).map(tuple),
)
verdicts = st.builds(
    f.Verdict,
    u32,
    u32,
    positions,
    u32,
    st.lists(tokens, max_size=200).map(tuple),
    positions,
    u32,
    u32,
    st.lists(positions, max_size=2).map(tuple),
)


@given(drafts)
def test_drafts_are_decoded_unchanged(draft):
    assert decode_edge_frame(encode(draft)) == draft


@pytest.mark.lengthy
@given(hints | verdicts)
def test_hints_and_verdicts_are_decoded_unchanged(frame):
    assert decode_cloud_frame(encode(frame)) == frame


def test_the_largest_frames_are_decoded_unchanged():
    most = 2**32 - 1
    draft = f.Draft(most, most, 4096, most, b"\xff" * f.MAX_RUNS_BYTES)
    hint = f.Hint(most, most, 4096, 255, 100, (f.MAX_VOCABULARY - 1,) * f.MAX_CHUNK_TOKENS)
    text = (f.MAX_VOCABULARY - 1,) * f.MAX_NEW_TOKENS
    verdict = f.Verdict(most, most, 4096, most, text, 4096, most, most, (4096, 4096))
    assert decode_edge_frame(encode(draft)) == draft
    assert [decode_cloud_frame(encode(frame)) for frame in (hint, verdict)] == [hint, verdict]


def test_the_form_is_what_the_protocol_says():
    assert encode(f.Draft(1, 2, 300, None, b"runs")) == DRAFT + b"\x01\x02\xac\x02runs"
    assert encode(f.Draft(1, 2, 3, 4 + (1 << 24), b"")) == DIGEST_DRAFT + DIGEST + b"\x01\x02\x03"
    assert encode(f.Hint(1, 2, 3, 16, 80, (5, 300))) == HINT + b"\x01\x02\x03\x10\x50\x05\xac\x02"
    verdict = f.Verdict(1, 2, 3, 4 + (1 << 24), (10, 11), 7, 8, 9)
    assert encode(verdict) == VERDICT + DIGEST + b"\x01\x02\x03\x07\x08\x09\x0a\x0b"
    kept = f.Verdict(1, 2, 3, 4 + (1 << 24), (10, 11), 7, 8, 9, (5, 6))
    assert encode(kept) == KEPT_VERDICT + DIGEST + b"\x01\x02\x03\x07\x08\x09\x05\x06\x0a\x0b"
    assert f.PROTOCOL_VERSION < 16, "four bits"


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (DRAFT, "cut off"),
        (DRAFT + b"\x01\x02", "cut off"),
        (DRAFT + b"\x01\x02\x80", "cut off"),
        (DRAFT + b"\x01\x82\x00\x03", "shortest form"),
        (DRAFT + b"\x01\x02\x83\x80\x80\x80\x80\x00", "shortest form"),
        (DRAFT + b"\x80" * 15 + b"\x00\x01\x02\x03", "cut off"),
        (DRAFT + b"\xff\xff\xff\xff\x10\x02\x03", "4294967295"),
        (DRAFT + U32_MAX + b"\x02\x81\x20", "4096"),
        (DRAFT + b"\x01\x02\x03" + bytes(f.MAX_RUNS_BYTES + 1), "length <= 2048"),
        (DRAFT + b"\x01\x02\x03" + bytes(20_000), "too many"),
        (DIGEST_DRAFT + b"\x01\x02", "cut off"),
        (DIGEST_DRAFT + DIGEST + b"\x01\x02", "cut off"),
        (HINT + b"\x01\x02\x03\x10\x50", "kind 2 goes this way"),
        (VERDICT + DIGEST + b"\x01\x02\x03\x07\x08\x09", "kind 3 goes this way"),
        (bytes([0xE0 | f.PROTOCOL_VERSION]) + b"\x01\x02\x03", "kind 6 goes this way"),
        (bytes([0xF0 | f.PROTOCOL_VERSION]), "kind 7 goes this way"),
        (bytes([0x80 | f.PROTOCOL_VERSION + 1]) + b"\x01\x02\x03", NEXT_VERSION),
    ],
)
def test_invalid_compact_frames_of_an_edge_are_refused_with_a_reason(payload, reason):
    with pytest.raises(ProtocolError, match=reason):
        decode_edge_frame(payload)


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (HINT + b"\x01\x02\x03\x10", "a number is missing"),
        (HINT + b"\x01\x02\x03\x10\x50\x80", "cut off"),
        (HINT + b"\x01\x02\x03\x10\x50\x81\x00", "shortest form"),
        (HINT + b"\x01\x02\x03\x10\x50\x80\x80\x80\x80\x80\x01", "shortest form"),
        (HINT + b"\x01\x02\x03\x80\x02\x50", "255"),
        (HINT + b"\x01\x02\x03\x10\x65", "100"),
        (HINT + b"\x01\x02\x03\x10\x50\x80\x80\x40", "1048575"),
        (HINT + b"\x01\x02\x03\x10\x50" + bytes(f.MAX_CHUNK_TOKENS + 1), "length <= 64"),
        (VERDICT + b"\x01\x02", "a number is missing"),
        (VERDICT + DIGEST + b"\x01\x02\x03\x07\x08", "a number is missing"),
        (VERDICT + DIGEST + b"\x01\x02\x03\x81\x20\x08\x09", "4096"),
        (VERDICT + DIGEST + b"\x01\x02\x03\x07\x08\x09" + bytes(f.MAX_NEW_TOKENS + 1), "length <= 4096"),
        (VERDICT + DIGEST + bytes(20_000), "too many"),
        (KEPT_VERDICT + DIGEST + b"\x01\x02\x03\x07\x08\x09\x05", "a number is missing"),
        (KEPT_VERDICT + DIGEST + b"\x01\x02\x03\x07\x08\x09\x05\x81\x20", "4096"),
        (DRAFT + b"\x01\x02\x03", "kind 0 goes this way"),
        (DIGEST_DRAFT + DIGEST + b"\x01\x02\x03", "kind 1 goes this way"),
        (bytes([0xB0]) + b"\x01\x02\x03", f"version 0, this side speaks {f.PROTOCOL_VERSION}: update"),
    ],
)
def test_invalid_compact_frames_of_a_cloud_are_refused_with_a_reason(payload, reason):
    with pytest.raises(ProtocolError, match=reason):
        decode_cloud_frame(payload)


@pytest.mark.lengthy
def test_damaged_frames_are_refused_or_are_what_they_spell():
    rng = random.Random(6)
    types = [kind for kind in FRAME_TYPES if kind.cls in COMPACT_FRAMES]
    refused, read = 0, Counter[bytes]()
    for _ in range(20_000):
        payload, other = (encode(valid_value(rng.choice(types), rng)) for _ in range(2))
        damage = damaged(payload, other, rng)
        for decode in (decode_edge_frame, decode_cloud_frame):
            try:
                assert encode(decode(damage)) == damage
                read[damage[:1]] += 1
            except ProtocolError:
                refused += 1
    assert refused > 20_000
    assert len(read) == len(KINDS) and min(read.values()) > 300


@given(st.integers(0, len(KINDS)), st.binary(max_size=40), st.sampled_from([b"", *HOSTILE_BYTES]))
def test_any_bytes_behind_a_first_byte_are_a_frame_or_a_protocol_error(kind_index, start, end):
    payload = bytes([0x80 | kind_index << 4 | f.PROTOCOL_VERSION]) + start + end
    for decode in (decode_edge_frame, decode_cloud_frame):
        try:
            assert encode(decode(payload)) == payload
        except ProtocolError as error:
            assert str(error).startswith("malformed frame: ")
