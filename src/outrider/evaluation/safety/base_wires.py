# SPDX-License-Identifier: Apache-2.0
"""The way from the action node to the base in a trial: a port, and a wire without any nodes."""

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
    """The way from the action node to the base: commands at one end, at the other what feeds the base.

    `start` is a new process of the action node. `carry` is what DDS does in one step; nothing reaches a base
    that is not `alive`, nor comes from it. `robot` is what is wrong with the robot itself: nothing, one of
    GO2_TROUBLES, or AVOIDANCE_TAKEN. `rises` says whether the robot was told to stand up in the last step.
    """

    robot: str
    rises: bool

    @property
    def is_ready(self) -> bool:
        """Whether velocities can be sent."""

    def start(self) -> None:
        """Connects the action node, or one that replaces it."""

    def carry(self, alive: bool) -> None:
        """Delivers the messages of one step; `alive` says whether the action node is running."""

    def tick(self, held: bool) -> None:
        """Runs what is due at the action node; `held` says whether the emergency stop is engaged."""

    def send(self, velocity: Velocity) -> None:
        """Sends a velocity to the base."""

    def stop(self) -> None:
        """Stops the base."""

    def trouble(self) -> str:
        """Returns why the base cannot be driven; empty if it can."""


OpenWire = Callable[[Callable[[Velocity], None], Callable[[], float]], BaseWire]
"""Makes a wire from what feeds the base and the clock."""


class DirectWire(BaseWire):
    """A wire without delay to a base that is always ready."""

    is_ready, rises = True, False
    robot = ""

    def __init__(self, feed: Callable[[Velocity], None], clock: Callable[[], float]) -> None:
        self._feed, self._alive = feed, True

    def start(self) -> None:
        """Nothing is asked first."""

    def carry(self, alive: bool) -> None:
        self._alive = alive

    def tick(self, held: bool) -> None:
        """Nothing is due."""

    def send(self, velocity: Velocity) -> None:
        if self._alive:
            self._feed(velocity)

    def stop(self) -> None:
        self.send(STANDSTILL)

    def trouble(self) -> str:
        return ""
