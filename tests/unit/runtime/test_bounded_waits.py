"""Waits on a robot's clock: how time counts when a simulation is slow, fast or stopped."""

from __future__ import annotations

import pytest

from outrider.runtime.mission.bounded_waits import Patience


@pytest.mark.parametrize(
    ("pace", "spent_s"),
    [(1.0, 10.0), (0.4, 4.0), (0.02, 1.0), (0.0, 1.0), (8.0, 10.0)],
    ids=["real time", "slow", "slower than waits stretch", "stands still", "fast"],
)
def test_a_patience_is_of_the_slower_clock_and_does_not_last_for_ever(pace: float, spent_s: float) -> None:
    real_s = [500.0]
    patience = Patience(lambda: 7.0 + pace * (real_s[0] - 500.0), lambda: real_s[0])
    assert patience.spent_s() == 0.0
    real_s[0] += 10.0
    assert patience.spent_s() == pytest.approx(spent_s)


def test_a_clock_that_begins_late_or_is_set_back_spends_no_more_than_real_time() -> None:
    clock_s, real_s = [0.0], [0.0]
    patience = Patience(lambda: clock_s[0], lambda: real_s[0])
    clock_s[0], real_s[0] = 400.0, 2.0  # the first message of a simulation that has long been running
    assert patience.spent_s() == 2.0
    clock_s[0], real_s[0] = -30.0, 20.0
    assert patience.spent_s() == pytest.approx(2.0)
