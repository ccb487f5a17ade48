"""Which outcomes are sent to an edge as hints: new or surer ones that are likely enough for the budget."""

from __future__ import annotations

from outrider.decoding.policy.adaptive import HintFilter
from outrider.decoding.tuning import DEFAULT_TUNING

VOCABULARY = 1000


def test_useful_is_what_is_new_or_surer():
    hint_filter = HintFilter(VOCABULARY)
    assert hint_filter.accepts((1, 2), 0.5)
    assert not hint_filter.accepts((1, 2), 0.5 + DEFAULT_TUNING.hint_repeat_gain - 0.01)
    assert hint_filter.accepts((1, 2), 0.5 + DEFAULT_TUNING.hint_repeat_gain)
    assert hint_filter.accepts((1, 3), 0.5)


def test_of_the_next_verification_all_is_news():
    hint_filter = HintFilter(VOCABULARY)
    assert hint_filter.accepts((1, 2), 0.9)
    hint_filter.forget()
    assert hint_filter.accepts((1, 2), 0.9)


def test_an_empty_purse_tells_nothing_until_tokens_fill_it():
    hint_filter = HintFilter(VOCABULARY)
    told = sum(hint_filter.accepts((token,), 1.0) for token in range(100))
    assert 1 <= told < 20
    hint_filter.on_verdict(20)
    assert hint_filter.accepts((100,), 1.0)
