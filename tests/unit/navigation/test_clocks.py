"""Stamps of another computer's clock."""

from __future__ import annotations

import pytest

from outrider.navigation.clocks import MAX_DELAY_S, WINDOW_S, ClockMapping

OFFSET_S = 1_700_000_000.0
DELAYS_S = (0.002, 0.030, 0.004, 0.250, 0.001)


def test_a_delayed_message_is_stamped_when_it_happened() -> None:
    clock = ClockMapping()
    clock.local_s(0.0, OFFSET_S + 0.001)
    for number, delay_s in enumerate(DELAYS_S, start=1):
        remote_s = number * 0.5
        local_s = clock.local_s(remote_s, OFFSET_S + remote_s + delay_s)
        assert local_s - OFFSET_S == pytest.approx(remote_s + 0.001, abs=1e-6)
        assert local_s <= OFFSET_S + remote_s + delay_s


def test_a_clock_that_drifts_is_followed() -> None:
    clock = ClockMapping()
    for number in range(4000):
        remote_s = number * 0.02
        received_s = OFFSET_S + remote_s * 1.0001 + 0.005
        late_s = received_s - clock.local_s(remote_s, received_s)
        assert 0.0 <= late_s <= 2.5 * WINDOW_S * 0.0001 + 1e-6


@pytest.mark.parametrize("jump_s", [-3600.0, 3600.0])
@pytest.mark.parametrize("who", ["robot", "here"])
def test_a_clock_that_jumps_begins_anew(jump_s: float, who: str) -> None:
    clock = ClockMapping()
    clock.local_s(5000.0, OFFSET_S)
    remote_s = 5000.1 + (jump_s if who == "robot" else 0.0)
    received_s = OFFSET_S + 0.1 + (jump_s if who == "here" else 0.0)
    assert received_s - MAX_DELAY_S <= clock.local_s(remote_s, received_s) <= received_s
