"""Times of another computer's clock on this one's, without comparing the two."""

from __future__ import annotations

import math

WINDOW_S = 10.0
MAX_DELAY_S = 1.0


class ClockMapping:
    """Stamps of a remote clock as local times: the local time of arrival less the delay beyond the shortest.

    The shortest of `received - stamp` over the last one to two windows is the clocks' offset plus the
    unavoidable delay. A clock that jumps or restarts begins a new mapping.
    """

    def __init__(self, window_s: float = WINDOW_S) -> None:
        self._window_s = window_s
        self._started_s = -math.inf
        self._smallest_s = self._before_s = math.inf

    def local_s(self, remote_s: float, received_s: float) -> float:
        """When something stamped `remote_s` and received at `received_s` happened, on the local clock."""
        offset_s = received_s - remote_s
        if received_s < self._started_s:
            self._restart(received_s, math.inf)
        elif received_s - self._started_s > self._window_s:
            self._restart(received_s, self._smallest_s)
        self._smallest_s = min(self._smallest_s, offset_s)
        shortest_s = min(self._smallest_s, self._before_s)
        if offset_s - shortest_s > MAX_DELAY_S:
            self._restart(received_s, math.inf)
            self._smallest_s = shortest_s = offset_s
        return remote_s + shortest_s

    def _restart(self, started_s: float, before_s: float) -> None:
        self._started_s, self._before_s, self._smallest_s = started_s, before_s, math.inf
