"""Whether early exits are read: decided by the speed that was realised with and without them."""

from __future__ import annotations

import pytest

from outrider.decoding.policy.exit_gate import ExitGate
from outrider.decoding.tuning import DEFAULT_TUNING, AdaptiveTuning

FORWARD_S = 0.1


def reads(
    gate: ExitGate, verdicts: int, cost: float, tokens_read: float, tokens_unread: float = 2.0
) -> list[bool]:
    """Which of so many forwards had their exits read: that takes a share `cost` more, for so many tokens."""
    said, now_s, written = [], 0.0, 0.0
    for _ in range(verdicts):
        read = gate.reads
        usual = said[-1] if said else True
        forward_s = FORWARD_S * (1.0 + cost * read)
        now_s += forward_s
        written += tokens_read if read else tokens_unread
        gate.on_forward(read, forward_s, FORWARD_S * (1.0 + cost * usual))
        gate.on_commit(int(written), now_s, read)
        written -= int(written)
        said.append(read)
    return said


@pytest.mark.parametrize("tokens", [1.0, 2.0, 4.0])
def test_exits_that_cost_next_to_nothing_are_read_whatever_comes_of_it(tokens: float) -> None:
    said = reads(ExitGate(), 1000, 0.02, tokens)
    assert said.count(False) <= 3 + 1000 // DEFAULT_TUNING.exit_trials_read


@pytest.mark.parametrize(("cost", "tokens"), [(0.08, 2.6), (0.2, 3.0), (0.2, 6.0)])
def test_exits_that_make_it_faster_are_read_and_trials_cost_little(cost: float, tokens: float) -> None:
    said = reads(ExitGate(), 4000, cost, tokens)[1000:]
    gap = 1.0 - 2.0 * (1.0 + cost) / tokens
    assert said.count(False) * gap <= 2.0 * DEFAULT_TUNING.exit_trial_cost * len(said)


@pytest.mark.parametrize(("cost", "tokens"), [(0.2, 2.0), (0.2, 2.2), (0.6, 2.0)])
def test_exits_that_make_it_slower_are_read_now_and_then(cost: float, tokens: float) -> None:
    """Though each of them may say what is true."""
    said = reads(ExitGate(), 4000, cost, tokens)[1000:]
    gap = 1.0 - tokens / (1.0 + cost) / 2.0
    assert 0 < said.count(True) * gap <= 2.0 * DEFAULT_TUNING.exit_trial_cost * len(said)


def test_what_changes_is_noticed() -> None:
    gate = ExitGate()
    assert reads(gate, 1000, 0.2, 2.0)[-100:].count(True) < 50
    assert reads(gate, 1000, 0.2, 4.0)[-100:].count(True) > 50


def test_forwards_that_were_shared_tell_nothing() -> None:
    gate = ExitGate()
    reads(gate, 200, 0.2, 2.0)
    before = gate.reads
    for now in range(1000):
        gate.on_commit(9, float(now), None)
    assert gate.reads == before


def test_switched_off_exits_are_always_read() -> None:
    assert all(reads(ExitGate(AdaptiveTuning(gate_exits=False)), 500, 0.9, 1.0))
