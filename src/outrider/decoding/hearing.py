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
    """Of the forwards of one kind. Gains are tokens a forward, with fading memory, times seconds."""

    def __init__(self) -> None:
        self._gains, self._trials = FIRST_GAIN * PRIOR_TRIALS, PRIOR_TRIALS
        self._costs: deque[float] = deque(maxlen=RECENT_COSTS)
        self._alike = 0
        """Forwards since the last one that did the other thing."""

    def asks(self, tokens_per_s: float) -> bool:
        """Whether the next forward's exits should be asked, where time is worth so much."""
        return self._pays(tokens_per_s) != self._is_due(tokens_per_s)

    def on_gain(self, tokens: float) -> None:
        """What exits said in a forward gained so many tokens."""
        self._gains = MEMORY * self._gains + tokens
        self._trials = MEMORY * self._trials + 1.0

    def on_forward(self, heard: bool, compute_s: float, usual_s: float, tokens_per_s: float) -> None:
        """A forward took so long, as others of late `usual_s`; its exits were asked or not."""
        pays, due = self._pays(tokens_per_s), self._is_due(tokens_per_s)
        self._alike += 1
        if heard != pays and due:
            self._costs.append(compute_s - usual_s if heard else usual_s - compute_s)
            self._alike = 0

    def _pays(self, tokens_per_s: float) -> bool:
        if len(self._costs) < LEAST_COSTS:
            return True
        return self._gains / self._trials >= tokens_per_s * statistics.median(self._costs)

    def _is_due(self, tokens_per_s: float) -> bool:
        """Whether to do the other thing for once."""
        if len(self._costs) < LEAST_COSTS:
            return self._alike >= TRIED_AT_FIRST
        return self._alike >= (TRIED_WHILE_ASKED if self._pays(tokens_per_s) else TRIED_WHILE_NOT)
