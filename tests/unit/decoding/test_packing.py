"""Packed distributions unpack bit for bit; bytes that spell none raise ProtocolError and do no other harm."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from outrider.core.errors import ProtocolError
from outrider.core.varints import read_varints, skip_varints, write_varints
from outrider.decoding.acceptance import packing
from outrider.decoding.acceptance.counter_rng import CounterChance
from outrider.decoding.acceptance.packing import decode_varints, encode_varints
from outrider.decoding.acceptance.quantized import DRAFT_BITS, TARGET_BITS, counts_of, on_grid
from outrider.decoding.acceptance.sparse import SparseResidue, head_of, sparse_residue, tail_draws

VOCABULARY = 9
masses = st.sampled_from([0.0, 0.0, 1e-9, 1e-3, 0.2, 1.0])
rows = st.lists(masses, min_size=VOCABULARY, max_size=VOCABULARY).filter(any).map(torch.tensor)
target_rows = rows.map(lambda row: on_grid(row, TARGET_BITS))
draft_chunks = st.lists(rows, min_size=1, max_size=3).map(lambda rows: on_grid(torch.stack(rows), DRAFT_BITS))
residues = st.builds(
    lambda row, head, draws, seed: sparse_residue(row, 3, CounterChance(seed), head, draws),
    target_rows,
    st.integers(1, VOCABULARY),
    st.integers(0, 4),
    st.integers(0, 99),
)
whole_numbers = st.lists(st.integers(0, 2**35 - 1) | st.integers(0, 300), max_size=20)


def packed(*numbers):
    return encode_varints(np.array(numbers, dtype=np.int64))


@given(whole_numbers)
def test_varints_are_read_as_written(numbers):
    payload = packed(*numbers)
    assert payload == write_varints(numbers)
    assert decode_varints(payload).tolist() == read_varints(payload) == numbers
    assert len(payload) == sum(max(1, -(-number.bit_length() // 7)) for number in numbers)


@given(whole_numbers.filter(bool), st.binary(max_size=3))
def test_the_end_of_leading_varints_is_found(numbers, rest):
    payload = write_varints(numbers)
    assert skip_varints(b"?" + payload + rest, 1, len(numbers)) == 1 + len(payload)
    with pytest.raises(ProtocolError, match="cut off"):
        skip_varints(payload, 0, len(numbers) + 1)


def test_an_endless_varint_is_refused():
    """Reading it to its end would cost the square of its length."""
    digits = iter(b"\xff" * 1000)
    with pytest.raises(ProtocolError, match="shortest form"):
        read_varints(digits)
    assert len(list(digits)) == 995


def test_no_number_below_zero_is_written():
    with pytest.raises(ValueError):
        write_varints([3, -1])


@pytest.mark.parametrize("payload", [b"\x80", b"\x01\xff", b"\x80\x00", b"\x80\x80\x80\x80\x80\x01"])
def test_varints_have_one_spelling(payload):
    for decode in (decode_varints, read_varints):
        with pytest.raises(ProtocolError, match="packed number"):
            decode(payload)


@given(st.binary(max_size=12))
def test_a_few_numbers_are_read_as_many_are(payload):
    def understood(decode):
        try:
            return list(decode(payload))
        except ProtocolError:
            return None

    assert understood(read_varints) == understood(decode_varints)


@given(st.lists(st.integers(1, 1 << DRAFT_BITS), max_size=8))
def test_token_probabilities_are_packed_in_two_bytes_each(counts):
    probs = tuple(count * 2.0**-DRAFT_BITS for count in counts)
    payload = packing.pack_token_probs(probs)
    assert len(payload) == 2 * len(counts)
    assert packing.unpack_token_probs(payload, len(counts)) == probs
    with pytest.raises(ProtocolError, match="draft probabilities for"):
        packing.unpack_token_probs(payload, len(counts) + 1)


@pytest.mark.parametrize("prob", [0.0, -0.5, 1.5, 1e-9, float("nan")])
def test_a_token_of_probability_0_is_not_packed(prob):
    with pytest.raises(ValueError, match="draft_distribution"):
        packing.pack_token_probs([prob])


@given(draft_chunks)
def test_draft_rows_are_unpacked_unchanged(chunk):
    rows = packing.unpack_draft_rows(packing.pack_draft_rows(chunk), *chunk.shape)
    assert all(torch.equal(row.dense(), sent) for row, sent in zip(rows, chunk, strict=True))
    assert all(
        row.has(token) == bool(row.dense()[token] > 0.0) for row in rows for token in range(len(chunk[0]))
    )


@given(target_rows)
def test_a_target_row_is_unpacked_unchanged(row):
    assert torch.equal(packing.unpack_target_row(packing.pack_target_row(row), VOCABULARY), row)


@given(residues)
def test_a_residue_is_unpacked_unchanged(residue):
    assert packing.unpack_residue(packing.pack_residue(residue), VOCABULARY) == residue


@pytest.mark.lengthy
@given(target_rows, st.integers(1, VOCABULARY), st.integers(1, 4))
def test_a_refill_of_draws_is_unpacked_unchanged(row, num_head, count):
    residue = sparse_residue(row, 3, CounterChance(1), num_head, count)
    more = tail_draws(row, head_of(row, num_head), 3, CounterChance(1), residue.draws.end, count)
    both = tail_draws(row, head_of(row, num_head), 3, CounterChance(1), 0, 2 * count)
    assert residue.draws.ids + more.ids == both.ids
    refill = replace(residue, draws=more)
    assert packing.unpack_residue(packing.pack_residue(refill), VOCABULARY) == refill


def test_a_large_vocabulary_is_compact():
    logits = torch.randn(151_936, generator=torch.Generator().manual_seed(0)) * 3
    dense = on_grid(torch.softmax(logits.double(), 0), TARGET_BITS)
    assert len(packing.pack_target_row(dense)) < 2 * 151_936
    nucleus = torch.zeros_like(dense)
    nucleus[logits.topk(20).indices] = 0.05
    assert len(packing.pack_target_row(on_grid(nucleus, TARGET_BITS))) < 20 * 9
    assert len(packing.pack_residue(sparse_residue(dense, 0, CounterChance(0), 32, 8))) < 40 * 8


HALF, FULL = 1 << TARGET_BITS - 1, 1 << DRAFT_BITS


@pytest.mark.parametrize(
    ("numbers", "reason"),
    [
        ((), "cut off"),
        ((2, 0, 0, HALF), "cut off"),
        ((2, 0, 0, HALF, HALF, 1), "more bytes"),
        ((2, 0, 0, HALF, HALF - 1), "sums to"),
        ((1, 0, 1), "sums to"),
        ((2, 0, 8, HALF, HALF), "token 9 is not in the vocabulary"),
        ((2, 0, 2**34, HALF, HALF), "not in the vocabulary"),
        ((10, *[0] * 10, *[1] * 10), "10 tokens with mass"),
        ((3, 0, 0, 0, HALF, HALF, 0), "probability 0"),
        ((0, HALF, HALF), "cut off"),
        ((0, *[0] * VOCABULARY), "sums to 0"),
    ],
)
def test_a_false_distribution_is_refused_with_a_reason(numbers, reason):
    with pytest.raises(ProtocolError, match=reason):
        packing.unpack_target_row(packed(*numbers), VOCABULARY)


@pytest.mark.parametrize(
    ("numbers", "reason"),
    [
        ((1, 0, FULL), "sums to 0, not"),
        ((2, 0, 0, FULL, FULL), "sums to 2, not"),
        ((2, 0, 2 * VOCABULARY, FULL, FULL), "token 19 is not in the vocabulary of 18"),
        ((2, 0, VOCABULARY - 1, FULL, FULL, 1), "more bytes"),
    ],
)
def test_each_of_several_distributions_must_be_one(numbers, reason):
    with pytest.raises(ProtocolError, match=reason):
        packing.unpack_draft_rows(packed(*numbers), 2, VOCABULARY)


def test_distributions_lie_end_to_end():
    rows = packing.unpack_draft_rows(packed(2, 0, VOCABULARY - 1, FULL, FULL), 2, VOCABULARY)
    assert rows[0].dense()[0] == rows[1].dense()[0] == 1.0
    assert packing.unpack_draft_rows(b"", 0, VOCABULARY) == ()
    with pytest.raises(ProtocolError, match="more bytes"):
        packing.unpack_draft_rows(packed(1), 0, VOCABULARY)


@pytest.mark.parametrize("num_rows", [1, 64, 4096])
def test_few_bytes_take_little_memory_whatever_the_vocabulary(num_rows):
    size = 151_936
    row = torch.zeros(1, size, dtype=torch.float64)
    row[0, 7] = 1.0
    one = packing.pack_draft_rows(row)
    gaps = [7, *[size - 1] * (num_rows - 1)]
    payload = packed(num_rows, *gaps, *[FULL] * num_rows)
    assert num_rows > 1 or payload == one
    tracemalloc.start()
    rows = packing.unpack_draft_rows(payload, num_rows, size)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(rows) == num_rows and all(row.has(7) and not row.has(8) for row in rows)
    assert peak < 200_000 + 2_000 * num_rows


@pytest.mark.parametrize(
    ("numbers", "reason"),
    [
        ((2, 0, 0, HALF, HALF + 1, 0, 0), "mass above 1"),
        ((1, 4, HALF, 0, 1, 4, 1), "in the head"),
        ((1, 4, HALF, 0, 1, 9, 1), "token 9 is not in the vocabulary"),
        ((1, 4, HALF, 0, 1, 3, HALF + 1), "tail's mass"),
        ((1, 4, HALF, 0, 2, 3, 2, HALF, 1), "tail's mass"),
        ((1, 4, HALF, 0, 2, 3, 3, 5, 6), "tail's mass"),
        ((1, 4, HALF, 0, 1, 3, 0), "probability 0"),
        ((1, 4, 2 * HALF, 0, 1, 3, 1), "tail's mass"),
        ((1, 4, HALF, 0, 3, 3), "cut off"),
    ],
)
def test_a_false_residue_is_refused_with_a_reason(numbers, reason):
    with pytest.raises(ProtocolError, match=reason):
        packing.unpack_residue(packed(*numbers), VOCABULARY)


def test_a_repeated_draw_is_no_falsehood():
    residue = packing.unpack_residue(packed(1, 4, HALF, 6, 3, 3, 3, 2, HALF - 1, HALF - 1, 1), VOCABULARY)
    assert residue.draws.first == 6
    assert residue.draws.ids == (3, 3, 2)


def is_distribution(row):
    counts_of(row, TARGET_BITS)
    return len(row) == VOCABULARY


def is_residue(residue):
    assert isinstance(residue, SparseResidue)
    assert list(residue.head_ids) == sorted(set(residue.head_ids))
    assert all(0.0 < prob <= 1.0 for prob in residue.head_probs + residue.draws.probs)
    assert 0.0 <= residue.tail_mass <= 1.0
    return all(0 <= token < VOCABULARY for token in residue.head_ids + residue.draws.ids)


def harmless(unpack, check, payload):
    """Check that `unpack` returns a valid value or raises ProtocolError."""
    try:
        value = unpack(payload)
    except ProtocolError:
        return
    assert check(value)


mutations = st.lists(st.tuples(st.integers(0, 80), st.integers(0, 255)), min_size=1, max_size=3)


def mutated(payload, changes, cut):
    changed = bytearray(payload)
    for place, byte in changes:
        changed[place % len(changed)] = byte
    return bytes(changed[: len(changed) - cut])


@pytest.mark.lengthy
@given(target_rows, residues, mutations, st.integers(0, 2))
def test_mutated_bytes_are_harmless(row, residue, changes, cut):
    payload = mutated(packing.pack_target_row(row), changes, cut)
    harmless(lambda payload: packing.unpack_target_row(payload, VOCABULARY), is_distribution, payload)
    payload = mutated(packing.pack_residue(residue), changes, cut)
    harmless(lambda payload: packing.unpack_residue(payload, VOCABULARY), is_residue, payload)


@given(st.binary(max_size=60))
def test_arbitrary_bytes_are_harmless(payload):
    harmless(lambda payload: packing.unpack_target_row(payload, VOCABULARY), is_distribution, payload)
    harmless(lambda payload: packing.unpack_residue(payload, VOCABULARY), is_residue, payload)
    harmless(
        lambda payload: packing.unpack_draft_rows(payload, 2, VOCABULARY),
        lambda rows: len(rows) == 2,
        payload,
    )
