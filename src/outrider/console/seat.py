# SPDX-License-Identifier: Apache-2.0
"""Who drives, one at a time, for as long as that one gives signs of life; and the hand on the robot."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from outrider.core.values import Velocity

SILENCE_S = 3.0
HOLD_S = 0.15
"""A drive command holds for this long: less than the robot's own deadman, so that the stop is an order."""


class Seat:
    """The driver's seat. Viewers are named by anything hashable; times are of one monotonic clock.

    It holds no clock.
    """

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


class Hand:
    """A person's hand on the robot: a command holds for a moment, and then the robot is told to stand.

    Lives on one event loop. `drive` is the robot's.
    """

    def __init__(self, drive: Callable[[Velocity], None]) -> None:
        self._drive = drive
        self._hold: asyncio.TimerHandle | None = None

    def drive(self, velocity: Velocity) -> bool:
        """Drive for a moment; returns whether the hand was off before."""
        was_on = self.take_off()
        self._drive(velocity)
        self._hold = asyncio.get_running_loop().call_later(HOLD_S, self.let_go)
        return not was_on

    def take_off(self) -> bool:
        """Takes the hand off without a word to the robot; returns whether it was on."""
        hold, self._hold = self._hold, None
        if hold is not None:
            hold.cancel()
        return hold is not None

    def let_go(self) -> None:
        """Takes the hand off, and has the robot stand if it was on."""
        if self.take_off():
            self._drive(Velocity())
