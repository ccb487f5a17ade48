# SPDX-License-Identifier: Apache-2.0
"""Requests to a robot: commands in words, one at a time, and switches. Lives on one event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass

from outrider.console.messages import Goal
from outrider.console.notes import Note
from outrider.console.robot import GoalEnd, RobotPort
from outrider.console.switching.switches import Switch, Switches
from outrider.console.viewer import Viewer

CANCEL_S = 5.0
"""A command that has not ended this long after its cancel (in seconds) counts as failed."""
NOT_STARTED = "it was cancelled before it began"
TEXT_OF_ANOTHER = "what another viewer said"
PERSON_FIRST = "what a person said is under way: wait for its end, or cancel it"


@dataclass(frozen=True)
class Command:
    """A command in words, and the `secret` of the page or agent that gave it."""

    secret: str
    text: str
    by_agent: bool = False

    def text_for(self, viewer: Viewer) -> str:
        """Return the command's text as a viewer may see it.

        A person's words may be about private memories, so only the page that gave them sees them. Persons
        see all that agents say.
        """
        may_see = viewer.secret == self.secret or (self.by_agent and not viewer.is_agent)
        return self.text if may_see else TEXT_OF_ANOTHER

    def goal_for(self, viewer: Viewer, state: str, message: str) -> Goal:
        """Return the command's status for a viewer; the message goes only to the viewer that gave it."""
        return Goal(state, self.text_for(viewer), message if viewer.secret == self.secret else "")


class Commands:
    """Runs one command at a time; a new one cancels the one that runs.

    Calls `on_start` with the command that begins, or None if nothing runs any more, `on_end` with one that
    has ended, and `on_drop` with one that never begins. A command that has not ended `cancel_s` after its
    cancel counts as failed.
    """

    def __init__(
        self,
        robot: RobotPort,
        on_start: Callable[[Command | None], None],
        on_end: Callable[[Command, GoalEnd], None],
        on_drop: Callable[[Command], None],
        cancel_s: float,
    ) -> None:
        self._robot, self._on_start, self._on_end, self._on_drop = robot, on_start, on_end, on_drop
        self._cancel_s = cancel_s
        self._running: Command | None = None
        self._next: Command | None = None

    def submit(self, command: Command) -> None:
        """Cancel the running command, and start this one once it has ended; drop one that waits."""
        self._drop_next()
        self._next = command
        if self._running is None:
            self._start_next()
        else:
            self._end_running()

    def cancel(self) -> Command | None:
        """Cancel the running command and drop the waiting one; return the running one."""
        self._drop_next()
        self._end_running()
        return self._running

    @property
    def running(self) -> Command | None:
        """The running command; None if none runs."""
        return self._running

    @property
    def is_by_person(self) -> bool:
        """Whether a person gave the running or the waiting command."""
        return any(command is not None and not command.by_agent for command in (self._running, self._next))

    def has_from(self, secret: str) -> bool:
        """Whether the page with this secret gave the running or the waiting command."""
        commands = (self._running, self._next)
        return any(command is not None and command.secret == secret for command in commands)

    def _drop_next(self) -> None:
        dropped, self._next = self._next, None
        if dropped is not None:
            self._on_drop(dropped)

    def _end_running(self) -> None:
        """Cancel the running command; after `cancel_s` count it as failed, so that another may start."""
        self._robot.cancel_goal()
        if self._running is not None:
            failure = GoalEnd(False, "the navigator has gone")
            asyncio.get_running_loop().call_later(self._cancel_s, self._on_goal_end, self._running, failure)

    def _start_next(self) -> None:
        command, self._next = self._next, None
        self._running = command
        self._on_start(command)
        if command is None:
            return
        loop = asyncio.get_running_loop()

        def on_end(end: GoalEnd) -> None:
            _call_soon(loop, self._on_goal_end, command, end)

        self._robot.send_goal(command.text, on_end)

    def _on_goal_end(self, command: Command, end: GoalEnd) -> None:
        if command is self._running:
            self._running = None  # what viewers are told with the end says so too
            self._on_end(command, end)
            self._start_next()


class Switching:
    """Forwards a driver's requests to switch the link or the strategy.

    `drives` returns whether a viewer has the seat, and warns one that has not. `note` records the request.
    `refuse` sends the viewer the reason, unless it is empty, and what is in force.
    """

    def __init__(
        self,
        robot: RobotPort,
        drives: Callable[[Viewer, Switch], bool],
        note: Note,
        refuse: Callable[[Viewer, str], None],
    ) -> None:
        self._robot, self._drives, self._note, self._refuse = robot, drives, note, refuse

    def request(self, viewer: Viewer, switch: Switch, offered: Switches) -> None:
        """Ask the robot to switch, and refuse what is not offered. The robot reports the change itself."""
        if not self._drives(viewer, switch):
            self._refuse(viewer, "")
            return
        refusal = offered.refusal(switch)
        if refusal:
            self._refuse(viewer, refusal)
            return
        self._note(viewer.name, "switch", switch.words)
        loop = asyncio.get_running_loop()

        def on_end(reason: str) -> None:
            if reason:
                _call_soon(loop, self._refuse, viewer, reason)

        self._robot.switch(switch, on_end)


def _call_soon(loop: asyncio.AbstractEventLoop, function: Callable[..., None], *args: object) -> None:
    """Call a function in the console's thread, from any thread. A console that has ended needs no call."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(function, *args)
