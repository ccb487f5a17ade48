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


def trained(
    steps: bool = True, drafts: bool = True, right: float = 0.8, tuning: AdaptiveTuning = DEFAULT_TUNING
) -> SessionEstimates:
    """Return estimates from steps and from drafts of four tokens, of which the share `right` was accepted."""
    estimates = SessionEstimates(tuning)
    for number in range(100):
        if steps:
            estimates.on_verified(0, STEP_S)
        if drafts:
            estimates.on_verified(4, VERIFY_S)
        estimates.on_draft_judged(int(5 * right), True)
        estimates.on_committed(3, number * VERIFY_S)
    return estimates


def after(tokens: tuple[int, ...]) -> tuple[int, ...]:
    return READY.get(tokens, ())


def rule_after(
    estimates: SessionEstimates, *outcomes: tuple[tuple[int, ...], float], elapsed_s: float = 0.01
) -> RestartRule:
    rule = RestartRule(estimates)
    rule.begin(7.0)
    rule.consider(DRAFT, outcomes, after, 7.0 + elapsed_s)
    return rule


def test_a_restart_begins_with_a_likely_outcome_that_a_ready_branch_continues():
    rule = rule_after(trained(), ((1, 9), 0.9))
    assert rule.should_abort and rule.tokens == ()
    rule.adopt_better()
    assert (rule.tokens, rule.chance) == ((1, 9), 0.9)


def test_without_a_ready_branch_a_restart_begins_with_the_exit_tokens_alone():
    rule = rule_after(trained(), ((1, 7), 0.95))
    rule.adopt_better()
    assert rule.tokens == (1, 7)


def test_no_restart_on_exit_tokens_alone_if_drafts_are_usually_ready():
    estimates = trained()
    for _ in range(20):
        estimates.on_ready(6, 4, 1)
    assert not rule_after(estimates, ((1, 7), 0.95)).should_abort
    assert rule_after(estimates, ((1, 9), 0.95)).should_abort
    assert rule_after(estimates, ((*DRAFT, 7), 0.95)).should_abort, (
        "few tokens are usually ready after a whole draft"
    )
    estimates.on_ready(6, 4, 4)
    assert not rule_after(estimates, ((*DRAFT, 7), 0.95)).should_abort
    step = RestartRule(estimates)
    step.begin(7.0)
    step.consider((), [((7,), 0.95)], after, 7.01)
    assert step.should_abort, "few are usually ready after a step"


def test_the_time_to_restart_is_learnt_and_lowers_the_gain():
    estimates = trained()
    gain = estimates.gain_of_restart(0.95, 4, 2, 0, 0.01)
    rule = rule_after(estimates, ((1, 7), 0.95))
    assert rule.should_abort
    rule.adopt_better()
    rule.begin(7.01 + STEP_S)
    rule.begin(9.0)
    assert gain > 0.0 > estimates.gain_of_restart(0.95, 4, 2, 0, 0.01)
    assert not rule_after(estimates, ((1, 7), 0.95)).should_abort
    for _ in range(DEFAULT_TUNING.forward_window + 1):
        estimates.on_verified(0, STEP_S)
    assert rule_after(estimates, ((1, 7), 0.95)).should_abort, "the restart time is forgotten"


def test_one_slow_restart_does_not_count():
    estimates = trained()
    for after_s in (0.001, 0.4, 3.0, 0.3):
        estimates.times.on_begun_again(after_s)
    assert rule_after(estimates, ((1, 7), 0.95)).should_abort


def test_a_restart_that_was_not_adopted_is_not_timed():
    """For example if other robots share the batch, or if another text begins."""
    estimates = trained()
    for discard in (RestartRule.drop, lambda rule: None):
        rule = rule_after(estimates, ((1, 7), 0.95))
        assert rule.should_abort
        discard(rule)
        rule.begin(9.0)
    assert estimates.times.begin_again_s == 0.0


def test_no_restart_for_tokens_that_the_running_draft_contains():
    rule = RestartRule(trained())
    rule.begin(7.0)
    for draft in ((1, 9, 5, 6, 7, 8), (1, 9, 5, 6, 7, 8, 9)):
        rule.consider(draft, [((1, 9), 1.0)], after, 7.0)
        assert not rule.should_abort
    rule.consider((1, 9, 5, 6, 7), [((1, 9), 1.0)], after, 7.0)
    assert rule.should_abort, "the branch is longer"


def test_the_likelier_outcome_is_chosen():
    rule = rule_after(trained(), ((8,), 0.85), ((1, 9), 0.95), ((8,), 0.9))
    rule.adopt_better()
    assert rule.tokens == (1, 9)


