"""Which verifications join a batch, given the time that each adds and the tokens that each brings."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.decoding.cloud.batch_selection import Candidate, select_batch, select_drafting
from outrider.decoding.cloud.scheduler import BatchPrices
from outrider.decoding.policy.estimators import BatchTime
from outrider.decoding.tuning import DEFAULT_TUNING

STEP, SHORT, FULL = (Candidate(tokens, 0, can_wait=True) for tokens in (1.0, 1.7, 2.5))
UNDRAFTED = STEP._replace(next_chance=0.7, later_chance=0.7)


def joining(*arguments: Any) -> set[int]:
    return select_batch(*arguments)[0]


def light(size: int) -> float:
    """Return the time of a batch that hardly grows with the number of sessions."""
    return 0.02 + 0.0001 * size


def loaded(size: int) -> float:
    """Return the time of a batch to which every session adds the same."""
    return 0.001 + 0.003 * size


def test_all_sessions_join_if_larger_batches_take_no_longer():
    assert joining([STEP, FULL, SHORT, STEP], light) == {0, 1, 2, 3}


def test_under_load_short_drafts_wait_for_full_ones():
    assert joining([STEP, FULL, SHORT, FULL, STEP], loaded) == {1, 3}


def test_a_single_session_joins_and_equal_sessions_join_together():
    assert joining([STEP], loaded) == {0}
    assert joining([STEP] * 5, light) == set(range(5))
    assert joining([], loaded) == set()


def test_a_session_that_cannot_wait_joins():
    first = STEP._replace(can_wait=False)
    assert joining([first, FULL, STEP], loaded) == {0, 1}


def test_waiting_makes_a_session_worth_more():
    joins = [0 in joining([STEP._replace(left_out=count), FULL, FULL], loaded) for count in range(5)]
    assert joins == sorted(joins) and not joins[0] and joins[-1]


def test_a_batch_ends_before_an_expensive_slot():
    def stairs(size: int) -> float:
        return 0.02 if size <= 3 else 0.02 + 0.02 * (size - 3)

    assert joining([FULL] * 8, stairs) == {0, 1, 2}, "of equal candidates the first in order join"


@given(
    st.lists(
        st.builds(
            Candidate, st.floats(1.0, 9.0), st.integers(0, 9), st.booleans(), st.floats(0, 1), st.floats(0, 1)
        ),
        min_size=1,
    ),
    st.floats(1e-4, 1.0),
    st.floats(0.0, 1.0),
)
def test_at_least_one_session_joins_and_none_is_left_out_for_ever(candidates, base_s, added_s):
    chosen = joining(candidates, lambda size: base_s + added_s * size)
    assert chosen
    assert all(index in chosen for index, candidate in enumerate(candidates) if not candidate.can_wait)


def test_the_cloud_drafts_for_sessions_without_drafts_if_the_batch_has_room():
    def stairs(size: int) -> float:
        return 0.02 if size <= 3 else 0.02 + 0.02 * (size - 3)

    cheap, dear = (lambda size: 0.0006 * size), (lambda size: 0.02)
    assert joining([UNDRAFTED] * 3, stairs, DEFAULT_TUNING, cheap) == {0, 1, 2}
    chosen, price = select_batch([UNDRAFTED, FULL, FULL, FULL], stairs, DEFAULT_TUNING, cheap, 200.0)
    assert chosen == {1, 2, 3}, "drafts that cost the cloud nothing are verified first"
    assert price == pytest.approx(3 * (2.5 - DEFAULT_TUNING.slot_tokens) / 0.02)
    batch = {0: UNDRAFTED, 1: FULL, 2: UNDRAFTED._replace(next_chance=0.1)}
    assert select_drafting(batch, 200.0, cheap) == {0}, "0.1 tokens are less than the time is worth"
    assert select_drafting(batch, 20.0, cheap) == {0, 2}
    assert select_drafting(batch, 200.0, dear) == set()


def test_batch_times_are_interpolated_linearly_between_sizes():
    time = BatchTime()
    assert time.seconds(3) == time.seconds(30) > 0.0
    for size, seconds in ((2, 0.02), (4, 0.04), (8, 0.10)):
        time.add(size, seconds)
    assert [time.seconds(size) for size in (1, 2, 3, 6, 8, 20)] == pytest.approx(
        [0.02, 0.02, 0.03, 0.07, 0.10, 0.10]
    )


def test_the_time_of_a_text_alone_is_estimated_with_and_without_a_cloud_draft():
    prices = BatchPrices()
    prices.on_batch(1, 0, 0.02, whole=True)
    assert prices.part_alone == pytest.approx(1.0)
    prices.on_batch(8, 0, 0.08, whole=True)
    assert prices.part_alone == pytest.approx(0.25)


def test_a_size_that_was_slow_once_is_tried_again():
    time = BatchTime()
    time.add(5, 9.0)
    for _ in range(DEFAULT_TUNING.batch_window):
        time.add(4, 0.04)
    assert time.seconds(5) == pytest.approx(0.04)


def test_untimed_sizes_between_timed_ones_are_tried():
    time = BatchTime()
    for size, seconds in ((1, 0.02), (12, 0.045), (18, 0.052), (40, 0.2)):
        time.add(size, seconds)
    assert time.untimed_neighbour(18) == 17, "16 in the time of 12 are as fast as 18, and fewer are no gain"
    time.add(17, 0.0515)
    assert time.untimed_neighbour(18) == 29
    assert time.untimed_neighbour(12) == 9
    for size in range(1, 41):
        time.add(size, 0.02 + 0.001 * size)
    assert [time.untimed_neighbour(size) for size in (1, 12, 40)] == [1, 12, 40], "all is known"


def test_no_size_beyond_the_timed_ones_is_tried():
    time = BatchTime()
    for size, seconds in ((1, 3.0), (2, 0.01), (8, 0.05)):
        time.add(size, seconds)
    assert time.untimed_neighbour(2) == 5


def test_trials_find_a_step_in_the_time_by_batch_size():
    """A batch of 16 takes as long as a batch of one; at first only 12, 40 and 18 have been timed."""

    def stair(size: int) -> float:
        return 0.05 if size <= 16 else 0.06 + 0.006 * (size - 16)

    prices, sizes = BatchPrices(), [12, 40, 18]
    for size in sizes:
        prices.on_batch(size, 0, stair(size), whole=True)
    for _ in range(60):
        prices.on_batch(sizes[-1], 0, stair(sizes[-1]), whole=True)
        sizes.append(len(prices.choose([FULL] * 40).joining))
    assert 18 in sizes[3:10]
    assert all(15 <= size <= 18 for size in sizes[5:])
    assert sizes[-40:].count(16) >= 36


def test_no_other_size_is_tried_if_all_sessions_join():
    prices = BatchPrices()
    prices.on_batch(1, 0, 0.02, whole=True)
    prices.on_batch(8, 0, 0.03, whole=True)
    assert all(len(prices.choose([FULL] * 8).joining) == 8 for _ in range(50))
