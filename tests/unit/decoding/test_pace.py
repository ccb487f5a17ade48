"""The cloud's policy: how much of a draft to verify, when to wait for one, when to step alone."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.decoding.pace import Pace
from outrider.decoding.tuning import DEFAULT_TUNING
from outrider.decoding.waiting import Reason

STEP_S = 0.05


def pace(
    accepted: int,
    delay_s: float | None = None,
    verify_s: float = STEP_S,
    drafted: int = 4,
    reason: Reason = "surprise",
) -> Pace:
    """After 60 chunks of which so many tokens stood each, and 20 drafts that came so long after a verdict."""
    policy = Pace()
    policy.on_verified(0, STEP_S)
    for _ in range(60):
        policy.on_verified(drafted, verify_s)
        policy.on_draft_judged(accepted, accepted < drafted)
    for number in range(20 if delay_s is not None else 0):
        policy.on_starved(reason, 10.0 * number, stepped=False)
        policy.on_draft(10.0 * number + delay_s)
    policy.on_starved(reason, 1000.0, stepped=False)
    return policy


def test_it_never_waits_without_evidence():
    fresh = Pace()
    assert fresh.wait_until_s(5.0) == 5.0
    fresh.on_starved("hinted", 4.0, stepped=False)
    assert fresh.wait_until_s(5.0) == 5.0
    assert pace(4).wait_until_s(1000.0) == 1000.0, "no draft has ever come after a surprise"
    stepless = Pace()
    stepless.on_verified(4, STEP_S)
    stepless.on_draft_judged(4, False)
    stepless.on_starved("surprise", 0.0, stepped=False)
    stepless.on_draft(0.01)
    stepless.on_starved("surprise", 1.0, stepped=False)
    assert stepless.wait_until_s(1.0) == 1.0


@pytest.mark.parametrize("reason", ["hinted", "alive", "surprise"])
@pytest.mark.parametrize("goes_on", ["starved", "fed"])
def test_it_learns_that_waiting_is_in_vain_and_that_it_no_longer_is(reason, goes_on):
    policy = pace(4, 0.02, reason=reason)
    assert policy.wait_until_s(1000.0) > 1000.0
    for number in range(30):
        at_s = 2000.0 + number
        policy.on_starved(reason, at_s, stepped=False)
        if goes_on == "fed":
            policy.on_fed()
            policy.on_draft(at_s + 0.03)  # too late to count
    policy.on_starved(reason, 3000.0, stepped=False)
    assert policy.wait_until_s(3000.0) == 3000.0
    for number in range(30):
        policy.on_draft(3000.02 + number)
        policy.on_starved(reason, 3001.0 + number, stepped=False)
    assert policy.wait_until_s(3030.0) == pytest.approx(3030.0 + 0.02 + DEFAULT_TUNING.late_steps * STEP_S)


def test_what_was_in_vain_for_one_reason_says_nothing_of_another():
    policy = pace(4, 0.02, reason="hinted")
    for number in range(30):
        policy.on_starved("surprise", 2000.0 + number, stepped=False)
    policy.on_starved("hinted", 3000.0, stepped=False)
    assert policy.wait_until_s(3000.0) > 3000.0


@pytest.mark.parametrize("reason", ["hinted", "alive", "surprise"])
def test_it_waits_where_waiting_pays_and_not_for_ever(reason):
    waiting = pace(4, 0.02, reason=reason)
    until_s = waiting.wait_until_s(1000.0)
    assert until_s == pytest.approx(1000.0 + 0.02 + DEFAULT_TUNING.late_steps * STEP_S)
    assert waiting.wait_until_s(until_s + 1e-3) <= until_s + 1e-3


def test_a_step_taken_meanwhile_does_not_delay_the_answer_to_a_surprise():
    policy = pace(4, 0.07)
    assert policy.wait_until_s(1000.0) == 1000.0, "a step fits in before the draft comes"
    policy.on_starved("surprise", 1000.0 + STEP_S, stepped=True)
    until_s = 1000.0 + 0.07 + DEFAULT_TUNING.late_steps * STEP_S
    assert policy.wait_until_s(1000.0 + STEP_S) == pytest.approx(until_s)
    policy.on_starved("surprise", until_s + STEP_S, stepped=True)
    assert policy.wait_until_s(until_s + STEP_S) == until_s + STEP_S, "overdue: begin anew"


def test_a_hint_on_a_step_is_news_of_its_own():
    policy = pace(4, 0.02, reason="hinted")
    policy.on_starved("surprise", 2000.0, stepped=False)
    policy.on_starved("hinted", 2000.01, stepped=True)
    assert policy.wait_until_s(2000.01) == pytest.approx(2000.01 + 0.02 + DEFAULT_TUNING.late_steps * STEP_S)


def test_each_reason_has_delays_of_its_own():
    policy = pace(4, 0.02, reason="hinted")
    policy.on_starved("surprise", 2000.0, stepped=False)
    assert policy.wait_until_s(2000.0) == 2000.0


@pytest.mark.parametrize(("accepted", "delay_s"), [(0, 0.02), (4, 0.5), (0, 0.5)])
@pytest.mark.parametrize("reason", ["hinted", "alive", "surprise"])
def test_it_steps_where_drafts_are_wrong_or_late(accepted, delay_s, reason):
    assert pace(accepted, delay_s, reason=reason).wait_until_s(1000.0) <= 1000.0


def test_it_does_not_wait_where_a_draft_lies_there():
    for news in (lambda policy: policy.on_draft(1000.01), lambda policy: policy.on_fed()):
        policy = pace(4, 0.02)
        news(policy)
        assert policy.wait_until_s(1000.02) == 1000.02


def test_a_new_text_is_not_late():
    """The time between two texts says nothing about how long drafts take."""
    policy = pace(4, 0.02)
    policy.begin_text()
    policy.on_draft(2000.0)
    policy.on_starved("surprise", 2001.0, stepped=False)
    assert policy.wait_until_s(2001.0) == pytest.approx(2001.0 + 0.02 + DEFAULT_TUNING.late_steps * STEP_S)


def test_how_much_of_a_draft_is_verified_depends_on_what_stood():
    assert pace(4, verify_s=0.06).chunk_length(4) == 4
    assert pace(4, verify_s=0.06).chunk_length(2) == 2
    assert pace(0, verify_s=0.06).chunk_length(4) == 0
    assert pace(4, verify_s=1.0).chunk_length(4) == 0, "a chunk must not cost more than its tokens as steps"
    assert Pace().chunk_length(3) == 3
    assert pace(4).chunk_length(0) == 0


def test_long_chunks_are_cut_where_their_end_does_not_pay():
    policy = Pace()
    policy.on_verified(0, STEP_S)
    for _ in range(100):
        policy.on_verified(8, 0.12)
        policy.on_draft_judged(1, True)
        policy.on_verified(2, 0.055)
        policy.on_draft_judged(1, True)
    assert 1 <= policy.chunk_length(8) <= 5


def test_drafts_that_became_right_are_noticed_while_stepping():
    policy = pace(0, verify_s=0.06)
    assert policy.chunk_length(4) == 0
    for _ in range(200):
        policy.on_stepped_beside(True)
    assert policy.chunk_length(4) == 4
    for _ in range(200):
        policy.on_stepped_beside(False)
    assert policy.chunk_length(4) == 0


times = st.floats(1e-4, 2.0)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8), times), max_size=20),
    st.lists(st.tuples(st.sampled_from(["hinted", "alive", "surprise"]), times), max_size=5),
    st.integers(0, 8),
)
def test_whatever_it_has_seen_its_answers_are_sane(verified, delays, offered):
    policy = Pace()
    for drafted, accepted, compute_s in verified:
        policy.on_verified(drafted, compute_s)
        policy.on_draft_judged(min(drafted, accepted), accepted < drafted)
    for reason, delay_s in delays:
        policy.on_starved(reason, 0.0, stepped=False)
        policy.on_draft(delay_s)
    policy.on_starved("hinted", 100.0, stepped=False)
    assert 0 <= policy.chunk_length(offered) <= offered
    longest_s = max((delay_s for _, delay_s in delays), default=0.0)
    assert policy.wait_until_s(101.0) <= 101.0 + longest_s + 2.0
