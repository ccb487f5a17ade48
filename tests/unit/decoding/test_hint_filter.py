"""Which outcomes are sent to an edge as hints: new or surer ones that are likely enough for the budget."""

from __future__ import annotations

from outrider.decoding.policy.adaptive import HintFilter
from outrider.decoding.tuning import DEFAULT_TUNING

VOCABULARY = 1000


def test_new_and_much_surer_hints_are_sent():
    hint_filter = HintFilter(VOCABULARY)
    assert hint_filter.accepts((1, 2), 0.5)
    assert not hint_filter.accepts((1, 2), 0.5 + DEFAULT_TUNING.hint_repeat_gain - 0.01)
    assert hint_filter.accepts((1, 2), 0.5 + DEFAULT_TUNING.hint_repeat_gain)
    assert hint_filter.accepts((1, 3), 0.5)


def test_hints_of_the_next_verification_are_all_new():
    hint_filter = HintFilter(VOCABULARY)
    assert hint_filter.accepts((1, 2), 0.9)
    hint_filter.forget()
    assert hint_filter.accepts((1, 2), 0.9)


def test_no_hint_is_sent_on_an_empty_byte_budget():
    hint_filter = HintFilter(VOCABULARY)
    num_sent = sum(hint_filter.accepts((token,), 1.0) for token in range(100))
    assert 1 <= num_sent < 20
    hint_filter.on_verdict(20)
    assert hint_filter.accepts((100,), 1.0)
