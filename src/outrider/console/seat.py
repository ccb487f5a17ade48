# SPDX-License-Identifier: Apache-2.0
"""Who drives: one at a time, for as long as that one gives signs of life. Holds no clock."""

from __future__ import annotations

SILENCE_S = 3.0


class Seat:
    """The driver's seat. Viewers are named by anything hashable; times are of one monotonic clock."""

    def __init__(self, silence_s: float = SILENCE_S) -> None:
        self.driver = ""
        self._silence_s = silence_s
        self._heard_s = 0.0

    def take(self, viewer: str, now_s: float) -> bool:
        """Whether the viewer drives now: the seat was free, or already theirs."""
        self.check(now_s)
        if not self.driver:
            self.driver, self._heard_s = viewer, now_s
        return self.driver == viewer

    def leave(self, viewer: str) -> bool:
        """Whether it was this viewer's."""
        if not viewer or self.driver != viewer:
            return False
        self.driver = ""
        return True

    def heard(self, viewer: str, now_s: float) -> None:
        """A sign of life."""
        if self.driver == viewer:
            self._heard_s = now_s

    def check(self, now_s: float) -> bool:
        """Whether a driver that has fallen silent has just lost the seat."""
        if not self.driver or now_s - self._heard_s <= self._silence_s:
            return False
        self.driver = ""
        return True
