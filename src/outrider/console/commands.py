# SPDX-License-Identifier: Apache-2.0
"""Commands in words for a robot: one at a time, and the newest next. Lives on one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from outrider.console.robot import GoalEnd, RobotPort

CANCEL_S = 5.0
"""A command that has not ended this long after its cancel has nobody who could end it."""


@dataclass(frozen=True)
class Command:
    """What was said, and the `secret` of the page that said it."""

    secret: str
    text: str


class Commands:
    """Calls `on_start` with the command that begins, or None where nothing runs any more, and `on_end` with
    one that has ended.
    """

    def __init__(
        self,
        robot: RobotPort,
        on_start: Callable[[Command | None], None],
        on_end: Callable[[Command, GoalEnd], None],
    ) -> None:
        self._robot, self._on_start, self._on_end = robot, on_start, on_end
        self._running: Command | None = None
        self._next: Command | None = None

    def give(self, command: Command) -> None:
        """Begin with this command, once the one that runs has ended."""
        self._next = command
        if self._running is None:
            self._start_next()
        else:
            self._end_running()

    def cancel(self) -> Command | None:
        """End what runs and drop what waits; return what runs."""
        self._next = None
        self._end_running()
        return self._running

    def runs_for(self, secret: str) -> bool:
        """Whether what runs was said by this page."""
        return self._running is not None and self._running.secret == secret

    def _end_running(self) -> None:
        """Ask for it; one that does not come is made up for, so that another command may be given."""
        self._robot.cancel_goal()
        if self._running is not None:
            gone = GoalEnd(False, "the navigator has gone")
            asyncio.get_running_loop().call_later(CANCEL_S, self._on_goal_end, self._running, gone)

    def _start_next(self) -> None:
        command, self._next = self._next, None
        self._running = command
        self._on_start(command)
        if command is None:
            return
        loop = asyncio.get_running_loop()

        def on_end(end: GoalEnd) -> None:
            loop.call_soon_threadsafe(self._on_goal_end, command, end)

        self._robot.send_goal(command.text, on_end)

    def _on_goal_end(self, command: Command, end: GoalEnd) -> None:
        if command is self._running:
            self._on_end(command, end)
            self._start_next()
