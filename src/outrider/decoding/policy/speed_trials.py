# SPDX-License-Identifier: Apache-2.0
"""Which of two ways of working is faster, by the tokens a second that were realised with each."""

from __future__ import annotations

import statistics
from collections import deque
from math import sqrt

from outrider.decoding.policy.estimators import ExponentialRatio, RelativeSpread, Throughput
from outrider.decoding.tuning import DEFAULT_TUNING, AdaptiveTuning


class SpeedTrials:
    """Of one session: whether to read the early exits of its forwards, where the cloud drafts too.

    At first some forwards of each way are timed. What their times say makes the first choice; from then on
    the speeds decide. The slower way is tried ever more seldom, and for so short that a trial costs no more
    than `exit_trial_loss` forwards, all of them a share of `exit_trial_cost`. What a trial writes is compared
    with what the usual way wrote just before it: speeds of long ago may be those of another machine.
    """

    def __init__(self, tuning: AdaptiveTuning = DEFAULT_TUNING) -> None:
        self._tuning = tuning
        self._usual, self._on_trial, self._chosen = False, False, False
        self._commits, self._forwards, self._trials = 0, 0, 0
        """Since the last turn, and trials since the usual way is the usual one."""
        self._left = 0
        """Forwards between the last turn and the one before."""
        self._costs: deque[float] = deque(maxlen=tuning.exit_cost_window)
        self._spread = RelativeSpread(tuning)
        """Of the tokens of a commit."""
        self._trial = Throughput(tuning)
        self._begin_usual(Throughput(tuning))

    def _begin_usual(self, before: Throughput) -> None:
        """A way becomes the usual one, whose speed so far is known or not."""
        self._before, self._lately = before, Throughput(self._tuning, self._tuning.speed_memory)
        self._forget_trials()

    def _forget_trials(self) -> None:
        self._slowed = False
        """Whether the usual way has become slower since the last turn: the other may be faster now."""
        self._lead, self._tried = ExponentialRatio(self._tuning.rate_memory, 0.0), 0.0

    @property
    def reads(self) -> bool:
        """Whether to read the exits of the next forward."""
        if not self._tuning.gate_exits:
            return True
        return self._usual != self._on_trial

    def begin_text(self) -> None:
        """The time since the last text says nothing about speed."""
        for speed in (self._before, self._lately, self._trial):
            speed.begin_text()

    def on_forward(self, read: bool, compute_s: float, usual_s: float) -> None:
        """A forward took so long, those like it that are run the other way `usual_s`. That says what exits
        cost where the other way was left just now, after some forwards: else the machine may be another.
        """
        self._forwards += 1
        if self._forwards > self._tuning.exit_cost_window or self._left < self._tuning.min_exit_costs:
            return
        self._costs.append(compute_s / usual_s - 1.0 if read else usual_s / compute_s - 1.0)
        if len(self._costs) == self._tuning.min_exit_costs and not self._chosen:
            self._usual, self._on_trial, self._commits = self._cost < self._tuning.cheap_exit_share, False, 0
            self._chosen = True
            self._begin_usual(Throughput(self._tuning))

    @property
    def _cost(self) -> float:
        """What reading the exits adds to a forward, as a share of it."""
        return statistics.median(self._costs) if self._costs else 0.0

    @property
    def _free(self) -> bool:
        return self._cost < self._tuning.free_exit_share

    def on_commit(self, num_tokens: int, now_s: float, read: bool | None) -> None:
        """A verdict of so many tokens. `read`: whether the exits of its forward were read; None where it also
        did other robots' work.
        """
        if read != self.reads:
            self.begin_text()
            return
        self._commits += 1
        self._spread.add(num_tokens)
        if self._on_trial:
            self._learn_from_trial(num_tokens, now_s)
        else:
            self._before.on_commit(num_tokens, now_s)
            self._lately.on_commit(num_tokens, now_s)
            self._notice_change()
        if self._ends():
            self._turn(now_s)

    def _learn_from_trial(self, num_tokens: int, now_s: float) -> None:
        seconds = self._trial.on_commit(num_tokens, now_s)
        if self._before.value and seconds:
            self._lead.add(num_tokens, self._before.value * seconds)
            self._tried = self._tuning.rate_memory * self._tried + 1.0

    def _notice_change(self) -> None:
        """Forget the usual way's speed of before where it has changed, beyond what chance does."""
        tuning = self._tuning
        chance = 2.0 * self._spread.value / sqrt(tuning.exit_trial_short)
        factor = 1.0 + max(tuning.cheap_exit_share, chance)
        before, lately = self._before.value, self._lately.value
        if max(before, lately) > factor * min(before, lately):
            if lately < before and not self._slowed:
                self._slowed, self._commits = True, 0
            self._before = self._lately.with_memory(tuning.rate_memory)

    def _ends(self) -> bool:
        """Whether to go on in the other way."""
        tuning = self._tuning
        if not self._chosen:
            return self._commits >= tuning.min_exit_costs
        if self._on_trial:
            return self._commits >= self._length
        if self._usual and self._free:
            return self._commits >= tuning.exit_trials_read
        return self._commits >= (tuning.exit_trial_short if self._slowed else self._stay)

    @property
    def _loss(self) -> float:
        """What a forward of the other way is likely to cost, in forwards: by what exits cost at first, then
        by what trials have written.
        """
        factor = 1.0 + max(self._cost, 0.0)
        first, count = factor if self._usual else 1.0 / factor, self._tuning.exit_trial_short
        lead = (count * first + self._tried * self._lead.value) / (count + self._tried)
        return max(0.0, 1.0 / lead - 1.0)

    @property
    def _length(self) -> int:
        """Of a trial, in commits."""
        tuning = self._tuning
        if self._usual and self._free:
            return 1
        affordable = int(tuning.exit_trial_loss / max(self._loss, tuning.exit_trial_cost))
        return max(1, min(tuning.exit_trial_short, affordable))

    @property
    def _stay(self) -> float:
        """For how many commits to work in the usual way."""
        tuning = self._tuning
        least = min(self._trials + 1, tuning.exit_trials_rarer) * tuning.exit_trial
        return max(least, self._length * self._loss / tuning.exit_trial_cost)

    @property
    def _other_is_faster(self) -> bool:
        """Whether trials of the other way show it to be faster, beyond what chance does."""
        if self._free:
            return not self._usual
        if self._tried < self._tuning.exit_trial_short / 2:
            return False
        return self._lead.value > 1.0 + self._spread.value / sqrt(self._tried)

    def _turn(self, now_s: float) -> None:
        if self._on_trial and self._chosen:
            self._trials += 1
            if self._other_is_faster:
                self._usual, self._trials = not self._usual, 0
                self._begin_usual(self._trial)
        elif self._slowed:
            self._begin_usual(self._lately.with_memory(self._tuning.rate_memory))
        self._slowed = False
        self._on_trial = not self._on_trial
        self._trial = Throughput(self._tuning)
        self._left, self._forwards, self._commits = self._forwards, 0, 0
        self.begin_text()
        for speed in (self._trial,) if self._on_trial else (self._before, self._lately):
            speed.on_commit(0, now_s)
