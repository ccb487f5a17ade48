"""When a running verification should be aborted: the rule alone, with estimates learnt beforehand."""

from __future__ import annotations

import pytest

from outrider.decoding.policy.exit_predictions import RestartRule
from outrider.decoding.policy.session_estimates import SessionEstimates
from outrider.decoding.tuning import DEFAULT_TUNING, AdaptiveTuning

STEP_S, VERIFY_S = 0.05, 0.06
DRAFT = (1, 2, 3, 4)
READY = {(1, 9): (5, 6, 7, 8), (8,): (5, 6, 7, 8), (1, 2, 3, 4, 5): (6, 7, 8)}
"""The branches that are ready, by the outcome that they continue."""


def taught(
    steps: bool = True, drafts: bool = True, right: float = 0.8, tuning: AdaptiveTuning = DEFAULT_TUNING
) -> SessionEstimates:
    """Return estimates from steps and from drafts of four tokens, of which the share `right` was accepted."""
    pace = SessionEstimates(tuning)
    for number in range(100):
        if steps:
            pace.on_verified(0, STEP_S)
        if drafts:
            pace.on_verified(4, VERIFY_S)
        pace.on_draft_judged(int(5 * right), True)
        pace.on_committed(3, number * VERIFY_S)
    return pace


def after(tokens: tuple[int, ...]) -> tuple[int, ...]:
    return READY.get(tokens, ())


def aiming(
    pace: SessionEstimates, *outcomes: tuple[tuple[int, ...], float], elapsed_s: float = 0.01
) -> RestartRule:
    aim = RestartRule(pace)
    aim.begin(7.0)
    aim.look(DRAFT, outcomes, after, 7.0 + elapsed_s)
    return aim


def test_a_likely_outcome_is_aimed_at_where_a_branch_goes_on_from_it():
    aim = aiming(taught(), ((1, 9), 0.9))
    assert aim.is_better and aim.tokens == ()
    aim.take()
    assert (aim.tokens, aim.chance) == ((1, 9), 0.9)


def test_where_no_branch_is_ready_the_target_goes_on_from_what_its_exits_say():
    aim = aiming(taught(), ((1, 7), 0.95))
    aim.take()
    assert aim.tokens == (1, 7)


def test_that_is_left_to_drafts_where_they_lie_ready_in_time():
    pace = taught()
    for _ in range(20):
        pace.on_ready(6, 4, 1)
    assert not aiming(pace, ((1, 7), 0.95)).is_better
    assert aiming(pace, ((1, 9), 0.95)).is_better
    assert aiming(pace, ((*DRAFT, 7), 0.95)).is_better, "not so where all of a draft stood"
    pace.on_ready(6, 4, 4)
    assert not aiming(pace, ((*DRAFT, 7), 0.95)).is_better
    step = RestartRule(pace)
    step.begin(7.0)
    step.look((), [((7,), 0.95)], after, 7.01)
    assert step.is_better, "nor where there was none"


def test_what_it_takes_to_begin_again_is_learnt_and_counts():
    pace = taught()
    gain = pace.gain_of_restart(0.95, 4, 2, 0, 0.01)
    aim = aiming(pace, ((1, 7), 0.95))
    assert aim.is_better
    aim.take()
    aim.begin(7.01 + STEP_S)
    aim.begin(9.0)
    assert gain > 0.0 > pace.gain_of_restart(0.95, 4, 2, 0, 0.01)
    assert not aiming(pace, ((1, 7), 0.95)).is_better
    for _ in range(DEFAULT_TUNING.forward_window + 1):
        pace.on_verified(0, STEP_S)
    assert aiming(pace, ((1, 7), 0.95)).is_better, "it may be otherwise by now"


def test_what_comes_between_now_and_then_does_not_count():
    pace = taught()
    for after_s in (0.001, 0.4, 3.0, 0.3):
        pace.times.on_begun_again(after_s)
    assert aiming(pace, ((1, 7), 0.95)).is_better


def test_what_was_found_and_not_taken_was_not_left():
    """For example if other robots share the batch, or if another text begins."""
    pace = taught()
    for end in (RestartRule.drop, lambda aim: None):
        aim = aiming(pace, ((1, 7), 0.95))
        assert aim.is_better
        end(aim)
        aim.begin(9.0)
    assert pace.times.begin_again_s == 0.0


def test_what_the_running_draft_covers_already_is_no_better():
    aim = RestartRule(taught())
    aim.begin(7.0)
    for draft in ((1, 9, 5, 6, 7, 8), (1, 9, 5, 6, 7, 8, 9)):
        aim.look(draft, [((1, 9), 1.0)], after, 7.0)
        assert not aim.is_better
    aim.look((1, 9, 5, 6, 7), [((1, 9), 1.0)], after, 7.0)
    assert aim.is_better, "the branch is longer"


