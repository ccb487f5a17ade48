"""Whether early exits are read: decided by the tokens written with and without them."""

from __future__ import annotations

import random

import pytest

from outrider.decoding.policy.exit_gate import ExitGate, ExitTimes
from outrider.decoding.tuning import DEFAULT_TUNING, AdaptiveTuning

FORWARD_S = 0.1


class Text:
    """Simulates a gate's text: its clock, its tokens, and how often the gate says that drafts slow it."""

    def __init__(self, gate: ExitGate | None = None) -> None:
        self.gate = gate or ExitGate()
        self.now_s, self.slow = 0.0, 0
        self._written, self._timed = 0.0, set()
        self._rng = random.Random(1)

    def reads(
        self,
        verdicts: int,
        cost: float,
        tokens_read: float,
        tokens: float = 2.0,
        noise: float = 0.0,
        used: bool = True,
    ) -> list[bool]:
        """Return for each forward whether its exits were read; reading takes a share `cost` more."""
        reads = []
        for _ in range(verdicts):
            read = self.gate.reads
            self._timed.add(read)
            self.now_s += FORWARD_S * (1.0 + cost * read)
            self._written += (tokens_read if read else tokens) + noise * self._rng.choice((-1.0, 1.0))
            whole = int(self._written)
            self._written -= whole
            times = ExitTimes(FORWARD_S, cost) if len(self._timed) == 2 else None
            self.slow += self.gate.on_commit(whole, self.now_s, read, times, used=used)
            reads.append(read)
        return reads


@pytest.mark.parametrize("tokens", [1.0, 2.0, 4.0])
def test_exits_that_cost_almost_nothing_are_always_read(tokens: float) -> None:
    assert Text().reads(1000, 0.02, tokens).count(False) <= 3


@pytest.mark.parametrize(("cost", "tokens"), [(0.08, 2.6), (0.2, 3.0), (0.2, 6.0), (0.8, 5.0)])
def test_exits_that_make_it_faster_are_read_and_trials_cost_little(cost: float, tokens: float) -> None:
    reads = Text().reads(4000, cost, tokens, noise=0.5)[1000:]
    gap = 1.0 - 2.0 * (1.0 + cost) / tokens
    assert reads.count(False) * gap <= 2.0 * DEFAULT_TUNING.exit_trial_cost * len(reads)


@pytest.mark.parametrize(("cost", "tokens"), [(0.2, 2.0), (0.2, 2.2), (0.6, 2.0), (2.0, 3.0)])
def test_exits_that_make_it_slower_are_read_now_and_then(cost: float, tokens: float) -> None:
    """Each of them may be right, but reading them takes more time than it saves."""
    reads = Text().reads(4000, cost, tokens, noise=0.5)[1000:]
    gap = 1.0 - tokens / (1.0 + cost) / 2.0
    assert 0 < reads.count(True) * gap <= 2.0 * DEFAULT_TUNING.exit_trial_cost * len(reads)


@pytest.mark.parametrize("cost", [0.08, 0.2, 0.8, 2.0])
def test_if_only_steps_pay_forty_steps_lose_at_most_one(cost: float) -> None:
    """A trial that loses much ends at once."""
    reads = Text().reads(1000, cost, 1.0, tokens=1.0)[60:]
    lost = [cost * sum(reads[at : at + 40]) for at in range(len(reads) - 40)]
    assert max(lost) <= max(cost, 1.0)


@pytest.mark.parametrize("cost", [0.08, 0.8])
def test_exits_that_make_the_text_slower_than_steps_are_dropped_at_once(cost: float) -> None:
    text = Text()
    assert text.reads(300, cost, 4.0, tokens=1.5, noise=0.5)[-1]
    assert text.reads(60, cost, 1.0, tokens=1.0)[40:].count(True) * cost <= 1.0


def test_a_change_of_speed_is_noticed() -> None:
    text = Text()
    assert text.reads(1000, 0.2, 2.0)[-100:].count(True) < 50
    assert text.reads(1000, 0.2, 4.0)[-100:].count(True) > 50


@pytest.mark.parametrize("cost", [0.01, 0.3])
def test_drafts_that_are_slower_than_steps_are_reported(cost: float) -> None:
    """This holds whether exits are free or not."""
    text = Text()
    text.reads(300, cost, 2.0)
    assert text.slow == 0
    text.reads(60, cost, 0.6, tokens=0.6)
    assert text.slow > 0


def test_exits_without_use_are_dropped_even_if_noise_hides_their_cost() -> None:
    text = Text()
    assert text.reads(300, 0.07, 3.5, tokens=3.0, noise=0.5)[-1]
    assert text.reads(300, 0.07, 3.0, tokens=3.0, noise=3.0, used=False)[20:].count(True) <= 20
    assert text.reads(600, 0.07, 4.5, tokens=3.0, noise=0.5)[-100:].count(True) > 50, "they are tried again"


def test_free_exits_are_read_even_without_use() -> None:
    assert Text().reads(200, 0.02, 3.0, tokens=3.0, used=False).count(False) <= 3


def test_no_trial_begins_while_something_else_is_tried() -> None:
    gate, count = ExitGate(), 0
    for number in range(400):
        count += gate.reads
        times = ExitTimes(FORWARD_S, 0.3) if number > 1 else None
        gate.on_commit(2, number * FORWARD_S, gate.reads, times, may_try=False)
    assert count <= 2


def test_shared_forwards_are_ignored() -> None:
    text = Text()
    text.reads(200, 0.2, 2.0)
    before = text.gate.reads
    for now in range(1000):
        text.gate.on_commit(9, float(now), None, ExitTimes(FORWARD_S, 0.2))
    assert text.gate.reads == before


def test_switched_off_exits_are_always_read() -> None:
    assert all(Text(ExitGate(AdaptiveTuning(gate_exits=False))).reads(500, 0.9, 1.0))
