"""Trust in early exits: learnt position by position, by what the exit says of the draft."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.decoding.jobs import ExitHint, Judgement
from outrider.decoding.trust import Trust, runs_of

ONCE = (1, 1, 1)
steady = settings(max_examples=100, deadline=None, derandomize=True)


def test_a_hint_is_first_trusted_by_half_then_by_what_came_of_it():
    trust = Trust()
    assert trust.chance(0.6, "agrees", 1) == pytest.approx(0.3)
    for _ in range(200):
        trust.on_outcome(0.6, "agrees", 1, right=True)
        trust.on_outcome(0.95, "agrees", 1, right=False)
    assert trust.chance(0.5, "agrees", 1) > 0.9
    assert trust.chance(0.99, "agrees", 1) < 0.1, "one that was sure is another matter"
    assert trust.chance(0.6, "free", 1) == pytest.approx(0.3), "so is a step"
    assert trust.chance(0.6, "agrees", 2) == pytest.approx(0.3), "so is what two exits say in a row"


def test_exits_that_say_the_same_one_after_the_other_are_a_run():
    first, second, third = exit_word(4, 9, exit=0), exit_word(4, 8, exit=1), exit_word(4, 8, exit=3)
    heard = [(first, runs_of(first, []))]
    assert heard[0][1] == (1, 1)
    heard.append((second, runs_of(second, heard)))
    assert heard[1][1] == (2, 1)
    assert runs_of(third, heard) == (3, 2)


def test_hints_of_a_verification_that_was_given_up_begin_no_run():
    before = [(exit_word(4, 9, exit=2), (3, 3))]
    assert runs_of(exit_word(4, 9, exit=0), before) == (1, 1), "the exits begin anew"
    assert runs_of(exit_word(4, 9, 5, exit=3), before) == (1, 1, 1), "of another draft"


def test_what_exits_repeat_is_learnt_to_be_worth_more():
    """A first word is wrong, a repeated one right."""
    trust = Trust()
    for _ in range(50):
        trust.on_judged(exit_word(9, 8), (1, 1), (4,), Judgement(0, 7))
        trust.on_judged(exit_word(9, 8), (2, 1), (4,), Judgement(0, 9))
    once, twice = (dict(trust.outcomes(exit_word(9, 8), (run, 1), (4,)))[(9,)] for run in (1, 2))
    assert once < 0.1 < 0.9 < twice


def exit_word(*choices: int, exit: int = 3) -> ExitHint:
    return ExitHint(exit, 0, choices[0], 0.5, choices, (0.5,) * len(choices))


def test_trust_in_both_sides_of_a_contradiction_is_learnt_from_what_came():
    """The exit contradicts the draft at its second token; nine times in ten the draft was right."""
    trust = Trust()
    for number in range(300):
        judgement = Judgement(1, 9) if number % 10 == 0 else Judgement(2, 8)
        trust.on_judged(exit_word(4, 9, 8), ONCE, (4, 5), judgement)
    outcomes = dict(trust.outcomes(exit_word(4, 9, 8), ONCE, (4, 5)))
    assert outcomes[(4, 9)] == pytest.approx(0.1, abs=0.06)
    assert outcomes[(4, 5, 8)] > 0.6


def test_beyond_a_rejection_nothing_is_learnt():
    trust = Trust()
    for _ in range(100):
        trust.on_judged(exit_word(4, 9, 8), ONCE, (4, 5), Judgement(0, 6))
    assert trust.chance(0.5, "agrees", 1) < 0.05
    assert trust.chance(0.5, "differs", 1) == trust.chance(0.5, "free", 1) == pytest.approx(0.25)


@steady
@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=5),
    st.lists(st.integers(0, 3), max_size=4),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), max_size=30),
)
def test_outcomes_are_distinct_and_their_chances_are_chances(choices, draft, judged):
    draft, hint, trust = tuple(draft[: len(choices) - 1]), exit_word(*choices), Trust()
    if len(draft) < len(choices) - 1:
        draft += (0,) * (len(choices) - 1 - len(draft))
    runs = (1,) * len(choices)
    for accepted, token in judged:
        trust.on_judged(hint, runs, draft, Judgement(min(accepted, len(draft)), token))
    outcomes = trust.outcomes(hint, runs, draft)
    assert len({tokens for tokens, _ in outcomes}) == len(outcomes)
    assert all(0.0 <= chance <= 1.0 for _, chance in outcomes)
