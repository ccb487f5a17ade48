"""Trust in early exits: learnt position by position, by what the exit says of the draft."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.decoding.jobs import ExitHint, Judgement
from outrider.decoding.trust import Trust

steady = settings(max_examples=100, deadline=None, derandomize=True)


def test_a_hint_is_first_trusted_by_half_then_by_what_came_of_it():
    trust = Trust()
    assert trust.chance(2, 0.6, "agrees") == pytest.approx(0.3)
    for _ in range(200):
        trust.on_outcome(2, 0.6, "agrees", right=True)
        trust.on_outcome(2, 0.95, "agrees", right=False)
    assert trust.chance(2, 0.5, "agrees") > 0.9
    assert trust.chance(2, 0.99, "agrees") < 0.1, "one that was sure is another matter"
    assert trust.chance(2, 0.6, "free") == pytest.approx(0.3), "so is a step"
    assert trust.chance(1, 0.6, "agrees") == pytest.approx(0.3), "so is another exit"


def exit_word(*choices: int) -> ExitHint:
    return ExitHint(3, 0, choices[0], 0.5, choices, (0.5,) * len(choices))


def test_trust_in_both_sides_of_a_contradiction_is_learnt_from_what_came():
    """The exit contradicts the draft at its second token; nine times in ten the draft was right."""
    trust = Trust()
    for number in range(300):
        judgement = Judgement(1, 9) if number % 10 == 0 else Judgement(2, 8)
        trust.on_judged(exit_word(4, 9, 8), (4, 5), judgement)
    outcomes = dict(trust.outcomes(exit_word(4, 9, 8), (4, 5)))
    assert outcomes[(4, 9)] == pytest.approx(0.1, abs=0.06)
    assert outcomes[(4, 5, 8)] > 0.6


def test_beyond_a_rejection_nothing_is_learnt():
    trust = Trust()
    for _ in range(100):
        trust.on_judged(exit_word(4, 9, 8), (4, 5), Judgement(0, 6))
    assert trust.chance(3, 0.5, "agrees") < 0.05
    assert trust.chance(3, 0.5, "differs") == trust.chance(3, 0.5, "free") == pytest.approx(0.25)


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
    for accepted, token in judged:
        trust.on_judged(hint, draft, Judgement(min(accepted, len(draft)), token))
    outcomes = list(trust.outcomes(hint, draft))
    assert len({tokens for tokens, _ in outcomes}) == len(outcomes)
    assert all(0.0 <= chance <= 1.0 for _, chance in outcomes)
