"""Estimates: what both sides learn from what they observe."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.decoding.policy.estimators import (
    AcceptanceRates,
    CalibratedAcceptance,
    Deviation,
    ExponentialMean,
    MinRtt,
    SteadyAcceptance,
    Throughput,
)
from outrider.decoding.tuning import DEFAULT_TUNING, AdaptiveTuning

steady = settings(max_examples=100, deadline=None, derandomize=True)


def test_acceptance_rates_start_from_their_priors():
    acceptance = CalibratedAcceptance(AdaptiveTuning(acceptance_priors=(0.8, 0.5)))
    assert [acceptance.rate(rank) for rank in range(3)] == pytest.approx([0.8, 0.5, 0.0])
    assert [acceptance.chance(rank, 0.9) for rank in range(3)] == pytest.approx([0.8, 0.2 * 0.5, 0.0])


@pytest.mark.parametrize(("outcome", "rates"), [(0, (1, 0.5)), (1, (0, 1)), (None, (0, 0))])
def test_acceptance_rates_follow_the_outcomes(outcome, rates):
    """A choice that was not reached, because an earlier one was right, learns nothing."""
    acceptance = AcceptanceRates(AdaptiveTuning(acceptance_priors=(0.8, 0.5)))
    for _ in range(200):
        acceptance.on_outcome(outcome)
    assert [acceptance.rate(rank) for rank in range(2)] == pytest.approx(rates, abs=0.01)


def steady_acceptance(*rates: float) -> SteadyAcceptance:
    """Return an estimate after 100 tokens at each rate, evenly spread."""
    acceptance = SteadyAcceptance()
    for rate in rates:
        for count in range(100):
            acceptance.on_outcome(0 if int((count + 1) * rate) > int(count * rate) else None)
    return acceptance


@pytest.mark.parametrize("rate", [0.05, 0.5, 0.8])
def test_the_steady_rate_converges(rate):
    assert steady_acceptance(rate, rate).rate() == pytest.approx(rate, abs=0.06)


@pytest.mark.parametrize(("before", "right"), [(0.8, False), (0.05, True)])
def test_a_change_is_noticed_within_some_tokens(before, right):
    acceptance = steady_acceptance(before)
    for _ in range(8):
        acceptance.on_outcome(0 if right else None)
    assert abs(acceptance.rate() - right) < 0.35


def test_a_deviation_is_that_of_recent_values():
    deviation = Deviation(memory=0.97, guess=0.8)
    assert deviation.value == pytest.approx(0.8)
    for _ in range(300):
        deviation.add(2.0)
    assert deviation.value < 0.05
    for count in range(300):
        deviation.add(1.0 + 2.0 * (count % 2))
    assert deviation.value == pytest.approx(1.0, abs=0.05)


def test_a_restarted_rate_is_the_recent_one_and_never_higher():
    acceptance = steady_acceptance(0.9)
    before = acceptance.rate()
    acceptance.begin_anew()
    assert acceptance.rate() <= before
    for _ in range(4):
        acceptance.on_outcome(None)
    acceptance.begin_anew()
    assert acceptance.rate() < 0.5


def test_acceptance_rates_of_a_mixture_are_its_shares():
    acceptance = AcceptanceRates(AdaptiveTuning(acceptance_priors=(0.5, 0.5)))
    for _ in range(300):
        for outcome in (0, 0, 1, None):
            acceptance.on_outcome(outcome)
    assert acceptance.rate(0) == pytest.approx(0.5, abs=0.05)
    assert acceptance.rate(1) == pytest.approx(0.5, abs=0.05)


def test_chances_depend_on_the_drafts_confidence():
    acceptance = CalibratedAcceptance()
    for _ in range(200):
        acceptance.on_verdict(0, confidence=0.99)
        acceptance.on_verdict(1, confidence=0.3)
    assert acceptance.chance(0, 0.97) == pytest.approx(1.0, abs=0.1)
    assert acceptance.chance(0, 0.2) == pytest.approx(0.0, abs=0.1)
    assert acceptance.chance(1, 0.2) > 0.8 > 0.1 > acceptance.chance(1, 0.97)
    assert acceptance.chance(0, 0.7) == pytest.approx(acceptance.rate()), "never seen: as all drafts"


@steady
@given(st.lists(st.tuples(st.sampled_from([0, 1, 2, None]), st.floats(0.0, 1.0)), max_size=200))
def test_chances_are_chances(outcomes):
    acceptance = CalibratedAcceptance()
    for outcome, confidence in outcomes:
        acceptance.on_verdict(outcome, confidence)
    chances = [acceptance.chance(rank, 0.9) for rank in range(4)]
    assert all(0.0 <= chance <= 1.0 for chance in chances)
    assert sum(chances) <= 1.0 + 1e-9


def test_throughput_is_recent_and_excludes_the_time_between_texts():
    speed = Throughput()
    assert speed.value == 0.0
    for number in range(5):
        speed.on_commit(2, 10.0 + number)
    speed.begin_text()
    for number in range(5):
        speed.on_commit(2, 500.0 + number)
    assert speed.value == pytest.approx(2.0)
    for number in range(300):
        speed.on_commit(1, 505.0 + number)
    assert speed.value == pytest.approx(1.0, abs=0.01)


def test_a_mean_is_unknown_then_exact_then_forgetful():
    mean = ExponentialMean()
    assert (mean.known, mean.value) == (False, 0.0)
    mean.add(3.0)
    assert (mean.known, mean.value) == (True, 3.0)
    for _ in range(50):
        mean.add(7.0)
    assert mean.value == pytest.approx(7.0, abs=0.01)


def test_a_round_trip_is_the_least_of_the_recent_without_the_compute():
    round_trip = MinRtt()
    assert round_trip.value == 0.0
    for elapsed_s in (0.5, 0.3, 0.9):
        round_trip.add(elapsed_s, 0.1)
    assert round_trip.value == pytest.approx(0.2)
    for _ in range(DEFAULT_TUNING.round_trip_window):
        round_trip.add(1.1, 0.1)
    assert round_trip.value == pytest.approx(1.0), "a link that became slower is followed"
    round_trip.add(0.1, 0.2)
    assert round_trip.value == 0.0, "never negative"
