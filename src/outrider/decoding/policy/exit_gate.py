# SPDX-License-Identifier: Apache-2.0
"""Whether to read early exits in the next forwards, by the tokens written with and without them."""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

from outrider.decoding.policy.estimators import Deviation, ExponentialRatio
from outrider.decoding.tuning import DEFAULT_TUNING, AdaptiveTuning


class ExitTimes(NamedTuple):
    """`step_s`: seconds of a step without reading exits. `cost`: the share that reading adds to a forward."""

    step_s: float
    cost: float


class ExitGate:
    """Decides for one session whether exits are read. One mode is usual; the other is tried at times.

    A trial is compared with the speed of the usual mode just before it. It ends once it has lost more than
    `exit_trial_loss` tokens and more than chance explains. The next one waits for at least `loss /
    exit_trial_cost` verdicts, and for longer after each failed trial. Reading ends as soon as clearly fewer
    tokens are written than by plain steps, or if the exits have been of no use for `exit_trial` verdicts.
    Exits that take almost no time are always read.
    """

    def __init__(self, tuning: AdaptiveTuning = DEFAULT_TUNING) -> None:
        self._tuning = tuning
        self._reads_usually, self._on_trial, self._chosen = True, False, False
        self._last_s: float | None = None
        self._deviation = Deviation(tuning.speed_memory, tuning.speed_noise)
        """Standard deviation of the tokens per verdict."""
        self._begin_usual(True)

    def _begin_usual(self, reads: bool) -> None:
        """Start a usual mode; its speed is not known yet."""
        self._reads_usually, self._on_trial = reads, False
        self._speed = ExponentialRatio(self._tuning.speed_memory, 0.0)
        self._behind = 0.0
        """Tokens by which the text has recently fallen behind plain steps."""
        self._in_vain = self._unused = 0
        self._wait(0.0)

    def _wait(self, lost: float) -> None:
        """Stay in the usual mode until a trial that lost `lost` tokens has cost little."""
        tuning = self._tuning
        self._on_trial, self._commits, self._gain = False, 0, 0.0
        rarer = min(self._in_vain + 1, tuning.exit_trials_rarer) * tuning.exit_trial
        self._stay = max(rarer, lost / tuning.exit_trial_cost)

    @property
    def is_quiet(self) -> bool:
        """Whether no trial is running and the last one ended `trials_apart` verdicts ago, so that something
        else may be tried.
        """
        return not self._on_trial and self._commits >= self._tuning.trials_apart

    @property
    def reads(self) -> bool:
        """Whether to read the exits of the next forward."""
        return self._reads_usually != self._on_trial or not self._tuning.gate_exits

    def begin_text(self) -> None:
        """Ignore the time since the last text: it is not a measure of speed."""
        self._last_s = None

    def on_commit(
        self,
        num_tokens: int,
        now_s: float,
        read: bool | None,
        times: ExitTimes | None,
        may_try: bool = True,
        used: bool = True,
    ) -> bool:
        """Record a verdict. Return whether drafts make the text slower than plain steps would.

        `read`: whether the exits of its forward were read; None if other robots' work was in the forward
        too, or if there was none. `times`: None until forwards were timed in both modes. `may_try`: whether
        a trial may begin. `used`: whether anything was verified or drafted that may come from exits.
        """
        last_s, self._last_s = self._last_s, now_s
        if last_s is None or read != self.reads:
            return False
        seconds = now_s - last_s
        self._deviation.add(num_tokens)
        self._commits += 1
        if times is None:
            self._on_trial = not self._on_trial
            return False
        if not self._chosen:
            self._chosen = True
            self._begin_usual(times.cost < self._tuning.cheap_exit_share)
        if times.cost < self._tuning.free_exit_share:
            self._reads_usually, self._on_trial = True, False
            return self._is_slow(num_tokens, seconds, times.step_s)
        if self._on_trial:
            self._judge_trial(num_tokens, seconds)
            return False
        self._unused = 0 if used else self._unused + 1
        if self._reads_usually and self._unused >= self._tuning.exit_trial:
            self._begin_usual(False)
            return False
        return self._judge_usual(num_tokens, seconds, times.step_s, may_try)

    def _is_slow(self, num_tokens: int, seconds: float, step_s: float) -> bool:
        """Whether plain steps would recently have written more, beyond what chance explains."""
        self._speed.add(num_tokens, seconds)
        self._behind = max(0.0, self._tuning.rate_memory * self._behind + seconds / step_s - num_tokens)
        if self._behind <= self._tuning.exit_trial_loss + self._deviation.value:
            return False
        self._behind = 0.0
        return True

    def _judge_usual(self, num_tokens: int, seconds: float, step_s: float, may_try: bool) -> bool:
        slow = self._is_slow(num_tokens, seconds, step_s)
        if slow and self._reads_usually:
            self._begin_usual(False)
            return False
        if self._commits >= self._stay and may_try:
            self._on_trial, self._commits = True, 0
        return slow

    def _judge_trial(self, num_tokens: int, seconds: float) -> None:
        self._gain += num_tokens - self._speed.value * seconds
        chance = self._deviation.value * sqrt(self._commits)
        ends = self._commits >= self._tuning.exit_trial
        if ends and self._gain > chance:
            self._begin_usual(not self._reads_usually)
        elif ends or self._gain < -max(self._tuning.exit_trial_loss, chance):
            self._in_vain += 1
            self._wait(-self._gain)
