"""Branches as bytes: packed runs unpack unchanged, and all other bytes are refused."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.core.errors import ProtocolError
from outrider.core.frames import MAX_VOCABULARY
from outrider.decoding.protocol.branch_codec import Run, pack_runs, unpack_runs

token_ids = st.integers(0, MAX_VOCABULARY - 1)
steady = settings(max_examples=200, deadline=None, derandomize=True)


@st.composite
def valid_runs(draw):
    """Draw runs that never go back beyond their parent."""
    depth, runs = 0, []
    for _ in range(draw(st.integers(0, 5))):
        back = draw(st.integers(0, depth))
        tokens = tuple(draw(st.lists(token_ids, min_size=1, max_size=6)))
        depth += len(tokens) - back
        runs.append(Run(back, tokens, draw(st.booleans())))
    return tuple(runs)


@steady
@given(valid_runs())
def test_packed_runs_are_unpacked_unchanged(runs):
    assert unpack_runs(pack_runs(runs)) == runs


def test_a_long_run_is_split_into_consecutive_runs():
    tokens = tuple(range(100))
    unpacked = unpack_runs(pack_runs([Run(0, (7, 8)), Run(2, tokens, True)]))
    assert unpacked[:2] == (Run(0, (7, 8)), Run(2, tokens[:15], True))
    assert [(back, preferred) for back, _, preferred in unpacked[2:]] == [(0, False)] * 6
    assert sum((run.tokens for run in unpacked[1:]), ()) == tokens


@pytest.mark.lengthy
@steady
@given(valid_runs(), st.integers(0, 40), st.binary(max_size=3), st.integers(0, 3))
def test_mutated_bytes_are_runs_spelled_exactly_so_or_a_protocol_error(runs, at, inserted, removed):
    packed = pack_runs(runs)
    mutated = packed[:at] + inserted + packed[at + removed :]
    try:
        understood = unpack_runs(mutated)
    except ProtocolError:
        return
    assert pack_runs(understood) == mutated
    depth = 0
    for back, tokens, _ in understood:
        assert back <= depth
        depth += len(tokens) - back


@pytest.mark.parametrize(
    ("packed", "why"),
    [
        (b"\x00", "empty run"),
        (b"\x02\x05", "cut short"),
        (b"\x01", "cut short"),
        (b"\x01\x85", "cut off"),
        (b"\x01\x85\x00", "shortest form"),
        (b"\x01\xff\xff\xff\xff\xff\x01", "shortest form"),
        (b"\x21\x05", "beyond its parent"),
        (b"\x01\x05\x41\x06", "beyond its parent"),
    ],
)
def test_malformed_runs_are_refused_with_a_reason(packed, why):
    with pytest.raises(ProtocolError, match=why):
        unpack_runs(packed)


def test_a_token_costs_two_bytes_and_a_branch_one_more():
    assert len(pack_runs([Run(0, (16_383,) * 4)])) == 1 + 2 * 4
    assert len(pack_runs([Run(0, (16_383,) * 4), Run(3, (300, 301), True)])) == 1 + 2 * 4 + 1 + 2 * 2
