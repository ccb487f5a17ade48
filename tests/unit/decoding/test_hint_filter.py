"""Which outcomes are sent to an edge as hints: new ones, and those that have become surer."""

from __future__ import annotations

from outrider.decoding.policy.adaptive import HintFilter
from outrider.decoding.tuning import DEFAULT_TUNING


def test_new_and_much_surer_hints_are_sent():
    hint_filter = HintFilter()
    assert hint_filter.accepts((1, 2), 0.5)
    assert not hint_filter.accepts((1, 2), 0.5 + DEFAULT_TUNING.hint_repeat_gain - 0.01)
    assert hint_filter.accepts((1, 2), 0.5 + DEFAULT_TUNING.hint_repeat_gain)
    assert hint_filter.accepts((1, 3), 0.5)


def test_hints_of_the_next_verification_are_all_new():
    hint_filter = HintFilter()
    assert hint_filter.accepts((1, 2), 0.9)
    hint_filter.forget()
    assert hint_filter.accepts((1, 2), 0.9)