def test_of_equally_likely_outcomes_the_one_with_more_ready_tokens_is_chosen():
    estimates = trained()
    estimates.on_ready(4, 4, 0)
    estimates.on_ready(4, 4, 4)
    rule = rule_after(estimates, ((1, 2, 3, 4, 5), 0.9), ((8,), 0.9))
    rule.adopt_better()
    assert rule.tokens == (8,)


@pytest.mark.parametrize(("chance", "elapsed_s"), [(0.2, 0.01), (0.95, 0.058)])
def test_no_restart_for_an_unlikely_or_late_outcome(chance, elapsed_s):
    assert not rule_after(trained(), ((1, 9), chance), elapsed_s=elapsed_s).should_abort


@pytest.mark.parametrize("right", [0.0, 0.4, 0.8])
def test_the_gain_falls_with_time_and_with_lower_probability(right):
    estimates = trained(right=right)
    times_s = [share * VERIFY_S for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
    for chance in (0.3, 0.9):
        gains = [estimates.gain_of_restart(chance, 4, 2, 4, time_s) for time_s in times_s]
        assert gains == sorted(gains, reverse=True) and len(set(gains)) == 5
        assert gains[-1] < 0.0
    by_chance = [estimates.gain_of_restart(chance, 4, 2, 4, 0.01) for chance in (0.1, 0.5, 0.9)]
    assert by_chance == sorted(by_chance) and len(set(by_chance)) == 3
    assert estimates.gain_of_restart(1.0, 4, 2, 4, 0.0) > 0.0


def test_a_short_ready_branch_gains_less_if_more_tokens_are_expected():
    estimates = trained()
    estimates.on_ready(4, 4, 1)
    gains = [estimates.gain_of_restart(0.9, 4, 2, ready, 0.01) for ready in (1, 2, 4)]
    assert gains == sorted(gains) and len(set(gains)) == 3


def test_no_restart_before_a_step_has_been_timed():
    for estimates in (SessionEstimates(), trained(steps=False)):
        assert estimates.gain_of_restart(1.0, 4, 2, 4, 0.0) == 0.0
        assert not rule_after(estimates, ((1, 9), 1.0), elapsed_s=0.0).should_abort


def test_a_step_may_be_restarted_if_no_draft_was_ever_verified():
    """A verification, which has not been timed yet, is assumed to take as long as a step."""
    assert trained(drafts=False).gain_of_restart(1.0, 0, 1, 0, 0.0) > 0.0


def test_a_wrong_restart_loses_the_correct_rest_of_the_draft():
    estimates = trained(right=0.9)
    early, late = (estimates.gain_of_restart(0.0, 8, named, 0, 0.01) for named in (1, 8))
    assert early < late - 2.0


def test_a_new_verification_drops_a_restart_that_was_not_adopted():
    rule = rule_after(trained(), ((1, 9), 0.9))
    rule.begin(8.0)
    assert not rule.should_abort
    rule.adopt_better()
    assert (rule.tokens, rule.chance) == ((), 1.0)


def test_time_counts_from_the_start_of_the_last_verification():
    rule = rule_after(trained(), ((1, 9), 0.9), elapsed_s=10.0)
    assert not rule.should_abort
    rule.begin(17.0)
    rule.consider(DRAFT, [((1, 9), 0.9)], after, 17.01)
    assert rule.should_abort


def test_restarts_repeat_while_the_exits_are_confident():
    rule, text, chance = RestartRule(trained()), (1,), 1.0
    for token in range(20, 60):
        rule.begin(7.0 + 0.006 * token)
        rule.consider((), [(text, chance)], after, 7.005 + 0.006 * token)
        if not rule.should_abort:
            break
        rule.adopt_better()
        assert rule.tokens == text and rule.ends == tuple(range(len(text)))
        text, chance = (*text, token), chance * 0.95
    assert 3 < len(text) < 30, "all of it must be right"
    rule.drop()
    assert (rule.tokens, rule.chance) == ((), 1.0)


@pytest.mark.parametrize(("excess", "aborts"), [(0.1, False), (-0.1, True)])
def test_a_verification_is_aborted_only_for_the_least_gain(excess, aborts):
    gain = trained().gain_of_restart(0.9, 4, 2, 4, 0.01)
    worth_it = AdaptiveTuning(min_restart_gain=gain + excess)
    assert rule_after(trained(tuning=worth_it), ((1, 9), 0.9)).should_abort is aborts
