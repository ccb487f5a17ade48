"""How far early exits can be relied on: learnt per position, from whether the exit agrees with the draft."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.decoding.jobs import ExitHint
from outrider.decoding.policy.exit_calibration import ExitCalibrator, ExitObservation, observed_after
from outrider.decoding.tuning import ExitPriors

steady = settings(max_examples=100, deadline=None, derandomize=True)


def once(hint: ExitHint) -> ExitObservation:
    """Return the observation of a hint that no other hint came before."""
    return observed_after(hint, None)


def chance(calibrator: ExitCalibrator, stance: str, confidence: float = 0.5) -> float:
    """Return the calibrated probability of a hint's only choice."""
    word = ExitHint(3, 0, 0, confidence, (0,), (confidence,))
    return calibrator.chance(stance, once(word).features(0))


def test_an_exit_that_agrees_with_the_draft_is_more_likely_right():
    calibrator = ExitCalibrator()
    assert chance(calibrator, "free", 0.6) == pytest.approx(0.6), (
        "at first the chance is the exit's own confidence"
    )
    for confidence in (0.2, 0.5, 0.9):
        agrees, differs, free = (chance(calibrator, one, confidence) for one in ("agrees", "differs", "free"))
        assert agrees > free > differs


@pytest.mark.parametrize("stance", ExitPriors._fields)
def test_calibrated_chances_follow_the_outcomes(stance):
    """A sure exit is right and an unsure one wrong; the estimates follow, whatever the prior."""
    calibrator = ExitCalibrator()
    for _ in range(300):
        for confidence in (0.3, 0.95):
            features = once(ExitHint(3, 0, 0, 0.5, (0,), (confidence,))).features(0)
            calibrator.on_outcome(stance, features, right=confidence > 0.5)
    assert chance(calibrator, stance, 0.3) < 0.1 and chance(calibrator, stance, 0.95) > 0.9
    others = [other for other in ExitPriors._fields if other != stance]
    fresh = ExitCalibrator()
    assert [chance(calibrator, other) for other in others] == [chance(fresh, other) for other in others]


@pytest.mark.parametrize("confidence", [0.0, 1.0, float("nan")])
def test_extreme_confidences_leave_finite_chances(confidence):
    calibrator = ExitCalibrator()
    features = once(ExitHint(3, 0, 0, 0.5, (0,), (confidence,))).features(0)
    for right in (True, False) * 50:
        calibrator.on_outcome("free", features, right)
    assert 0.0 < chance(calibrator, "free", confidence) < 1.0
    assert 0.0 < chance(calibrator, "free") < 1.0


def test_equal_choices_of_consecutive_exits_are_a_run():
    first, second, third = exit_word(4, 9, exit=0), exit_word(4, 8, exit=1), exit_word(4, 8, exit=3)
    observation = once(first)
    assert observation.runs == (1, 1)
    observation = observed_after(second, observation)
    assert observation.runs == (2, 1)
    assert observed_after(third, observation).runs == (3, 2)


def test_the_peak_confidence_of_a_run_is_kept():
    def word(exit: int, *sure: float) -> ExitHint:
        return ExitHint(exit, 0, 4, 0.5, (4, 9 - exit), sure)

    observation = observed_after(word(1, 0.7, 0.2), once(word(0, 0.9, 0.8)))
    assert observation.peaks == (0.9, 0.2), "the second choice is another"
    assert observed_after(word(2, 0.95, 0.1), observation).peaks == (0.95, 0.1)


def test_hints_of_an_aborted_verification_start_no_run():
    before = once(exit_word(4, 9, exit=2))
    assert observed_after(exit_word(4, 9, exit=0), before).runs == (1, 1), "another forward starts new runs"
    assert observed_after(exit_word(4, 9, 5, exit=3), before).runs == (1, 1, 1), "of another draft"


def test_repeated_choices_are_learnt_to_be_more_reliable():
    """The first hint is wrong; a choice that four exits have made is right."""
    calibrator, first = ExitCalibrator(), once(exit_word(9, 8))
    last = first
    for exit in (4, 5, 6):
        last = observed_after(exit_word(9, 8, exit=exit), last)
    for _ in range(300):
        calibrator.on_judged(first, (4,), (7,))
        calibrator.on_judged(last, (4,), (9,))
    chances = [dict(calibrator.outcomes(observation, (4,)))[(9,)] for observation in (first, last)]
    assert chances[0] < 0.1 < 0.9 < chances[1]


