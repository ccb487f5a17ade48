"""Trust in early exits: learnt position by position, by what the exit says of the draft."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.decoding.jobs import ExitHint, Word
from outrider.decoding.trust import Trust, runs_of

ONCE = ((1, 1, 1),)
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
    assert heard[0][1] == ((1, 1),)
    heard.append((second, runs_of(second, heard)))
    assert heard[1][1] == ((2, 1),)
    assert runs_of(third, heard) == ((3, 2),)


def test_hints_of_a_verification_that_was_given_up_begin_no_run():
    before = [(exit_word(4, 9, exit=2), ((3, 3),))]
    assert runs_of(exit_word(4, 9, exit=0), before) == ((1, 1),), "the exits begin anew"
    assert runs_of(exit_word(4, 9, 5, exit=3), before) == ((1, 1, 1),), "of another draft"


def test_what_exits_repeat_is_learnt_to_be_worth_more():
    """A first word is wrong, a repeated one right."""
    trust = Trust()
    for _ in range(50):
        trust.on_judged(exit_word(9, 8), ((1, 1),), [(4,)], (7,))
        trust.on_judged(exit_word(9, 8), ((2, 1),), [(4,)], (9,))
    once, twice = (dict(trust.outcomes(exit_word(9, 8), ((run, 1),), [(4,)]))[(9,)] for run in (1, 2))
    assert once < 0.1 < 0.9 < twice


def test_a_draft_and_what_goes_on_from_it_stand_as_far_as_exits_that_said_so_were_right():
    trust = Trust()
    for _ in range(300):
        trust.on_outcome(0.5, "agrees", 1, right=True)
        trust.on_outcome(0.5, "overruled", 1, right=False)
    hint = exit_word(4, 5, 6)
    assert trust.stands(hint, ONCE, (4, 5, 6)) > 0.7
    assert trust.stands(hint, ONCE, (4, 5, 7)) < 0.1, "the exit would go on otherwise"
    assert trust.stands(hint, ONCE, (4, 7, 6)) < 0.1, "or leave the draft"
    known = trust.stands(hint, ONCE, (4, 7, 6), known=2, known_chance=0.5)
    assert 0.4 < known < 0.5, "what is known is not doubted twice"


def exit_word(*choices: int, exit: int = 3) -> ExitHint:
    return ExitHint(exit, 0, choices[0], 0.5, (Word(choices, (0.5,) * len(choices)),))


def test_trust_in_both_sides_of_a_contradiction_is_learnt_from_what_came():
    """The exit contradicts the draft at its second token; nine times in ten the draft was right."""
    trust = Trust()
    for number in range(300):
        new = (4, 9) if number % 10 == 0 else (4, 5, 8)
        trust.on_judged(exit_word(4, 9, 8), ONCE, [(4, 5)], new)
    outcomes = dict(trust.outcomes(exit_word(4, 9, 8), ONCE, [(4, 5)]))
    assert outcomes[(4, 9)] == pytest.approx(0.1, abs=0.06)
    assert outcomes[(4, 5, 8)] > 0.6


def test_beyond_a_rejection_nothing_is_learnt():
    trust = Trust()
    for _ in range(100):
        trust.on_judged(exit_word(4, 9, 8), ONCE, [(4, 5)], (6,))
    assert trust.chance(0.5, "agrees", 1) < 0.05
    assert trust.chance(0.5, "differs", 1) == trust.chance(0.5, "free", 1) == pytest.approx(0.25)


def beside(*words: tuple[int, ...]) -> ExitHint:
    """What an exit that is half sure says of several drafts."""
    return ExitHint(3, 0, 0, 0.5, tuple([Word(choices, (0.5,) * len(choices)) for choices in words]))


DRAFTS = [(4, 5), (4, 9, 6), (7, 3)]
"""The second leaves the first where exits contradict it, the third elsewhere."""
HEARD = beside((4, 9, 8), (4, 9, 6, 2), (7, 3, 1))
ALL_ONCE = ((1, 1, 1), (1, 1, 1, 1), (1, 1, 1))


def test_where_a_draft_beside_says_the_same_the_exit_is_followed_there():
    outcomes = dict(Trust().outcomes(HEARD, ALL_ONCE, DRAFTS))
    assert set(outcomes) == {(4, 9, 6, 2), (4, 5, 8)}


def test_what_the_exit_says_beside_is_learnt_where_the_text_goes_that_way():
    trust = Trust()
    for _ in range(100):
        trust.on_judged(HEARD, ALL_ONCE, DRAFTS, (4, 9, 6, 2))
    outcomes = dict(trust.outcomes(HEARD, ALL_ONCE, DRAFTS))
    assert outcomes[(4, 9, 6, 2)] > 0.6 and outcomes[(4, 5, 8)] < 0.05
    assert trust.chance(0.5, "differs", 1) == pytest.approx(0.25), "no draft said the same: another matter"
    for _ in range(100):
        trust.on_judged(HEARD, ALL_ONCE, DRAFTS, (7, 2))
    assert trust.chance(0.5, "agrees", 1) < 0.1, "it went where only the third draft goes, and left that too"


def test_of_a_draft_that_was_not_heard_nothing_is_said():
    """As where its sequence had no room."""
    hint, trust = beside((4, 9, 8), ()), Trust()
    assert set(dict(trust.outcomes(hint, ((1, 1, 1), ()), DRAFTS))) == {(4, 9), (4, 5, 8)}
    trust.on_judged(hint, ((1, 1, 1), ()), DRAFTS, (4, 9, 6, 2))
    assert trust.chance(0.5, "differs", 1) > 0.25


def test_runs_are_of_each_draft():
    first, second = beside((4, 9), (4, 8)), beside((4, 9), (3, 8))._replace(exit=4)
    heard = [(first, runs_of(first, []))]
    assert runs_of(second, heard) == ((2, 2), (1, 2))
    assert runs_of(beside((4, 9))._replace(exit=5), heard) == ((1, 1),), "others lie beside it"


tokens = st.lists(st.integers(0, 2), max_size=4).map(tuple)


@steady
@given(st.lists(tokens, min_size=1, max_size=4), st.lists(tokens, max_size=30), st.data())
def test_outcomes_are_distinct_and_their_chances_are_chances(drafts, judged, data):
    lengths = [data.draw(st.sampled_from([0, len(draft) + 1])) for draft in drafts[1:]]
    of_length = [st.tuples(*[st.integers(0, 2)] * count) for count in (len(drafts[0]) + 1, *lengths)]
    hint, trust = beside(*[data.draw(one) for one in of_length]), Trust()
    runs = tuple([(1,) * len(word.choices) for word in hint.words])
    for new in judged:
        trust.on_judged(hint, runs, drafts, new)
    outcomes = trust.outcomes(hint, runs, drafts)
    assert len({tokens for tokens, _ in outcomes}) == len(outcomes) > 0
    assert all(0.0 <= chance <= 1.0 for _, chance in outcomes)
