"""How many drafts are verified beside one: what they yield against the time that they take."""

from __future__ import annotations

from outrider.decoding.policy.session_estimates import SessionEstimates
from outrider.decoding.tuning import DEFAULT_TUNING


def paced(rate_of: int = 3, wide_s: float | None = None) -> SessionEstimates:
    """Of drafts of 4 so many tokens stood; a forward of 4 takes as long as a step, one of 20 `wide_s`."""
    one = SessionEstimates()
    one.on_verified(0, 0.05)
    for _ in range(50):
        one.on_verified(4, 0.05)
        one.on_draft_judged(rate_of, rate_of < 4)
        if wide_s is not None:
            one.on_verified(4, wide_s, 16)
    return one


def test_nothing_is_verified_beside_a_draft_before_both_times_are_known():
    assert SessionEstimates().num_beside(4, [(0, 4)]) == 0
    fresh = SessionEstimates()
    fresh.on_verified(0, 0.05)
    assert fresh.num_beside(4, [(0, 4)]) == 0


LEAVES = [(0, 4), (1, 4), (2, 4)]


def test_what_takes_no_longer_pays():
    assert paced().num_beside(4, LEAVES) == 3
    assert paced(wide_s=0.05).num_beside(4, LEAVES) == 3


def test_what_takes_long_does_not_pay():
    assert paced(wide_s=0.2).num_beside(4, LEAVES) < 3
    assert paced(wide_s=0.06).num_beside(4, LEAVES) == paced(wide_s=0.05).num_beside(4, LEAVES)


def test_what_drafts_beside_another_take_says_nothing_of_a_draft_as_long():
    """A draft that is too long for one forward takes two."""
    one = paced(4)
    one.on_verified(12, 0.2)
    for _ in range(20):
        one.on_verified(4, 0.05, 8)
    assert one.chunk_length(12) < 12
    assert one.num_beside(4, [(0, 7)]) == 1


def test_what_seldom_stands_pays_less():
    lucky, unlucky = paced(wide_s=0.06), paced(wide_s=0.06)
    for _ in range(200):
        lucky.on_second_judged(True)
        unlucky.on_second_judged(False)
    assert (lucky.num_beside(4, [(0, 15)]), unlucky.num_beside(4, [(0, 15)])) == (1, 0)
    assert paced(1, wide_s=0.06).num_beside(4, [(3, 15)]) == 0, "the text seldom comes that far"


def test_the_first_of_a_text_tells_no_time_for_it_brings_the_prompt_there():
    one = paced()
    one.on_verified(4, 0.5, 5)
    assert one.num_beside(4, LEAVES) == 3
    one.on_verified(4, 0.5, 5)
    assert one.num_beside(4, LEAVES[:1]) == 0
    other = paced(wide_s=0.05)
    other.begin_text()
    other.on_verified(4, 0.5, 5)
    assert other.num_beside(4, LEAVES) == 3


def test_a_hiccup_is_forgotten():
    one = paced(wide_s=0.05)
    one.on_verified(4, 0.5, 5)
    assert one.num_beside(4, LEAVES[:1]) == 0
    for _ in range(DEFAULT_TUNING.forward_window):
        one.on_verified(4, 0.05)
    assert one.num_beside(4, LEAVES[:1]) == 1


def test_of_drafts_that_leave_at_one_place_one_can_stand():
    dear = paced(wide_s=0.06)
    alone, twice, apart = [(1, 15)], [(1, 15), (1, 15)], [(0, 15), (1, 15)]
    dear.on_verified(4, 0.065, 32)
    assert dear.num_beside(4, alone) == dear.num_beside(4, twice) == 1
    assert dear.num_beside(4, apart) == 2
    assert paced(wide_s=0.05).num_beside(4, twice) == 2, "where it costs nothing it may"
