# SPDX-License-Identifier: Apache-2.0
"""A discrete-event clock."""

from __future__ import annotations

import heapq
from collections.abc import Callable


class EventLoop:
    """Runs planned actions in order of their times; those of the same time, in the order of planning."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._num_planned = 0

    def at(self, time_s: float, action: Callable[..., None], *arguments: object) -> None:
        """Plan an action for a time."""
        self._num_planned += 1
        heapq.heappush(self._events, (time_s, self._num_planned, lambda: action(*arguments)))

    def step(self) -> None:
        """Run the next event; there must be one."""
        self.now_s, _, action = heapq.heappop(self._events)
        action()

    def run(self, until_s: float, done: Callable[[], bool] = lambda: False) -> None:
        """Run events until none is left, `until_s` is passed, or `done`. An action may itself run the loop
        while it takes time.
        """
        while self._events and self._events[0][0] <= until_s and not done():
            self.step()

    def clear(self) -> None:
        """Drop all planned actions."""
        self._events.clear()
