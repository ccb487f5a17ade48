"""What exits predict between two commits, and what is learnt from it once the target has decided."""

from __future__ import annotations

import pytest
from cloud_machine import EAGER

from outrider.core.frames import Peer
from outrider.decoding.acceptance.schemes import GREEDY
from outrider.decoding.jobs import ExitHint, SessionKey, Verify
from outrider.decoding.policy.exit_calibration import observed_after
from outrider.decoding.policy.exit_predictions import AbortedVerification, ExitPredictions, learn_from_one
from outrider.decoding.policy.session_estimates import SessionEstimates, VerificationOutcome
from outrider.decoding.protocol.sampling_rules import Sampling
from outrider.decoding.tuning import AdaptiveTuning

DRAFT = (1, 2, 3)
READY = (7, 8)


def word(*choices: int, exit: int = 0) -> ExitHint:
    return ExitHint(exit, 0, choices[0], 0.9, choices, (0.9,) * len(choices))


def aborted(pace: SessionEstimates) -> ExitPredictions:
    """Return predictions after an abort: an exit said 1, 9 of DRAFT, and a branch after 1, 9 was ready."""
    predicted = ExitPredictions(pace)
    predicted.begin(0.0)
    said = predicted.observe(word(1, 9, 3, 4))
    predicted.look(DRAFT, predicted.outcomes(said, DRAFT), lambda tokens: READY * (tokens == (1, 9)), 0.1)
    assert predicted.is_better and predicted.tokens == ()
    predicted.on_aborted(DRAFT)
    return predicted


def judged(
    predicted: ExitPredictions,
    pace: SessionEstimates,
    draft: tuple[int, ...],
    new: tuple[int, ...],
    compute_s: float = 0.1,
) -> None:
    """End the verification of a draft with these tokens, as the adaptive policy does."""
    job = Verify(SessionKey(Peer("", b""), 1), 1, (4,), draft, (), GREEDY, Sampling(), True, True)
    known = len(predicted.tokens)
    predicted.learn_from_aborted(new)
    outcome = VerificationOutcome(job, new, len(new), len(new) - 1, 0, compute_s, True, None, None, 1.0)
    pace.on_verdict(outcome, known)
    predicted.on_judged(draft, new)


def test_an_outcome_that_is_hardly_trusted_is_none():
    predicted = ExitPredictions(SessionEstimates(AdaptiveTuning(min_outcome_prob=0.47)))
    said = predicted.observe(word(9, 8))
    assert [tokens for tokens, _ in predicted.outcomes(said, (1,))] == [(1, 8)], "the draft is trusted more"


def test_what_was_left_names_what_the_next_verification_begins_with():
    predicted = aborted(SessionEstimates(EAGER))
    assert predicted.tokens == (1, 9)
    predicted.forget()
    assert predicted.tokens == ()


def test_the_exits_of_a_verification_that_was_left_are_judged_by_the_next():
    right, wrong = SessionEstimates(EAGER), SessionEstimates(EAGER)
    for pace, new in ((right, (1, 9, 7, 8, 5)), (wrong, (1, 2, 6))):
        predicted = aborted(pace)
        judged(predicted, pace, (1, 9, *READY), new)
        assert predicted.tokens == (), "the text is another"
    heard = observed_after(word(1, 9), None)
    chances = [dict(pace.calibrator.outcomes(heard, (1, 2)))[(1, 9)] for pace in (right, wrong)]
    assert chances[0] > chances[1]


def test_of_what_had_been_predicted_nothing_is_learnt_of_drafts(monkeypatch):
    """The first two tokens are the exits' own; one token of the branch after them was accepted."""
    learnt = []
    monkeypatch.setattr(
        SessionEstimates, "on_draft_judged", lambda pace, stood, fell: learnt.append((stood, fell))
    )
    pace = SessionEstimates(EAGER)
    predicted = aborted(pace)
    judged(predicted, pace, (1, 9, *READY), (1, 9, 7, 5))
    assert learnt == [(1, True), (1, True)], "of the draft that was left, and of the branch"


def test_a_judgement_of_rows_that_were_known_is_no_trial_of_a_draft(monkeypatch):
    learnt = []
    monkeypatch.setattr(
        SessionEstimates, "on_draft_judged", lambda pace, stood, fell: learnt.append((stood, fell))
    )
    pace = SessionEstimates()
    judged(ExitPredictions(pace), pace, (), (5,), compute_s=0.0)
    assert learnt == []


def test_the_tokens_that_exits_put_in_place_of_drafts_are_known():
    predicted = aborted(SessionEstimates(EAGER))
    assert [predicted.num_exit_tokens(stood, 4) for stood in range(4)] == [1, 1, 0, 0]
    assert [predicted.num_exit_tokens(stood, 2) for stood in range(3)] == [1, 1, 1], (
        "no draft lay ready after it"
    )
    predicted.begin(1.0)
    draft = (1, 9, *READY)
    said = predicted.observe(word(1, 9, 7, 6, 5))
    predicted.look(draft, predicted.outcomes(said, draft), lambda tokens: (2,) * (tokens[-1] == 6), 1.1)
    predicted.on_aborted(draft)
    assert predicted.tokens == (1, 9, 7, 6)
    assert [predicted.num_exit_tokens(stood, 5) for stood in range(5)] == [2, 2, 1, 1, 0]
    assert [predicted.num_exit_tokens(0, judged) for judged in range(5)] == [0, 0, 1, 1, 2], "cut within them"
    assert [predicted.num_exit_tokens(stood, 4) for stood in range(5)] == [2, 2, 1, 1, 1]
    predicted.forget()
    assert predicted.num_exit_tokens(0, 5) == 0


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
