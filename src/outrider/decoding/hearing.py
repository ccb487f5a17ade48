"""Whether to ask the early exits of a forward: that takes time, and is worth what it has gained of late."""

from __future__ import annotations

import statistics
from collections import deque

from outrider.decoding.tuning import DEFAULT_TUNING, AdaptiveTuning


class Hearing:
    """Of the forwards of one kind. Gains are tokens a forward, with fading memory.

    Now and then a forward does the other thing: until it is known what exits cost, and to see changes.
    """

    def __init__(self, tuning: AdaptiveTuning = DEFAULT_TUNING) -> None:
        self._tuning = tuning
        self._gains, self._trials = tuning.first_exit_gain * tuning.prior_trials, tuning.prior_trials
        self._costs: deque[float] = deque(maxlen=tuning.exit_cost_window)
        self._heard, self._alike = True, 0
        """Whether the last forward's exits were asked, and of how many in a row that is so."""

    def asks(self, tokens_per_s: float) -> bool:
        """Whether the next forward's exits should be asked, where time is worth so much."""
        if not self._tuning.gate_exits:
            return True
        pays = not self._cost_known or self._gain >= tokens_per_s * statistics.median(self._costs)
        return pays != self._is_due(pays)

    def on_gain(self, tokens: float) -> None:
        """What exits said in a forward gained so many tokens."""
        memory = self._tuning.rate_memory
        self._gains = memory * self._gains + tokens
        self._trials = memory * self._trials + 1.0

    def on_forward(self, heard: bool, compute_s: float, usual_s: float) -> None:
        """A forward took so long, as those before it `usual_s`; its exits were asked or not."""
        if heard == self._heard:
            self._alike += 1
            return
        if self._alike >= self._tuning.exit_trials_first:
            self._costs.append(compute_s - usual_s if heard else usual_s - compute_s)
        self._heard, self._alike = heard, 1

    @property
    def _cost_known(self) -> bool:
        return len(self._costs) >= self._tuning.min_exit_costs

    @property
    def _gain(self) -> float:
        return self._gains / self._trials

    def _is_due(self, pays: bool) -> bool:
        """Whether to do the other thing for once."""
        if self._heard != pays:
            return False
        tuning = self._tuning
        if not self._cost_known:
            return self._alike >= tuning.exit_trials_first
        return self._alike >= (tuning.exit_trials_read if pays else tuning.exit_trials_unread)
