# SPDX-License-Identifier: Apache-2.0
"""Whose turn it is: the robot that has had the least of the model's time."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable

from outrider.decoding.tuning import DEFAULT_TUNING, AdaptiveTuning


class StartTimeFairQueue:
    """Start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996) over owners of equal weight.

    Who was away is not owed the time that nobody asked for: its share starts where the least of those stand
    who have work. Who has had more than `max_lead_s` beyond others is not held back for the rest.
    """

    def __init__(self, tuning: AdaptiveTuning = DEFAULT_TUNING) -> None:
        self._max_lead_s = tuning.max_lead_s
        self._had_s: dict[Hashable, float] = {}
        self._now_s = 0.0

    def standing_s(self, owner: Hashable) -> float:
        """The lower, the sooner an owner's turn."""
        return max(self._now_s, self._had_s.get(owner, 0.0))

    def advance(self, owners: Iterable[Hashable]) -> None:
        """These have work."""
        self._now_s = min((self.standing_s(owner) for owner in owners), default=self._now_s)

    def charge(self, owner: Hashable, used_s: float) -> None:
        """An owner has had its turn."""
        self._had_s[owner] = min(self.standing_s(owner) + used_s, self._now_s + self._max_lead_s)

    def keep_only(self, owners: Collection[Hashable]) -> None:
        """Forget all others."""
        for owner in [owner for owner in self._had_s if owner not in owners]:
            del self._had_s[owner]
