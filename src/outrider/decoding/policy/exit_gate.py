# SPDX-License-Identifier: Apache-2.0
"""Whether to read the early exits of the next forwards, by the speed that was realised with and without."""

from __future__ import annotations

import statistics
from collections import deque

from outrider.decoding.policy.estimators import Throughput
from outrider.decoding.tuning import DEFAULT_TUNING, AdaptiveTuning


class ExitGate:
    """Of one session. Exits that take next to no time are always read; else both ways are tried in turn.

    The faster way is kept for so long that trying the other one costs a share of `exit_trial_cost`.
    """

    def __init__(self, tuning: AdaptiveTuning = DEFAULT_TUNING) -> None:
        self._tuning = tuning
        self._costs: deque[float] = deque(maxlen=tuning.exit_cost_window)
        """What reading the exits adds to a forward, as shares of it."""
        self._speeds = {True: Throughput(tuning), False: Throughput(tuning)}
        self._reads, self._commits = True, 0
        self._last_read, self._alike = True, 0
        """Whether the last forward's exits were read, and of how many in a row that is so."""

    @property
    def reads(self) -> bool:
        """Whether to read the exits of the next forward."""
        return self._reads or not self._tuning.gate_exits

    def begin_text(self) -> None:
        """The time since the last text says nothing about speed."""
        self._forget_time()

    def on_forward(self, read: bool, compute_s: float, usual_s: float) -> None:
        """A forward took so long, those like it before `usual_s`; its exits were read or not."""
        if read != self._last_read and self._alike >= self._tuning.exit_trials_first:
            change_s = compute_s - usual_s if read else usual_s - compute_s
            self._costs.append(change_s / usual_s)
        self._alike = self._alike + 1 if read == self._last_read else 1
        self._last_read = read

    def on_commit(self, num_tokens: int, now_s: float, read: bool | None) -> None:
        """A verdict of so many tokens. `read`: whether the exits of its forward were read; None where it also
        did other robots' work.
        """
        if read != self._reads:
            self._forget_time()
            return
        self._speeds[read].on_commit(num_tokens, now_s)
        self._commits += 1
        if self._commits >= self._length():
            self._reads, self._commits = not self._reads, 0
            self._forget_time()
            self._speeds[self._reads].on_commit(0, now_s)

    def _length(self) -> float:
        """For how many verdicts to go on as it is."""
        tuning = self._tuning
        if len(self._costs) < tuning.min_exit_costs:
            return tuning.exit_trials_first if self._reads else 1
        if statistics.median(self._costs) < tuning.free_exit_share:
            return tuning.exit_trials_read if self._reads else 1
        mine, other = self._speeds[self._reads].value, self._speeds[not self._reads].value
        gap = max(0.0, 1.0 - other / mine) if mine > 0.0 else 0.0
        return tuning.exit_trial * max(1.0, gap / tuning.exit_trial_cost)

    def _forget_time(self) -> None:
        for speed in self._speeds.values():
            speed.begin_text()
