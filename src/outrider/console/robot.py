# SPDX-License-Identifier: Apache-2.0
"""The console's interface to a robot; a ROS node implements it, and so do the tests' fakes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from outrider.console.switching.switches import Switch
from outrider.core.values import Velocity


@dataclass(frozen=True)
class GoalEnd:
    """How a command ended. `message` is only for the viewer that gave it: it may hold private memories."""

    success: bool
    message: str


class RobotPort(Protocol):
    """The robot's side. Called from the server's thread; no call blocks."""

    limits: Velocity
    """The fastest that a person may drive, on each axis."""

    def drive(self, velocity: Velocity) -> None:
        """Sends one velocity, which expires within a fraction of a second; zero releases the robot."""

    def set_e_stop(self, engaged: bool) -> bool:
        """Engages or releases the emergency stop; returns False if nobody is subscribed to it."""

    def send_goal(self, instruction: str, on_end: Callable[[GoalEnd], None]) -> None:
        """Gives a command in words. `on_end` is called once, from any thread."""

    def cancel_goal(self) -> None:
        """Ends the running command; harmless if there is none."""

    def switch(self, request: Switch, on_end: Callable[[str], None]) -> None:
        """Switches the emulated link or the strategy.

        `on_end` is called once, from any thread, with the reason of a refusal or an empty string.
        """
