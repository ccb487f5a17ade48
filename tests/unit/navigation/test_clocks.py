"""Arrival times of messages, and stamps by another computer's clock."""

from __future__ import annotations

import pytest

from outrider.navigation.clocks import DRIFT, MAX_DELAY_S, Arrivals, ClockMapping, Moment

OFFSET_S = 1_700_000_000.0
DELAYS_S = (0.002, 0.030, 0.004, 0.250, 0.001)


def test_a_delayed_message_is_stamped_when_it_happened() -> None:
    clock = ClockMapping()
    clock.local_s(0.0, OFFSET_S + 0.001)
    for number, delay_s in enumerate(DELAYS_S, start=1):
        remote_s = number * 0.5
        local_s = clock.local_s(remote_s, OFFSET_S + remote_s + delay_s)
        assert local_s - OFFSET_S == pytest.approx(remote_s + 0.001, abs=2e-3)
        assert local_s <= OFFSET_S + remote_s + delay_s


def test_a_clock_that_drifts_is_followed() -> None:
    clock = ClockMapping()
    for number in range(4000):
        remote_s = number * 0.02
        received_s = OFFSET_S + remote_s * 1.0001 + 0.005
        late_s = received_s - clock.local_s(remote_s, received_s)
        assert 0.0 <= late_s <= 1e-6


@pytest.mark.parametrize("delay_s", [0.3, 0.6, 1.3, 4.0])
def test_a_lasting_delay_still_counts_as_a_delay_for_long(delay_s: float) -> None:
    clock = ClockMapping()
    clock.local_s(0.0, OFFSET_S)
    for number in range(1200):
        remote_s = 0.05 * number
        local_s = clock.local_s(remote_s, OFFSET_S + remote_s + delay_s)
        late_s = OFFSET_S + remote_s + delay_s - local_s
        assert delay_s - DRIFT * (remote_s + delay_s) - 1e-3 <= late_s <= delay_s + 1e-3


@pytest.mark.parametrize("jump_s", [-3600.0, 3600.0])
@pytest.mark.parametrize("who", ["robot", "here"])
def test_a_clock_jump_begins_a_new_mapping(jump_s: float, who: str) -> None:
    clock = ClockMapping()
    clock.local_s(5000.0, OFFSET_S)
    remote_s = 5000.1 + (jump_s if who == "robot" else 0.0)
    received_s = OFFSET_S + 0.1 + (jump_s if who == "here" else 0.0)
    assert received_s - MAX_DELAY_S <= clock.local_s(remote_s, received_s) <= received_s


@pytest.mark.parametrize("early_s", [0.0, 0.1])
def test_what_overtakes_the_simulated_clock_makes_nothing_else_older(early_s: float) -> None:
    clock = ClockMapping(is_simulated=True)
    assert clock.local_s(50.0, 50.0 - early_s) == 50.0
    assert clock.local_s(50.1, 50.1) == pytest.approx(50.1)
    assert clock.local_s(50.2, 50.5) == pytest.approx(50.2)  # a real age is kept


def test_the_shortest_delay_gives_the_offset_of_two_clocks() -> None:
    clock = ClockMapping()
    clock.local_s(50.0, 49.9)
    assert clock.local_s(50.1, 50.1) == pytest.approx(50.0, abs=DRIFT)


def moment(real_s: float, pace: float = 1.0) -> Moment:
    """Return the moment at `real_s` for a clock of motions that runs at `pace`."""
    return Moment(50.0 + pace * real_s, real_s)


@pytest.mark.parametrize("pace", [1.0, 0.25, 4.0])
def test_messages_came_when_they_arrived_at_any_pace_of_the_clock(pace: float) -> None:
    came_s = Arrivals().take([0.3, 0.1], moment(10.0, pace), moment(10.5, pace))
    assert came_s == pytest.approx([50.0 + 10.2 * pace, 50.0 + 10.4 * pace])


def test_arrival_times_never_decrease_whether_messages_are_handled_at_once_or_queued() -> None:
    """The middleware gives no arrival time for the first one, so it counts from when it is handled."""
    arrivals = Arrivals()
    (first_s,) = arrivals.take([1e9], moment(10.0), moment(10.4))
    came_s = [first_s, *arrivals.take([0.3, 0.15, 0.05], moment(10.0), moment(10.5))]
    assert came_s == pytest.approx([60.4, 60.4, 60.4, 60.45]) and came_s == sorted(came_s)


@pytest.mark.parametrize("waits_s", [[-3600.0, -3600.1], [1e9, 1e9], [0.1, 0.2], [0.6, 0.1]])
def test_messages_whose_times_of_arrival_cannot_be_true_count_as_having_come_evenly(
    waits_s: list[float],
) -> None:
    assert Arrivals().take(waits_s, moment(10.0), moment(10.5)) == pytest.approx([60.25, 60.5])


def test_a_clock_that_was_set_back_is_seen_in_the_messages_once() -> None:
    arrivals, back = Arrivals(), Moment(7.0, 10.2)
    arrivals.take([0.1], moment(10.0), moment(10.1))
    assert arrivals.take([0.1, 0.05], moment(10.1), back) == [7.0, 7.0]
    assert arrivals.take([0.05], back, Moment(7.1, 10.3)) == pytest.approx([7.05])


def test_a_clock_that_stands_still_dates_all_alike() -> None:
    assert Arrivals().take([0.2, 0.1], Moment(0.0, 10.0), Moment(0.0, 10.5)) == [0.0, 0.0]
    assert Arrivals().take([], moment(10.0), moment(10.0)) == []
