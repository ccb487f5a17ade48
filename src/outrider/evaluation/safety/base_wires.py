# SPDX-License-Identifier: Apache-2.0
"""The path from the action node to the base in a trial: the interface, and a wire without nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from outrider.core.values import STANDSTILL, Velocity

GO2_TROUBLES = (
    "Go2 damped",
    "Go2 lies down",
    "Go2's joints locked",
    "Go2's Move answered -1",
    "Go2's battery low",
    "another program commands the Go2",
)
AVOIDANCE_TAKEN = "Go2's avoidance taken by another"


class BaseWire(Protocol):
    """The path from the action node to the base.

    `robot_fault`: the robot's own fault: none, one of GO2_TROUBLES, or AVOIDANCE_TAKEN. `is_standing_up`:
    whether the robot was ordered to stand up in the last step.
    """

    robot_fault: str
    is_standing_up: bool

    @property
    def is_ready(self) -> bool:
        """Whether velocities can be sent."""

    def start(self) -> None:
        """Connects the action node, or one that replaces it."""

    def deliver(self, alive: bool) -> None:
        """Delivers the messages of one step, as DDS does; nothing reaches a base that is not `alive`."""

    def tick(self, e_stop: bool) -> None:
        """Runs the periodic work of the action node; `e_stop` says whether the emergency stop is engaged."""

    def send(self, velocity: Velocity) -> None:
        """Sends a velocity to the base."""

    def stop(self) -> None:
        """Stops the base."""

    def trouble(self) -> str:
        """Returns why the base cannot be driven; empty if it can."""


OpenWire = Callable[[Callable[[Velocity], None], Callable[[], float]], BaseWire]
"""Makes a wire from the function that feeds the base, and the clock."""


class DirectWire(BaseWire):
    """A wire without delay to a base that is always ready."""

    is_ready, is_standing_up = True, False
    robot_fault = ""

    def __init__(self, feed: Callable[[Velocity], None], clock: Callable[[], float]) -> None:
        self._feed, self._alive = feed, True

    def start(self) -> None:
        """Does nothing: the base needs no connection."""

    def deliver(self, alive: bool) -> None:
        self._alive = alive

    def tick(self, e_stop: bool) -> None:
        """Does nothing: this wire has no periodic work."""

    def send(self, velocity: Velocity) -> None:
        if self._alive:
            self._feed(velocity)

    def stop(self) -> None:
        self.send(STANDSTILL)

    def trouble(self) -> str:
        return ""
