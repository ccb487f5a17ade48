"""Which outcomes are sent to an edge as hints: new ones, and those that have become surer."""

from __future__ import annotations

from outrider.decoding.policy.adaptive import HintFilter
from outrider.decoding.tuning import DEFAULT_TUNING


def test_useful_is_what_is_new_or_surer():
    telling = HintFilter()
    assert telling.tells((1, 2), 0.5)
    assert not telling.tells((1, 2), 0.5 + DEFAULT_TUNING.hint_repeat_gain - 0.01)
    assert telling.tells((1, 2), 0.5 + DEFAULT_TUNING.hint_repeat_gain)
    assert telling.tells((1, 3), 0.5)


def test_of_the_next_verification_all_is_news():
    telling = HintFilter()
    assert telling.tells((1, 2), 0.9)
    telling.forget()
    assert telling.tells((1, 2), 0.9)
