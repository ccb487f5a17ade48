"""Which outcomes an edge is told: news that is likely enough, as long as it can be paid for."""

from __future__ import annotations

from outrider.decoding.telling import Telling
from outrider.decoding.tuning import DEFAULT_TUNING

VOCABULARY = 1000


def test_useful_is_what_is_new_or_surer():
    telling = Telling("useful", VOCABULARY)
    assert telling.tells((1, 2), 0.5, 1.0)
    assert not telling.tells((1, 2), 0.5 + DEFAULT_TUNING.hint_repeat_gain - 0.01, 2.0)
    assert telling.tells((1, 2), 0.5 + DEFAULT_TUNING.hint_repeat_gain, 2.0)
    assert telling.tells((1, 3), 0.5, 2.0)


def test_of_the_next_verification_all_is_news():
    telling = Telling("useful", VOCABULARY)
    assert telling.tells((1, 2), 0.9, 1.0)
    telling.forget()
    assert telling.tells((1, 2), 0.9, 1.0)


def test_an_edge_that_wants_everything_is_told_everything():
    telling = Telling("all", VOCABULARY)
    assert all(telling.tells((1, 2), 0.0, 1.0) for _ in range(1000))


def test_an_empty_purse_tells_nothing_until_tokens_fill_it():
    telling = Telling("useful", VOCABULARY)
    told = sum(telling.tells((token,), 1.0, 1.0) for token in range(100))
    assert 1 <= told < 20
    telling.on_verdict(20)
    assert telling.tells((100,), 1.0, 2.0)


def test_the_edge_knows_of_a_commit_since_it_was_first_told():
    telling = Telling("all", VOCABULARY)
    telling.tells((1, 2), 0.5, 1.0)
    telling.tells((1, 2), 0.9, 2.0)
    assert telling.take_told_s((1, 2)) == 1.0
    assert telling.take_told_s((1, 2)) is None, "the text is another"
