# SPDX-License-Identifier: Apache-2.0
"""Which of two ways of working is faster, by the tokens a second that were realised with each."""

from __future__ import annotations

import statistics
from collections import deque
from math import sqrt

from outrider.decoding.policy.estimators import Throughput
from outrider.decoding.tuning import DEFAULT_TUNING, AdaptiveTuning


class _Way:
    """One way: its speed, and how many commits that is known from, with fading memory."""

    def __init__(self, tuning: AdaptiveTuning) -> None:
        self._memory = tuning.rate_memory
        self.throughput = Throughput(tuning)
        self.weight = 0.0

    def on_commit(self, num_tokens: int, now_s: float) -> None:
        self.throughput.on_commit(num_tokens, now_s)
        self.weight = self._memory * self.weight + 1.0

    @property
    def speed(self) -> float:
        return self.throughput.value


class SpeedTrials:
    """Of one session: whether to read the early exits of its forwards, where the cloud drafts too.

    At first some forwards of each way are timed. What their times say makes the first choice; from then on
    the speeds decide. The slower way is tried ever more seldom, for so short that it costs a share of
    `exit_trial_cost` at most, and the faster one is left at once where it is that no more.
    """

    def __init__(self, tuning: AdaptiveTuning = DEFAULT_TUNING) -> None:
        self._tuning = tuning
        self._ways = {True: _Way(tuning), False: _Way(tuning)}
        self._usual, self._on_trial = False, False
        self._commits, self._trials = 0, 0
        self._chosen = False
        self._costs: deque[float] = deque(maxlen=tuning.exit_cost_window)

    @property
    def reads(self) -> bool:
        """Whether to read the exits of the next forward."""
        if not self._tuning.gate_exits:
            return True
        return self._usual != self._on_trial

    def begin_text(self) -> None:
        """The time since the last text says nothing about speed."""
        for way in self._ways.values():
            way.throughput.begin_text()

    def on_forward(self, read: bool, compute_s: float, usual_s: float) -> None:
        """A forward took so long, those like it that are run the other way `usual_s`."""
        self._costs.append(compute_s / usual_s - 1.0 if read else usual_s / compute_s - 1.0)
        if len(self._costs) == self._tuning.min_exit_costs and not self._chosen:
            self._usual, self._on_trial, self._commits = self._cost < self._tuning.cheap_exit_share, False, 0
            self._chosen = True

    @property
    def _cost(self) -> float:
        """What reading the exits adds to a forward, as a share of it."""
        return statistics.median(self._costs) if self._costs else 0.0

    def on_commit(self, num_tokens: int, now_s: float, read: bool | None) -> None:
        """A verdict of so many tokens. `read`: whether the exits of its forward were read; None where it also
        did other robots' work.
        """
        if read != self.reads:
            self.begin_text()
            return
        self._ways[read].on_commit(num_tokens, now_s)
        self._commits += 1
        if self._ends():
            self._turn(now_s)

    def _ends(self) -> bool:
        """Whether to go on in the other way."""
        tuning = self._tuning
        if not self._chosen:
            return self._commits >= tuning.min_exit_costs
        if self._on_trial:
            return self._commits >= tuning.exit_trial_short
        if self._cost < tuning.free_exit_share:
            return False
        return self._is_slower or self._commits >= self._stay()

    @property
    def _is_slower(self) -> bool:
        """Whether the usual way is now slower than the other one was, beyond what chance does."""
        mine, other = self._ways[self._usual], self._ways[not self._usual]
        if min(mine.weight, other.weight) < self._tuning.exit_trial_short:
            return False
        noise = self._tuning.speed_noise / sqrt(min(mine.weight, other.weight))
        return mine.speed * (1.0 + noise) < other.speed

    def _stay(self) -> float:
        """For how many commits to work in the usual way."""
        tuning, (mine, other) = self._tuning, (self._ways[self._usual], self._ways[not self._usual])
        gap = max(0.0, 1.0 - other.speed / mine.speed) if mine.speed and other.weight else 0.0
        if not other.weight or not self._usual:
            gap = max(gap, 1.0 - (1.0 + tuning.cheap_exit_share) / (1.0 + self._cost))
        least = min(self._trials + 1, tuning.exit_trials_rarer) * tuning.exit_trial
        return max(least, tuning.exit_trial_short * gap / tuning.exit_trial_cost)

    def _turn(self, now_s: float) -> None:
        if self._on_trial and self._chosen:
            self._trials += 1
            if self._is_slower:
                self._usual, self._trials = not self._usual, 0
            self._on_trial = False
        else:
            self._on_trial = not self._on_trial
        self._commits = 0
        self.begin_text()
        self._ways[self.reads].throughput.on_commit(0, now_s)
