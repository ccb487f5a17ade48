"""Whether to ask the early exits of a forward: that takes time, and is worth what it has gained of late."""

from __future__ import annotations

import statistics
from collections import deque

from outrider.decoding.estimates import MEMORY, PRIOR_TRIALS

FIRST_GAIN = 1.0
"""Tokens that hearing exits is taken to gain before it is known: so that they are asked."""
LEAST_COSTS, RECENT_COSTS = 3, 5
TRIED_AT_FIRST, TRIED_WHILE_ASKED, TRIED_WHILE_NOT = 4, 128, 16
"""Every so many forwards one does the other thing: until it is known what exits cost, and to see changes."""


class Hearing:
    """Of the forwards of one kind. Gains are tokens a forward, with fading memory."""

    def __init__(self) -> None:
        self._gains, self._trials = FIRST_GAIN * PRIOR_TRIALS, PRIOR_TRIALS
        self._costs: deque[float] = deque(maxlen=RECENT_COSTS)
        self._heard, self._alike = True, 0
        """Whether the last forward's exits were asked, and of how many in a row that is so."""

    def asks(self, tokens_per_s: float) -> bool:
        """Whether the next forward's exits should be asked, where time is worth so much."""
        pays = len(self._costs) < LEAST_COSTS or self._gain >= tokens_per_s * statistics.median(self._costs)
        return pays != self._is_due(pays)

    def on_gain(self, tokens: float) -> None:
        """What exits said in a forward gained so many tokens."""
        self._gains = MEMORY * self._gains + tokens
        self._trials = MEMORY * self._trials + 1.0

    def on_forward(self, heard: bool, compute_s: float, usual_s: float) -> None:
        """A forward took so long, as those before it `usual_s`; its exits were asked or not."""
        if heard == self._heard:
            self._alike += 1
            return
        if self._alike >= TRIED_AT_FIRST:
            self._costs.append(compute_s - usual_s if heard else usual_s - compute_s)
        self._heard, self._alike = heard, 1

    @property
    def _gain(self) -> float:
        return self._gains / self._trials

    def _is_due(self, pays: bool) -> bool:
        """Whether to do the other thing for once."""
        if self._heard != pays:
            return False
        if len(self._costs) < LEAST_COSTS:
            return self._alike >= TRIED_AT_FIRST
        return self._alike >= (TRIED_WHILE_ASKED if pays else TRIED_WHILE_NOT)
