"""sd.npu's schedule: loads are hidden behind computation, begin late, and never touch a computing block."""

from __future__ import annotations

import pytest

from outrider.models.onnx.schedule import (
    CAUTION,
    Profile,
    plan_switch,
    prefers_decode,
    reload_exposed_s,
)


def profile(load_s: float, chunk_s: float = 1.0, decode_factor: float = 2.0, num_blocks: int = 6) -> Profile:
    return Profile(
        (load_s,) * num_blocks,
        (load_s,) * num_blocks,
        (chunk_s,) * num_blocks,
        (decode_factor * chunk_s,) * num_blocks,
    )


@pytest.mark.parametrize("load_s", [0.3, 1.0, 1.9, 3.5])
@pytest.mark.parametrize("num_chunks", [2, 4, 8])
def test_a_load_is_hidden_whole_and_its_block_left_alone(load_s: float, num_chunks: int) -> None:
    times = profile(load_s)
    switched: set[int] = set()
    previous = -1
    for load in plan_switch(times, num_chunks):
        steps = range(load.first, load.last + 1)
        assert load.first > previous and load.last < num_chunks * 6
        assert load.block not in {step % 6 for step in steps}
        spent_s = sum(2.0 if step % 6 in switched else 1.0 for step in steps)
        assert spent_s >= load_s
        assert CAUTION * load_s > spent_s - 2.0, "no step more than it takes"
        switched.add(load.block)
        previous = load.last
    if load_s <= 1.0 or num_chunks > 2:
        assert len(switched) == 6


def test_the_figure_of_the_paper() -> None:
    """Six blocks, two chunks, a load as long as two blocks: all are switched within the two chunks."""
    loads = plan_switch(profile(2.0 / CAUTION, decode_factor=1.0), 2)
    assert [load.block for load in loads][:2] == [5, 4]
    assert {load.last - load.first for load in loads} == {1}
    assert {load.block for load in loads} == set(range(6))


def test_the_switch_begins_no_earlier_than_it_must() -> None:
    times = profile(0.5)
    assert plan_switch(times, 10)[0].first == plan_switch(times, 3)[0].first + 7 * 6


def test_what_cannot_be_hidden_is_not_planned() -> None:
    assert plan_switch(profile(100.0), 2) == ()
    assert plan_switch(profile(0.1, num_blocks=1), 4) == ()


def test_reloading_pays_for_long_prompts_only() -> None:
    times = profile(2.0)
    assert reload_exposed_s(times) == pytest.approx(6 * 2.0 + 1.0 - 6.0)
    assert prefers_decode(times, 1)
    assert not prefers_decode(times, 8)
