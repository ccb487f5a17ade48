"""What exits foretell from one commit to the next: what is learnt of it when the target has spoken."""

from __future__ import annotations

import pytest
from cloud_machine import EAGER

from outrider.core.frames import Peer
from outrider.decoding.acceptance.schemes import GREEDY
from outrider.decoding.jobs import ExitHint, SessionKey, Verify
from outrider.decoding.policy.exit_calibration import heard_after
from outrider.decoding.policy.foretold import AbortedVerification, Foretold, learn_from_one
from outrider.decoding.policy.outcomes import VerificationOutcome
from outrider.decoding.policy.session_estimates import SessionEstimates
from outrider.decoding.protocol.sampling_rules import Sampling
from outrider.decoding.tuning import AdaptiveTuning

DRAFT = (1, 2, 3)
READY = (7, 8)


def word(*choices: int, exit: int = 0) -> ExitHint:
    return ExitHint(exit, 0, choices[0], 0.9, choices, (0.9,) * len(choices))


def aborted(pace: SessionEstimates) -> Foretold:
    """An exit said 1, 9 of DRAFT, after which a branch lay ready, so that the verification was left."""
    foretold = Foretold(pace)
    foretold.begin(0.0)
    said = foretold.hear(word(1, 9, 3, 4))
    foretold.look(DRAFT, foretold.outcomes(said, DRAFT), lambda tokens: READY * (tokens == (1, 9)), 0.1)
    assert foretold.is_better and foretold.tokens == ()
    foretold.on_aborted(DRAFT)
    return foretold


def judged(
    foretold: Foretold,
    pace: SessionEstimates,
    draft: tuple[int, ...],
    new: tuple[int, ...],
    compute_s: float = 0.1,
) -> None:
    """A verification of a draft has ended with these tokens, as the adaptive policy takes it in."""
    job = Verify(SessionKey(Peer("", b""), 1), 1, (4,), draft, (), GREEDY, Sampling(), True, True)
    known = len(foretold.tokens)
    foretold.learn_from_aborted(new)
    outcome = VerificationOutcome(job, new, len(new), len(new) - 1, 0, compute_s, True, None, None, 1.0)
    pace.on_verdict(outcome, known)
    foretold.on_judged(draft, new)


def test_an_outcome_that_is_hardly_trusted_is_none():
    foretold = Foretold(SessionEstimates(AdaptiveTuning(min_outcome_prob=0.47)))
    said = foretold.hear(word(9, 8))
    assert [tokens for tokens, _ in foretold.outcomes(said, (1,))] == [(1, 8)], "the draft is trusted more"


def test_what_was_left_names_what_the_next_verification_begins_with():
    foretold = aborted(SessionEstimates(EAGER))
    assert foretold.tokens == (1, 9)
    foretold.forget()
    assert foretold.tokens == ()


def test_the_exits_of_a_verification_that_was_left_are_judged_by_the_next():
    right, wrong = SessionEstimates(EAGER), SessionEstimates(EAGER)
    for pace, new in ((right, (1, 9, 7, 8, 5)), (wrong, (1, 2, 6))):
        foretold = aborted(pace)
        judged(foretold, pace, (1, 9, *READY), new)
        assert foretold.tokens == (), "the text is another"
    heard = heard_after(word(1, 9), None)
    chances = [dict(pace.trust.outcomes(heard, (1, 2)))[(1, 9)] for pace in (right, wrong)]
    assert chances[0] > chances[1]


def test_of_what_had_been_foretold_nothing_is_learnt_of_drafts(monkeypatch):
    """The first two tokens are the exits' own, of the branch after them one stood."""
    learnt = []
    monkeypatch.setattr(
        SessionEstimates, "on_draft_judged", lambda pace, stood, fell: learnt.append((stood, fell))
    )
    pace = SessionEstimates(EAGER)
    foretold = aborted(pace)
    judged(foretold, pace, (1, 9, *READY), (1, 9, 7, 5))
    assert learnt == [(1, True), (1, True)], "of the draft that was left, and of the branch"


def test_a_judgement_of_rows_that_were_known_is_no_trial_of_a_draft(monkeypatch):
    learnt = []
    monkeypatch.setattr(
        SessionEstimates, "on_draft_judged", lambda pace, stood, fell: learnt.append((stood, fell))
    )
    pace = SessionEstimates()
    judged(Foretold(pace), pace, (), (5,), compute_s=0.0)
    assert learnt == []


def test_the_tokens_that_exits_put_in_place_of_drafts_are_known():
    foretold = aborted(SessionEstimates(EAGER))
    assert [foretold.num_own(stood, 4) for stood in range(4)] == [1, 1, 0, 0]
    assert [foretold.num_own(stood, 2) for stood in range(3)] == [1, 1, 1], "no draft lay ready after it"
    foretold.begin(1.0)
    draft = (1, 9, *READY)
    said = foretold.hear(word(1, 9, 7, 6, 5))
    foretold.look(draft, foretold.outcomes(said, draft), lambda tokens: (2,) * (tokens[-1] == 6), 1.1)
    foretold.on_aborted(draft)
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
        SessionEstimates, "on_draft_judged", lambda pace, stood, fell: learnt.append((stood, fell))
    )
    learn_from_one(SessionEstimates(), AbortedVerification(DRAFT, 0, []), new)
    assert learnt == [expected]
