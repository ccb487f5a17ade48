"""The suffix automaton against a direct search of the texts."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.decoding.drafting.retrieval.automaton import START, Match, SuffixAutomaton

Texts = list[list[int]]
TEXTS = st.lists(st.lists(st.integers(0, 3), max_size=14), min_size=1, max_size=5)
BRANCH = st.lists(st.integers(0, 3), max_size=4)


def automaton_of(texts: Texts) -> SuffixAutomaton:
    automaton = SuffixAutomaton()
    for text in texts:
        automaton.begin()
        for token in text:
            automaton.append(token)
    return automaton


def searched(texts: Texts, end: list[int]) -> Match | None:
    """Return the longest suffix of `end` that another token has followed, at its latest such position."""
    for length in range(len(end), 0, -1):
        at, start = None, 0
        for text in texts:
            start += 1
            starts = (i + length for i in range(len(text) - length) if text[i : i + length] == end[-length:])
            at = max(((start + found) for found in starts), default=at)
            start += len(text)
        if at is not None:
            return Match(length, at)
    return None


@pytest.mark.lengthy
@settings(max_examples=300, deadline=None)
@given(TEXTS, BRANCH)
def test_the_latest_occurrence_of_the_text_and_a_branch_is_found(texts: Texts, branch):
    automaton = automaton_of(texts)
    assert automaton.match(automaton.walk(automaton.end, branch)) == searched(texts, texts[-1] + branch)


@pytest.mark.lengthy
@settings(max_examples=200, deadline=None)
@given(TEXTS, BRANCH)
def test_a_foreign_text_is_found_too(texts: Texts, foreign: list[int]):
    automaton = automaton_of(texts)
    assert automaton.match(automaton.walk(START, foreign)) == searched(texts, foreign)


def test_the_latest_occurrence_is_continued_to_the_end_of_its_text_only():
    automaton = automaton_of([[1, 2, 3], [1, 2, 4, 5], [9, 1, 2]])
    match = automaton.match(automaton.end)
    assert match is not None and match.length == 2
    assert automaton.following(match.at, 8) == [4, 5]
    assert automaton.following(match.at, 1) == [4]


def test_no_match_goes_across_texts():
    automaton = automaton_of([[1, 2], [3, 4], [2, 3]])
    match = automaton.match(automaton.end)
    assert match == Match(1, 5)
    assert automaton.following(match.at, 8) == [4]


def test_an_end_that_nothing_ever_followed_is_no_match():
    assert automaton_of([[1, 2], [3, 2]]).match(START) is None
    automaton = automaton_of([[1, 2], [3, 2]])
    assert automaton.match(automaton.end) is None


def test_beliefs_follow_the_counts_and_shorter_ends_fill_in():
    automaton = automaton_of([[1, 2, 3]] * 8 + [[1, 2, 4], [7, 2, 5], [1, 2]])
    chances = [automaton.belief(automaton.end, token) for token in range(10)]
    assert max(range(10), key=chances.__getitem__) == 3
    assert chances[3] > 0.6 and 0.0 < chances[5] < chances[4] < 0.2
    assert sum(chances) == pytest.approx(1.0, abs=0.05)
    assert automaton.belief(automaton.end, 9) == 0.0


def test_a_token_repeated_without_end_is_handled():
    automaton = automaton_of([[5] * 2000])
    match = automaton.match(automaton.end)
    assert match == Match(1999, 2000)


def test_the_work_for_a_token_does_not_grow_with_the_texts():
    """Counts the states visited, not seconds: text that repeats itself has few distinct suffixes."""
    rng = random.Random(0)
    phrases = [[rng.randrange(50) for _ in range(12)] for _ in range(6)]
    automaton = SuffixAutomaton()
    depths = []
    for _ in range(300):
        automaton.begin()
        for token in [*rng.choice(phrases), rng.randrange(50), *rng.choice(phrases)]:
            automaton.append(token)
            depths.append(len(automaton.ends(automaton.end)))
    assert sum(depths[-1000:]) / 1000 < 16


def test_successors_are_ranked_by_their_belief():
    automaton = automaton_of([[1, 2, 3], [1, 2, 4], [1, 2, 4], [2, 5]])
    cursor = automaton.walk(START, (1, 2))
    ranked = automaton.successors(cursor)
    assert [token for token, _ in ranked] == [4, 3, 5]
    assert all(share == pytest.approx(automaton.belief(cursor, token)) for token, share in ranked)


def test_the_latest_continuation_is_the_first_successor():
    automaton = automaton_of([[1, 2, 4], [1, 2, 4], [1, 2, 3]])
    assert [token for token, _ in automaton.successors(automaton.walk(START, (1, 2)))][:2] == [3, 4]


def test_successors_can_be_queried_without_changing_later_results():
    rng = random.Random(5)
    asked, fresh = SuffixAutomaton(), SuffixAutomaton()
    for _ in range(400):
        token = rng.choice((1, 1, 2, 3, rng.randrange(20)))
        asked.append(token)
        fresh.append(token)
        for state in rng.sample(range(1, 30), 5):
            asked.successors(asked.walk(START, (state % 20, state % 7)))
        asked.successors(asked.end)
    ends = [fresh.walk(START, (one, other)) for one in range(20) for other in range(20)]
    assert [asked.successors(end) for end in ends] == [fresh.successors(end) for end in ends]
