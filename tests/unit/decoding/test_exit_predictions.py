"""What exits predict between two commits, and what is learnt from it once the target has decided."""

from __future__ import annotations

import pytest
from cloud_machine import EAGER

from outrider.core.frames import Peer
from outrider.decoding.acceptance.schemes import GREEDY
from outrider.decoding.jobs import ExitHint, SessionKey, Verify
from outrider.decoding.policy.exit_calibration import observed_after
from outrider.decoding.policy.exit_predictions import AbortedVerification, ExitPredictions, learn_from_abort
from outrider.decoding.policy.session_estimates import SessionEstimates, VerificationOutcome
from outrider.decoding.protocol.sampling_rules import Sampling
from outrider.decoding.tuning import AdaptiveTuning

DRAFT = (1, 2, 3)
READY = (7, 8)


def exit_hint(*choices: int, exit: int = 0) -> ExitHint:
    return ExitHint(exit, 0, choices[0], 0.9, choices, (0.9,) * len(choices))


def aborted(estimates: SessionEstimates) -> ExitPredictions:
    """Return predictions after an abort: an exit predicted 1, 9 for DRAFT, and 1, 9 had a branch."""
    predictions = ExitPredictions(estimates)
    predictions.restart.begin(0.0)
    observation = predictions.observe(exit_hint(1, 9, 3, 4))
    predictions.restart.consider(
        DRAFT, predictions.outcomes(observation, DRAFT), lambda tokens: READY * (tokens == (1, 9)), 0.1
    )
    assert predictions.restart.should_abort and predictions.restart.tokens == ()
    predictions.on_aborted(DRAFT)
    return predictions


def judged(
    predictions: ExitPredictions,
    estimates: SessionEstimates,
    draft: tuple[int, ...],
    new: tuple[int, ...],
    compute_s: float = 0.1,
) -> None:
    """End the verification of a draft with these tokens, as the adaptive policy does."""
    job = Verify(SessionKey(Peer("", b""), 1), 1, (4,), draft, (), GREEDY, Sampling(), True, True)
    known = len(predictions.restart.tokens)
    predictions.learn_from_aborted(new)
    outcome = VerificationOutcome(job, new, len(new), len(new) - 1, 0, compute_s, True, None, None, 1.0)
    estimates.on_verdict(outcome, known)
    predictions.on_judged(draft, new)


def test_outcomes_below_the_least_probability_are_omitted():
    predictions = ExitPredictions(SessionEstimates(AdaptiveTuning(min_outcome_prob=0.47)))
    observation = predictions.observe(exit_hint(9, 8))
    assert [tokens for tokens, _ in predictions.outcomes(observation, (1,))] == [(1, 8)], (
        "the draft is likelier"
    )


def test_after_an_abort_the_next_verification_begins_with_the_predicted_tokens():
    predictions = aborted(SessionEstimates(EAGER))
    assert predictions.restart.tokens == (1, 9)
    predictions.forget()
    assert predictions.restart.tokens == ()


def test_exits_of_an_aborted_verification_are_judged_by_the_next_verdict():
    right, wrong = SessionEstimates(EAGER), SessionEstimates(EAGER)
    for estimates, new in ((right, (1, 9, 7, 8, 5)), (wrong, (1, 2, 6))):
        predictions = aborted(estimates)
        judged(predictions, estimates, (1, 9, *READY), new)
        assert predictions.restart.tokens == (), "the text is another"
    observation = observed_after(exit_hint(1, 9), None)
    chances = [
        dict(estimates.calibrator.outcomes(observation, (1, 2)))[(1, 9)] for estimates in (right, wrong)
    ]
    assert chances[0] > chances[1]


def test_tokens_predicted_by_exits_do_not_count_as_draft_tokens(monkeypatch):
    """The first two tokens are the exits' own; one token of the branch after them was accepted."""
    learnt = []
    monkeypatch.setattr(
        SessionEstimates,
        "on_draft_judged",
        lambda estimates, accepted, rejected: learnt.append((accepted, rejected)),
    )
    estimates = SessionEstimates(EAGER)
    predictions = aborted(estimates)
    judged(predictions, estimates, (1, 9, *READY), (1, 9, 7, 5))
    assert learnt == [(1, True), (1, True)], "the aborted draft, then the branch"


def test_a_verdict_without_a_forward_teaches_nothing_about_drafts(monkeypatch):
    learnt = []
    monkeypatch.setattr(
        SessionEstimates,
        "on_draft_judged",
        lambda estimates, accepted, rejected: learnt.append((accepted, rejected)),
    )
    estimates = SessionEstimates()
    judged(ExitPredictions(estimates), estimates, (), (5,), compute_s=0.0)
    assert learnt == []


def test_the_number_of_exit_tokens_in_a_verified_draft():
    predictions = aborted(SessionEstimates(EAGER))
    assert [predictions.num_exit_tokens(accepted, 4) for accepted in range(4)] == [1, 1, 0, 0]
    assert [predictions.num_exit_tokens(accepted, 2) for accepted in range(3)] == [1, 1, 1], (
        "no draft was ready after it"
    )
    predictions.restart.begin(1.0)
    draft = (1, 9, *READY)
    observation = predictions.observe(exit_hint(1, 9, 7, 6, 5))
    predictions.restart.consider(
        draft, predictions.outcomes(observation, draft), lambda tokens: (2,) * (tokens[-1] == 6), 1.1
    )
    predictions.on_aborted(draft)
    assert predictions.restart.tokens == (1, 9, 7, 6)
    assert [predictions.num_exit_tokens(accepted, 5) for accepted in range(5)] == [2, 2, 1, 1, 0]
    assert [predictions.num_exit_tokens(0, judged) for judged in range(5)] == [0, 0, 1, 1, 2], (
        "cut within them"
    )
    assert [predictions.num_exit_tokens(accepted, 4) for accepted in range(5)] == [2, 2, 1, 1, 1]
    predictions.forget()
    assert predictions.num_exit_tokens(0, 5) == 0


@pytest.mark.parametrize(
    ("new", "expected"),
    [((1, 2, 3, 4), (3, False)), ((1, 2, 6), (2, True)), ((1, 2), (2, False)), ((5,), (0, True))],
)
def test_a_later_verdict_shows_how_much_of_an_aborted_draft_was_right(monkeypatch, new, expected):
    learnt = []
    monkeypatch.setattr(
        SessionEstimates,
        "on_draft_judged",
        lambda estimates, accepted, rejected: learnt.append((accepted, rejected)),
    )
    learn_from_abort(SessionEstimates(), AbortedVerification(DRAFT, 0, []), new)
    assert learnt == [expected]
