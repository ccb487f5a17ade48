"""Whether early exits are worth the time that they take."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from outrider.decoding.hearing import Hearing
from outrider.decoding.tuning import DEFAULT_TUNING

FORWARD_S, TOKENS_PER_S = 0.1, 10.0


def run(hearing: Hearing, forwards: int, cost_s: float, gain: Callable[[int], float]) -> list[bool]:
    """Which of so many forwards were heard; a heard one takes `cost_s` longer, and gains so many tokens."""
    asked = []
    for number in range(forwards):
        heard = hearing.asks(TOKENS_PER_S)
        usual = asked[-1] if asked else True
        hearing.on_forward(heard, FORWARD_S + cost_s * heard, FORWARD_S + cost_s * usual)
        if heard:
            hearing.on_gain(gain(number))
        asked.append(heard)
    return asked


def test_exits_that_cost_nothing_are_asked_whatever_they_say() -> None:
    asked = run(Hearing(), 1000, 0.0, lambda _: 0.0)
    assert asked.count(False) <= 3 + 1000 // DEFAULT_TUNING.exit_trials_read


def test_exits_that_gain_more_than_they_cost_are_asked() -> None:
    asked = run(Hearing(), 1000, 0.02, lambda _: 0.4)  # they cost 0.2 tokens
    assert asked.count(False) <= 3 + 1000 // DEFAULT_TUNING.exit_trials_read


@pytest.mark.parametrize("gain", [0.0, 0.1])
def test_exits_that_gain_less_than_they_cost_are_asked_now_and_then(gain: float) -> None:
    asked = run(Hearing(), 1000, 0.02, lambda _: gain)
    assert asked[:4] == [True] * 4
    later = asked[200:]
    assert later.count(True) == pytest.approx(len(later) / (DEFAULT_TUNING.exit_trials_unread + 1), abs=2)


def test_exits_that_become_useful_are_asked_again() -> None:
    asked = run(Hearing(), 2000, 0.02, lambda number: 0.0 if number < 500 else 1.0)
    assert not any(asked[480:490]) or asked[480:490].count(True) == 1
    assert asked[-100:].count(False) <= 1


def test_one_hiccup_is_no_cost() -> None:
    hearing = Hearing()
    run(hearing, 100, 0.0, lambda _: 0.3)
    while hearing.asks(TOKENS_PER_S):
        hearing.on_forward(True, FORWARD_S, FORWARD_S)
    hearing.on_forward(False, FORWARD_S, 100 * FORWARD_S)
    assert hearing.asks(TOKENS_PER_S)


def test_to_change_ones_mind_is_no_measurement() -> None:
    hearing = Hearing()
    run(hearing, 200, 0.02, lambda number: 1.0 if number < 60 else 0.0)
    assert list(hearing._costs) == pytest.approx([0.02] * 5)