def exit_word(*choices: int, exit: int = 3) -> ExitHint:
    return ExitHint(exit, 0, choices[0], 0.5, choices, (0.5,) * len(choices))


def test_both_sides_of_a_contradiction_are_calibrated():
    """The exit contradicts the draft at its second token; nine times in ten the draft was right."""
    calibrator = ExitCalibrator()
    for number in range(300):
        new = (4, 9) if number % 10 == 0 else (4, 5, 8)
        calibrator.on_judged(once(exit_word(4, 9, 8)), (4, 5), new)
    outcomes = dict(calibrator.outcomes(once(exit_word(4, 9, 8)), (4, 5)))
    assert outcomes[(4, 9)] == pytest.approx(0.1, abs=0.06)
    assert outcomes[(4, 5, 8)] > 0.6


def test_beyond_a_rejection_nothing_is_learnt():
    calibrator = ExitCalibrator()
    for _ in range(150):
        calibrator.on_judged(once(exit_word(4, 9, 8)), (4, 5), (6,))
    assert chance(calibrator, "agrees") < 0.05
    assert [chance(calibrator, one) for one in ("differs", "free")] == [
        chance(ExitCalibrator(), one) for one in ("differs", "free")
    ]


tokens = st.lists(st.integers(0, 2), max_size=4).map(tuple)


@pytest.mark.lengthy
@steady
@given(tokens, st.lists(tokens, max_size=30), st.data())
def test_outcomes_are_distinct_and_their_chances_are_chances(draft, judged, data):
    choices = data.draw(st.tuples(*[st.integers(0, 2)] * (len(draft) + 1)))
    observation, calibrator = once(exit_word(*choices)), ExitCalibrator()
    for new in judged:
        calibrator.on_judged(observation, draft, new)
    outcomes = calibrator.outcomes(observation, draft)
    assert len({tokens for tokens, _ in outcomes}) == len(outcomes) > 0
    assert all(0.0 <= chance <= 1.0 for _, chance in outcomes)


@pytest.mark.parametrize("confidence", [0.1, 0.5, 0.9, 0.99, 1.0])
def test_chances_of_exclusive_outcomes_sum_to_at_most_1(confidence):
    observation = once(ExitHint(3, 0, 0, confidence, (4, 9, 8), (confidence,) * 3))
    for draft in ((4, 5), (1, 9), (7, 3)):
        assert sum(chance for _, chance in ExitCalibrator().outcomes(observation, draft)) <= 1.0 + 1e-9


def test_outcomes_below_the_least_chance_are_omitted():
    observation, draft = once(exit_word(4, 9, 8)), (4, 5)
    every = ExitCalibrator().outcomes(observation, draft)
    least = max(chance for _, chance in every)
    assert ExitCalibrator().outcomes(observation, draft, least=least) == [
        end for end in every if end[1] >= least
    ]


def test_a_choice_with_an_earlier_confident_exit_is_learnt_to_be_more_reliable():
    """Two exits in a row agree, and the second is half sure; the first is sure or not."""

    def observation_of(first: float) -> ExitObservation:
        words = [ExitHint(exit, 0, 9, 0.5, (9,), (sure,)) for exit, sure in ((3, first), (4, 0.5))]
        return observed_after(words[1], once(words[0]))

    calibrator = ExitCalibrator()
    for _ in range(100):
        calibrator.on_judged(observation_of(0.95), (), (9,))
        calibrator.on_judged(observation_of(0.4), (), (7,))
    chances = [dict(calibrator.outcomes(observation_of(first), ()))[(9,)] for first in (0.4, 0.95)]
    assert chances[0] < 0.1 < 0.9 < chances[1]


def test_late_changes_in_a_session_are_learnt():
    calibrator, features = ExitCalibrator(), once(exit_word(4)).features(0)
    for number in range(20_000):
        calibrator.on_outcome("free", features, right=number % 2 == 0)
    for _ in range(150):
        calibrator.on_outcome("free", features, right=False)
    assert calibrator.chance("free", features) < 0.2
