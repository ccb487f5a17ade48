# SPDX-License-Identifier: Apache-2.0
"""What the console needs of a robot; a ROS node implements it, and so do the tests' fakes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from outrider.console.switched.switches import Switch
from outrider.core.values import Velocity


@dataclass(frozen=True)
class GoalEnd:
    """How a command ended. `message` is for whoever gave it: it may tell of private memories."""

    success: bool
    message: str


class RobotPort(Protocol):
    """Called from the server's thread; no call blocks."""

    limits: Velocity
    """The fastest that a person may drive, on each axis."""

    def drive(self, velocity: Velocity) -> None:
        """One command, good for a fraction of a second; zero is the hand taken off."""

    def set_e_stop(self, engaged: bool) -> bool:
        """Engage or release the emergency stop; False where nobody hears it."""

    def send_goal(self, instruction: str, on_end: Callable[[GoalEnd], None]) -> None:
        """Give a command in words. `on_end` is called once, from any thread."""

    def cancel_goal(self) -> None:
        """End the running command; harmless where there is none."""

    def switch(self, asked: Switch, on_end: Callable[[str], None]) -> None:
        """Have another link emulated, or another strategy used. `on_end` is called once, from any thread,
        with why not, or with nothing.
        """
