"""What exits foretell from one commit to the next: what is learnt of it when the target has spoken."""

from __future__ import annotations

import pytest

from outrider.decoding.adaptive.exit_calibration import heard_after
from outrider.decoding.adaptive.foretold import AbortedVerification, Foretold, learn_from_left
from outrider.decoding.adaptive.policy import AdaptivePolicy
from outrider.decoding.jobs import ExitHint, Word
from outrider.decoding.tuning import AdaptiveTuning

DRAFT = (1, 2, 3)
READY = (7, 8)


pytestmark = pytest.mark.usefixtures("aims_pay_where_a_branch_is_ready")


def word(*choices: int, exit: int = 0) -> ExitHint:
    return ExitHint(exit, 0, choices[0], 0.9, (Word(choices, (0.9,) * len(choices)),))


def given_up(pace: AdaptivePolicy) -> Foretold:
    """An exit said 1, 9 of DRAFT, after which a branch lay ready, so that the verification was left."""
    foretold = Foretold(pace)
    foretold.begin(0.0)
    said = foretold.hear(word(1, 9, 3, 4))
    foretold.look((DRAFT,), foretold.outcomes(said, (DRAFT,)), lambda tokens: READY * (tokens == (1, 9)), 0.1)
    assert foretold.is_better and foretold.tokens == ()
    foretold.leave((DRAFT,))
    return foretold


def test_an_outcome_that_is_hardly_trusted_is_none():
    foretold = Foretold(AdaptivePolicy(AdaptiveTuning(min_outcome_prob=0.47)))
    said = foretold.hear(word(9, 8))
    assert [tokens for tokens, _ in foretold.outcomes(said, [(1,)])] == [(1, 8)], "the draft is trusted more"


def test_what_was_left_names_what_the_next_verification_begins_with():
    foretold = given_up(AdaptivePolicy())
    assert foretold.tokens == (1, 9)
    foretold.forget()
    assert foretold.tokens == ()


def test_the_exits_of_a_verification_that_was_left_are_judged_by_the_next():
    right, wrong = AdaptivePolicy(), AdaptivePolicy()
    for pace, new in ((right, (1, 9, 7, 8, 5)), (wrong, (1, 2, 6))):
        foretold = given_up(pace)
        foretold.on_judged(((1, 9, *READY),), new, True)
        assert foretold.tokens == (), "the text is another"
    heard = heard_after(word(1, 9), None)
    chances = [dict(pace.trust.outcomes(heard, [(1, 2)]))[(1, 9)] for pace in (right, wrong)]
    assert chances[0] > chances[1]


def test_of_what_had_been_foretold_nothing_is_learnt_of_drafts(monkeypatch):
    """The first two tokens are the exits' own, of the branch after them one stood."""
    learnt = []
    monkeypatch.setattr(
        AdaptivePolicy, "on_draft_judged", lambda pace, stood, fell: learnt.append((stood, fell))
    )
    foretold = given_up(AdaptivePolicy())
    foretold.on_judged(((1, 9, *READY),), (1, 9, 7, 5), True)
    assert learnt == [(1, True), (1, True)], "of the draft that was left, and of the branch"


def test_a_judgement_of_rows_that_were_known_is_no_trial_of_a_draft(monkeypatch):
    learnt = []
    monkeypatch.setattr(
        AdaptivePolicy, "on_draft_judged", lambda pace, stood, fell: learnt.append((stood, fell))
    )
    Foretold(AdaptivePolicy()).on_judged(((),), (5,), False)
    assert learnt == []


def test_the_tokens_that_exits_put_in_place_of_drafts_are_known():
    foretold = given_up(AdaptivePolicy(AdaptiveTuning(min_outcome_prob=0.0)))
    assert [foretold.num_own(stood, 4) for stood in range(4)] == [1, 1, 0, 0]
    assert [foretold.num_own(stood, 2) for stood in range(3)] == [1, 1, 1], "no draft lay ready after it"
    foretold.begin(1.0)
    draft = (1, 9, *READY)
    said = foretold.hear(word(1, 9, 7, 6, 5))
    foretold.look((draft,), foretold.outcomes(said, (draft,)), lambda tokens: (2,) * (tokens[-1] == 6), 1.1)
    foretold.leave((draft,))
    assert foretold.tokens == (1, 9, 7, 6)
    assert [foretold.num_own(stood, 5) for stood in range(5)] == [2, 2, 1, 1, 0]
    assert [foretold.num_own(0, judged) for judged in range(5)] == [0, 0, 1, 1, 2], "cut within them"
    assert [foretold.num_own(stood, 4) for stood in range(5)] == [2, 2, 1, 1, 1]
    foretold.forget()
    assert foretold.num_own(0, 5) == 0


@pytest.mark.parametrize(
    ("new", "expected"),
    [((1, 2, 3, 4), (3, False)), ((1, 2, 6), (2, True)), ((1, 2), (2, False)), ((5,), (0, True))],
)
def test_what_came_tells_how_far_a_draft_would_have_stood(monkeypatch, new, expected):
    learnt = []
    monkeypatch.setattr(
        AdaptivePolicy, "on_draft_judged", lambda pace, stood, fell: learnt.append((stood, fell))
    )
    learn_from_left(AdaptivePolicy(), AbortedVerification((DRAFT,), 0, []), new)
    assert learnt == [expected]
