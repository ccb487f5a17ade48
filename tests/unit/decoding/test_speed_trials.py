"""Where the cloud drafts too, exits are read where that has proved faster."""

from __future__ import annotations

import pytest

from outrider.decoding.policy.speed_trials import SpeedTrials
from outrider.decoding.tuning import DEFAULT_TUNING, AdaptiveTuning

FORWARD_S = 0.1


def share_read(
    trials: SpeedTrials, verdicts: int, cost: float, tokens_read: float, start_s: float = 0.0
) -> float:
    """The share of so many forwards whose exits were read: that takes a share `cost` more, for so many tokens
    where a forward without yields 2.
    """
    count, now_s, written = 0, start_s, 0.0
    trials.begin_text()
    for _ in range(verdicts):
        read = trials.reads
        forward_s = FORWARD_S * (1.0 + cost * read)
        now_s += forward_s
        written += tokens_read if read else 2.0
        trials.on_forward(read, forward_s, FORWARD_S * (1.0 + cost * (not read)))
        trials.on_commit(int(written), now_s, read)
        written -= int(written)
        count += read
    return count / verdicts


@pytest.mark.parametrize(("cost", "tokens"), [(0.0, 2.0), (0.08, 3.0), (0.3, 4.0)])
def test_exits_that_are_free_or_make_it_faster_are_read(cost: float, tokens: float) -> None:
    assert share_read(SpeedTrials(), 2000, cost, tokens) > 0.85


@pytest.mark.parametrize(("cost", "tokens"), [(0.5, 2.0), (0.5, 2.4), (2.0, 3.0)])
def test_exits_that_make_it_slower_are_read_now_and_then(cost: float, tokens: float) -> None:
    trials = SpeedTrials()
    first, later = (share_read(trials, 1000, cost, tokens, start_s) for start_s in (0.0, 1e4))
    gap = 1.0 - tokens / (1.0 + cost) / 2.0
    assert 0.0 < first * gap < 2.0 * DEFAULT_TUNING.exit_trial_cost
    assert 0.0 < later * gap < 2.0 * DEFAULT_TUNING.exit_trial_cost


def test_what_changes_is_noticed() -> None:
    trials = SpeedTrials()
    assert share_read(trials, 500, 0.08, 3.0) > 0.8
    assert share_read(trials, 1500, 1.0, 2.0, start_s=1e4) < 0.3


def test_the_switch_reads_them_always() -> None:
    assert share_read(SpeedTrials(AdaptiveTuning().without("gate_exits")), 100, 2.0, 2.0) == 1.0


def test_forwards_that_were_shared_tell_nothing() -> None:
    trials = SpeedTrials()
    for now_s in range(100):
        trials.on_commit(5, float(now_s), None)
    assert share_read(trials, 1000, 0.5, 2.0, start_s=100.0) < 0.1