def test_the_likelier_outcome_is_aimed_at():
    aim = aiming(taught(), ((8,), 0.85), ((1, 9), 0.95), ((8,), 0.9))
    aim.take()
    assert aim.tokens == (1, 9)


def test_of_equals_that_with_more_ready_is_aimed_at():
    pace = taught()
    pace.on_ready(4, 4, 0)
    pace.on_ready(4, 4, 4)
    aim = aiming(pace, ((1, 2, 3, 4, 5), 0.9), ((8,), 0.9))
    aim.take()
    assert aim.tokens == (8,)


@pytest.mark.parametrize(("chance", "elapsed_s"), [(0.2, 0.01), (0.95, 0.058)])
def test_what_is_unlikely_or_comes_late_is_not_aimed_at(chance, elapsed_s):
    assert not aiming(taught(), ((1, 9), chance), elapsed_s=elapsed_s).is_better


@pytest.mark.parametrize("right", [0.0, 0.4, 0.8])
def test_the_gain_falls_with_time_and_doubt_and_is_a_loss_at_the_end(right):
    pace = taught(right=right)
    times_s = [share * VERIFY_S for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
    for chance in (0.3, 0.9):
        gains = [pace.gain_of_restart(chance, 4, 2, 4, time_s) for time_s in times_s]
        assert gains == sorted(gains, reverse=True) and len(set(gains)) == 5
        assert gains[-1] < 0.0
    by_chance = [pace.gain_of_restart(chance, 4, 2, 4, 0.01) for chance in (0.1, 0.5, 0.9)]
    assert by_chance == sorted(by_chance) and len(set(by_chance)) == 3
    assert pace.gain_of_restart(1.0, 4, 2, 4, 0.0) > 0.0


def test_a_branch_that_is_short_gains_less_where_more_would_come():
    pace = taught()
    pace.on_ready(4, 4, 1)
    gains = [pace.gain_of_restart(0.9, 4, 2, ready, 0.01) for ready in (1, 2, 4)]
    assert gains == sorted(gains) and len(set(gains)) == 3


def test_nothing_is_aimed_at_before_a_step_has_been_timed():
    for pace in (SessionEstimates(), taught(steps=False)):
        assert pace.gain_of_restart(1.0, 4, 2, 4, 0.0) == 0.0
        assert not aiming(pace, ((1, 9), 1.0), elapsed_s=0.0).is_better


def test_where_no_draft_has_ever_come_steps_are_left_for_what_exits_say():
    """A verification, which has not been timed yet, is assumed to take as long as a step."""
    assert taught(drafts=False).gain_of_restart(1.0, 0, 1, 0, 0.0) > 0.0


def test_a_wrong_aim_loses_what_the_draft_has_right_beyond_it():
    pace = taught(right=0.9)
    early, late = (pace.gain_of_restart(0.0, 8, named, 0, 0.01) for named in (1, 8))
    assert early < late - 2.0


def test_a_verification_that_begins_forgets_what_was_not_taken():
    aim = aiming(taught(), ((1, 9), 0.9))
    aim.begin(8.0)
    assert not aim.is_better
    aim.take()
    assert (aim.tokens, aim.chance) == ((), 1.0)


def test_time_counts_from_the_beginning_of_the_last_verification():
    aim = aiming(taught(), ((1, 9), 0.9), elapsed_s=10.0)
    assert not aim.is_better
    aim.begin(17.0)
    aim.look(DRAFT, [((1, 9), 0.9)], after, 17.01)
    assert aim.is_better


def test_a_verification_is_aimed_anew_while_its_exits_are_sure():
    aim, text, chance = RestartRule(taught()), (1,), 1.0
    for token in range(20, 60):
        aim.begin(7.0 + 0.006 * token)
        aim.look((), [(text, chance)], after, 7.005 + 0.006 * token)
        if not aim.is_better:
            break
        aim.take()
        assert aim.tokens == text and aim.ends == tuple(range(len(text)))
        text, chance = (*text, token), chance * 0.95
    assert 3 < len(text) < 30, "all of it must be right"
    aim.drop()
    assert (aim.tokens, aim.chance) == ((), 1.0)


@pytest.mark.parametrize(("more", "leaves"), [(0.1, False), (-0.1, True)])
def test_a_verification_is_left_only_for_a_gain_that_is_worth_it(more, leaves):
    gain = taught().gain_of_restart(0.9, 4, 2, 4, 0.01)
    worth_it = AdaptiveTuning(min_restart_gain=gain + more)
    assert aiming(taught(tuning=worth_it), ((1, 9), 0.9)).is_better is leaves
