# SPDX-License-Identifier: Apache-2.0
"""Carries what a driver wants switched to the robot's side. Lives on one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from outrider.console.switched.switches import Switch, Switches


class Named(Protocol):
    """Who asks, by the name that others see."""

    name: str


_Viewer = TypeVar("_Viewer", bound=Named)


class Switched(Protocol):
    """The robot's side of it, as of `console.robot.RobotPort`."""

    def switch(self, asked: Switch, on_end: Callable[[str], None]) -> None:
        """Have it switched; `on_end` is called once, from any thread, with why not, or with nothing."""


class Offering(Protocol):
    """What the robot's side has told."""

    @property
    def switches(self) -> Switches:
        """Returns what is offered and in force."""


class Switching(Generic[_Viewer]):
    """`drives` says whether a viewer has the seat, and tells one who has not. `note` writes down what is
    asked for. `refuse` tells why not, unless that is empty, and what is in force.
    """

    def __init__(
        self,
        robot: Switched,
        offering: Offering,
        drives: Callable[[_Viewer, Switch], bool],
        note: Callable[[str, str, str], None],
        refuse: Callable[[_Viewer, str], None],
    ) -> None:
        self._robot, self._offering = robot, offering
        self._drives, self._note, self._refuse = drives, note, refuse

    def heed(self, viewer: _Viewer, asked: Switch) -> None:
        """Ask the robot's side, which tells once it holds; what is wrong does not get that far."""
        if not self._drives(viewer, asked):
            self._refuse(viewer, "")
            return
        refusal = self._offering.switches.refusal(asked)
        if refusal:
            self._refuse(viewer, refusal)
            return
        self._note(viewer.name, "switch", asked.words)
        loop = asyncio.get_running_loop()

        def on_end(reason: str) -> None:
            if reason:
                loop.call_soon_threadsafe(self._refuse, viewer, reason)

        self._robot.switch(asked, on_end)
