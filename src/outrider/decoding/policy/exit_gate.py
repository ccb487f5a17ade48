# SPDX-License-Identifier: Apache-2.0
"""Whether to read the early exits of the next forwards, by the tokens that were realised with and without."""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

from outrider.decoding.policy.estimators import Deviation, ExponentialRatio
from outrider.decoding.tuning import DEFAULT_TUNING, AdaptiveTuning


class ExitTimes(NamedTuple):
    """Seconds of a step whose exits are not read; what reading them adds to a forward, as a share of it."""

    step_s: float
    cost: float


class ExitGate:
    """Of one session. One way is the usual one; the other is tried now and then.

    What a trial writes is compared with what the usual way wrote just before it. It ends as soon as it has
    lost more than `exit_trial_loss` tokens, beyond what chance does. The next one waits until all that they
    lose is a share of `exit_trial_cost`, and longer after each in vain. Exits with which less is written than
    plain steps would are left at once, and those of which nothing has come for a trial's length. Those that
    take next to no time are always read.
    """

    def __init__(self, tuning: AdaptiveTuning = DEFAULT_TUNING) -> None:
        self._tuning = tuning
        self._usual, self._on_trial, self._chosen = True, False, False
        self._last_s: float | None = None
        self._deviation = Deviation(tuning.speed_memory, tuning.speed_noise)
        """Of the tokens of a verdict."""
        self._begin_usual(True)

    def _begin_usual(self, reads: bool) -> None:
        """A way becomes the usual one, of whose speed nothing is known."""
        self._usual, self._on_trial = reads, False
        self._speed = ExponentialRatio(self._tuning.speed_memory, 0.0)
        self._behind = 0.0
        """Tokens that plain steps would have written more, lately."""
        self._in_vain = self._unused = 0
        self._wait(0.0)

    def _wait(self, lost: float) -> None:
        """Go on in the usual way, until a trial that lost so many tokens has cost little."""
        tuning = self._tuning
        self._on_trial, self._commits, self._gain = False, 0, 0.0
        rarer = min(self._in_vain + 1, tuning.exit_trials_rarer) * tuning.exit_trial
        self._stay = max(rarer, lost / tuning.exit_trial_cost)

    @property
    def is_quiet(self) -> bool:
        """Whether no trial has lost anything lately, so that something else may be tried."""
        return not self._on_trial and self._commits >= self._tuning.trials_apart

    @property
    def reads(self) -> bool:
        """Whether to read the exits of the next forward."""
        return self._usual != self._on_trial or not self._tuning.gate_exits

    def begin_text(self) -> None:
        """The time since the last text says nothing about speed."""
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
        """A verdict of so many tokens. Returns whether drafts make the text slower than plain steps would.

        `read`: whether the exits of its forward were read; None where it also did other robots' work.
        `times`: None as long as forwards have not been timed both ways. `may_try`: whether a trial may begin.
        `used`: whether anything was verified or drafted that exits can have brought.
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
            self._usual, self._on_trial = True, False
            return self._is_slow(num_tokens, seconds, times.step_s)
        if self._on_trial:
            self._judge_trial(num_tokens, seconds)
            return False
        self._unused = 0 if used else self._unused + 1
        if self._usual and self._unused >= self._tuning.exit_trial:
            self._begin_usual(False)
            return False
        return self._judge_usual(num_tokens, seconds, times.step_s, may_try)

    def _is_slow(self, num_tokens: int, seconds: float, step_s: float) -> bool:
        """Whether plain steps would have written more of late, beyond what chance does."""
        self._speed.add(num_tokens, seconds)
        self._behind = max(0.0, self._tuning.rate_memory * self._behind + seconds / step_s - num_tokens)
        if self._behind <= self._tuning.exit_trial_loss + self._deviation.value:
            return False
        self._behind = 0.0
        return True

    def _judge_usual(self, num_tokens: int, seconds: float, step_s: float, may_try: bool) -> bool:
        slow = self._is_slow(num_tokens, seconds, step_s)
        if slow and self._usual:
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
            self._begin_usual(not self._usual)
        elif ends or self._gain < -max(self._tuning.exit_trial_loss, chance):
            self._in_vain += 1
            self._wait(-self._gain)
