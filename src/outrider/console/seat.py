# SPDX-License-Identifier: Apache-2.0
"""Who drives, one at a time, for as long as that one gives signs of life; and the hand on the robot."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable

from outrider.core.values import Velocity

SILENCE_S = 3.0
BEATS_KEPT = 64
HOLD_S = 0.15
"""A drive command holds for this long: less than the robot's own deadman, so that the stop is an order."""


class Seat:
    """The driver's seat. `driver`: who has it, empty for nobody; `yields`: whether a person may take it from
    that driver, as from an agent. Times are of the caller's monotonic clock.
    """

    def __init__(self, silence_s: float = SILENCE_S) -> None:
        self.driver, self.yields = "", False
        self._silence_s = silence_s
        self._heard_s = 0.0

    def take(self, viewer: str, now_s: float, yields: bool = False) -> bool:
        """Whether the viewer drives now: the seat was free, already theirs, or of one who gives way."""
        self.check(now_s)
        if not self.driver or (self.yields and not yields):
            self.driver, self.yields, self._heard_s = viewer, yields, now_s
        return self.driver == viewer

    @property
    def told(self) -> dict[str, str | bool]:
        """Returns who drives, as fields of the state."""
        return {"driver": self.driver, "driver_yields": self.yields}

    def leave(self, viewer: str) -> bool:
        """Whether it was this viewer's."""
        if not viewer or self.driver != viewer:
            return False
        self.driver, self.yields = "", False
        return True

    def heard(self, viewer: str, now_s: float) -> None:
        """A sign of life."""
        if self.driver == viewer:
            self._heard_s = now_s

    def check(self, now_s: float) -> bool:
        """Whether a driver that has fallen silent has just lost the seat."""
        if not self.driver or now_s - self._heard_s <= self._silence_s:
            return False
        self.driver, self.yields = "", False
        return True


class Beats:
    """When states were told, by their numbers, which follow one another."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._newest = clock, 0
        self._told_s: deque[float] = deque(maxlen=BEATS_KEPT)

    def tell(self, beat: int) -> None:
        """The next state is told now."""
        self._newest = beat
        self._told_s.append(self._clock())

    def age_s(self, beat: int) -> float:
        """Seconds since this beat was told; infinite for one that was not, or too long ago."""
        behind = self._newest - beat
        if not 0 <= behind < len(self._told_s):
            return math.inf
        return self._clock() - self._told_s[-1 - behind]


class Hand:
    """A person's hand on the robot: a command holds for a moment, and then the robot is told to stand.

    Lives on one event loop. `drive` is the robot's; a command holds for `hold_s`.
    """

    def __init__(self, drive: Callable[[Velocity], None], hold_s: float) -> None:
        self._drive, self._hold_s = drive, hold_s
        self._hold: asyncio.TimerHandle | None = None

    def drive(self, velocity: Velocity) -> bool:
        """Drive for a moment; returns whether the hand was off before."""
        was_on = self.take_off()
        self._drive(velocity)
        self._hold = asyncio.get_running_loop().call_later(self._hold_s, self.let_go)
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


def share_of(limits: Velocity, forward: float, left: float, turn: float) -> Velocity:
    """The velocity of held keys, which are fractions of the fastest on each axis."""
    return Velocity(forward * limits.vx, left * limits.vy, turn * limits.wz)
