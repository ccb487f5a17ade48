# SPDX-License-Identifier: Apache-2.0
"""A rate limit with a burst."""

from __future__ import annotations


class TokenBucket:
    """Refills at a rate up to a burst; may be overdrawn. Times are seconds on any monotonic clock."""

    def __init__(self, units_per_s: float, burst_units: float, now_s: float) -> None:
        self._units_per_s = units_per_s
        self._burst_units = burst_units
        self._units = burst_units
        self._filled_s = now_s

    def take(self, units: float, now_s: float) -> bool:
        """Take units and return True; return False, and take nothing, if the bucket is empty."""
        if self.ready_s(now_s) > now_s:
            return False
        self._units -= units
        return True

    def spend(self, units: float, now_s: float) -> None:
        """Take units in any case; an overdrawn bucket is empty until it has refilled."""
        self.ready_s(now_s)
        self._units -= units

    def give_back(self, units: float) -> None:
        """Return units that were taken but not used."""
        self._units += units

    def ready_s(self, now_s: float) -> float:
        """Return the time from which something can be taken."""
        gained = (now_s - self._filled_s) * self._units_per_s
        self._units, self._filled_s = min(self._burst_units, self._units + gained), now_s
        return now_s if self._units > 0.0 else now_s - self._units / self._units_per_s + _A_MOMENT_S


_A_MOMENT_S = 1e-6
