# SPDX-License-Identifier: Apache-2.0
"""Who drives: one viewer at a time, while it gives signs of life; and driving by hand."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable

from outrider.core.values import Velocity

SILENCE_S = 3.0
MAX_BEATS = 64
HOLD_S = 0.15
"""How long a drive command holds, in seconds: less than the robot's deadman, so that a command stops it."""


class Seat:
    """The driver's seat. Times are in seconds of the caller's monotonic clock.

    `driver` is the viewer who has it, empty for nobody; `yields`: whether a person may take it, as from an
    agent.
    """

    def __init__(self, silence_s: float = SILENCE_S) -> None:
        self.driver, self.yields = "", False
        self._silence_s = silence_s
        self._received_s = 0.0

    def take(self, viewer: str, now_s: float, yields: bool = False) -> bool:
        """Take the seat if it is free, or a person takes it from an agent; return whether it is theirs."""
        self.check(now_s)
        if not self.driver or (self.yields and not yields):
            self.driver, self.yields, self._received_s = viewer, yields, now_s
        return self.driver == viewer

    @property
    def state_fields(self) -> dict[str, str | bool]:
        """The driver, as fields of the state."""
        return {"driver": self.driver, "driver_yields": self.yields}

    def leave(self, viewer: str) -> bool:
        """Free the seat if it is this viewer's; return whether it was."""
        if not viewer or self.driver != viewer:
            return False
        self.driver, self.yields = "", False
        return True

    def on_message(self, viewer: str, now_s: float) -> None:
        """Record a sign of life of the driver."""
        if self.driver == viewer:
            self._received_s = now_s

    def check(self, now_s: float) -> bool:
        """Take the seat from a driver that has fallen silent; return whether that happened."""
        if not self.driver or now_s - self._received_s <= self._silence_s:
            return False
        self.driver, self.yields = "", False
        return True


class Beats:
    """Records when each state was sent, by its consecutive number."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._newest = clock, 0
        self._sent_s: deque[float] = deque(maxlen=MAX_BEATS)

    def on_sent(self, beat: int) -> None:
        """Record that the state `beat` is sent now."""
        self._newest = beat
        self._sent_s.append(self._clock())

    def age_s(self, beat: int) -> float:
        """Return the seconds since a state was sent; infinite if it never was, or too long ago."""
        behind = self._newest - beat
        if not 0 <= behind < len(self._sent_s):
            return math.inf
        return self._clock() - self._sent_s[-1 - behind]


class ManualDrive:
    """Drives by hand: a command holds for `hold_s`, then the robot is commanded to stand.

    Lives on one event loop. `drive` sends the robot a velocity.
    """

    def __init__(self, drive: Callable[[Velocity], None], hold_s: float) -> None:
        self._drive, self._hold_s = drive, hold_s
        self._hold: asyncio.TimerHandle | None = None

    def drive(self, velocity: Velocity) -> bool:
        """Drive for a moment; return whether the hand was off before."""
        was_driving = self.cancel_hold()
        self._drive(velocity)
        self._hold = asyncio.get_running_loop().call_later(self._hold_s, self.release)
        return not was_driving

    def cancel_hold(self) -> bool:
        """Take the hand off without a command to the robot; return whether it was on."""
        hold, self._hold = self._hold, None
        if hold is not None:
            hold.cancel()
        return hold is not None

    def release(self) -> None:
        """Take the hand off, and command the robot to stand if it was on."""
        if self.cancel_hold():
            self._drive(Velocity())


def velocity_of(limits: Velocity, forward: float, left: float, turn: float) -> Velocity:
    """Return the velocity of held keys, which are fractions of the limit on each axis."""
    return Velocity(forward * limits.vx, left * limits.vy, turn * limits.wz)
