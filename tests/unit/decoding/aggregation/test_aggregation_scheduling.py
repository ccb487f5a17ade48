"""The scheduler's formulas: eq. 8 is eq. 7's difference between the sides, and selects its arg min."""

from __future__ import annotations

import itertools

import pytest

from outrider.decoding.aggregation.scheduling import (
    Profile,
    gain_of_switching,
    next_aggregator,
    token_s,
)

TIMES = (0.0, 0.005, 0.02, 0.05, 0.13, 0.4)
RATES = (0.0, 0.3, 0.5, 0.8, 1.0)
GRID = list(itertools.product(TIMES, TIMES, TIMES, RATES, RATES))


def test_equation_8_is_the_difference_of_equation_7():
    for local_s, remote_s, trip_s, local_rate, remote_rate in GRID:
        here_s = token_s(local_s, remote_s, trip_s, remote_rate)
        there_s = token_s(remote_s, local_s, trip_s, local_rate)
        gain_s = gain_of_switching(local_s, remote_s, trip_s, local_rate, remote_rate)
        assert gain_s == pytest.approx(here_s - there_s, abs=1e-12)


def profile_of(device_s, cloud_s, trip_s, device_rate, cloud_rate):
    profile = Profile()
    profile.round_trip_s = trip_s
    for side, seconds, rate in (("device", device_s, device_rate), ("cloud", cloud_s, cloud_rate)):
        profile.on_decoded(side, seconds)
        for index in range(1000):
            profile.on_outcome(side, int((index + 1) * rate) > int(index * rate))
    return profile


@pytest.mark.lengthy
@pytest.mark.parametrize("now", ["device", "cloud"])
def test_the_side_chosen_is_the_arg_min_of_equation_7(now):
    decided = 0
    for device_s, cloud_s, trip_s, device_rate, cloud_rate in GRID[::7]:
        profile = profile_of(device_s, cloud_s, trip_s, device_rate, cloud_rate)
        at_device_s = token_s(device_s, cloud_s, trip_s, cloud_rate)
        at_cloud_s = token_s(cloud_s, device_s, trip_s, device_rate)
        chosen = next_aggregator("scheduled", now, profile, 0, 0)
        if abs(at_device_s - at_cloud_s) > 0.06 * trip_s + 0.006:  # beyond the error of measured rates
            assert chosen == ("device" if at_device_s < at_cloud_s else "cloud")
            decided += 1
    assert decided > 100


def test_a_few_lucky_tokens_do_not_switch_the_aggregator():
    profile = profile_of(0.1, 0.01, 0.6, 0.0, 0.0)
    few = Profile()
    few.round_trip_s = 0.6
    for side, seconds in (("device", 0.1), ("cloud", 0.01)):
        few.on_decoded(side, seconds)
    for accepted in (True, True, False):
        few.on_outcome("device", True)
        few.on_outcome("cloud", accepted)
    assert few.rate("device") > few.rate("cloud")
    assert next_aggregator("scheduled", "device", few, 0, 0) == "device"
    assert profile.gain_of_leaving("device") < 0.0


def test_fixed_and_random_policies():
    profile = profile_of(0.1, 0.01, 0.5, 0.5, 0.5)
    assert next_aggregator("device", "cloud", profile, 0, 0) == "device"
    assert next_aggregator("cloud", "device", profile, 0, 0) == "cloud"
    chosen = [next_aggregator("random", "device", profile, 3, position) for position in range(200)]
    assert 60 < chosen.count("cloud") < 140
    assert chosen == [next_aggregator("random", "cloud", profile, 3, position) for position in range(200)]


@pytest.mark.parametrize(
    ("local_s", "speedup"), [(0.1, 1 / (1 - 0.8 / (1 + 0.2 / 0.3))), (0.3, 1 / (1 - 0.4 * 0.8)), (0.6, 1.0)]
)
def test_theorem_3(local_s: float, speedup: float) -> None:
    slow_s = token_s(local_s, 0.2, 0.3, 0.0)
    assert slow_s / token_s(local_s, 0.2, 0.3, 0.8) == pytest.approx(speedup)


def test_a_synchronised_token_takes_both_sides_and_the_link():
    assert token_s(0.1, 0.2, 0.3, 0.0) == pytest.approx(0.5)
