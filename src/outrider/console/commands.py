# SPDX-License-Identifier: Apache-2.0
"""What a robot is asked: commands in words, one at a time, and switches. Lives on one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from outrider.console.messages import Goal
from outrider.console.notes import Note
from outrider.console.robot import GoalEnd, RobotPort
from outrider.console.switched.switches import Switch, Switches
from outrider.console.viewer import Viewer

CANCEL_S = 5.0
"""A command that has not ended this long after its cancel has nobody who could end it."""
NEVER_BEGUN = "it was cancelled before it began"
OF_ANOTHER = "what another viewer said"
OF_PERSON = "what a person said is under way: wait for its end, or cancel it"


@dataclass(frozen=True)
class Command:
    """What was said, and the `secret` of the page or agent that said it."""

    secret: str
    text: str
    is_agents: bool = False

    def words_for(self, viewer: Viewer) -> str:
        """As a viewer is told it. A person's words may be about private memories, and an agent's are for
        persons to see.
        """
        may_see = viewer.secret == self.secret or (self.is_agents and not viewer.is_agent)
        return self.text if may_see else OF_ANOTHER

    def goal_for(self, viewer: Viewer, state: str, message: str) -> Goal:
        """How it stands, as a viewer is told it; the message is for whoever gave it."""
        return Goal(state, self.words_for(viewer), message if viewer.secret == self.secret else "")


class Commands:
    """Calls `on_start` with the command that begins, or None where nothing runs any more, `on_end` with one
    that has ended, and `on_drop` with one that never begins.

    One that has not ended `cancel_s` after its cancel is given up.
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

    def give(self, command: Command) -> None:
        """Begin with this command, once the one that runs has ended."""
        self._drop_next()
        self._next = command
        if self._running is None:
            self._start_next()
        else:
            self._end_running()

    def cancel(self) -> Command | None:
        """End what runs and drop what waits; return what runs."""
        self._drop_next()
        self._end_running()
        return self._running

    @property
    def running(self) -> Command | None:
        """Returns what runs."""
        return self._running

    @property
    def is_of_person(self) -> bool:
        """Whether what runs, or what waits, was said by a person."""
        return any(one is not None and not one.is_agents for one in (self._running, self._next))

    def has_of(self, secret: str) -> bool:
        """Whether what runs, or what waits, was said by this page."""
        return any(one is not None and one.secret == secret for one in (self._running, self._next))

    def _drop_next(self) -> None:
        dropped, self._next = self._next, None
        if dropped is not None:
            self._on_drop(dropped)

    def _end_running(self) -> None:
        """Ask for it; one that does not come is made up for, so that another command may be given."""
        self._robot.cancel_goal()
        if self._running is not None:
            gone = GoalEnd(False, "the navigator has gone")
            asyncio.get_running_loop().call_later(self._cancel_s, self._on_goal_end, self._running, gone)

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


class Switching:
    """Carries what a driver wants switched to the robot's side.

    `drives` says whether a viewer has the seat, and tells one who has not. `note` writes down what is asked
    for. `refuse` tells why not, unless that is empty, and what is in force.
    """

    def __init__(
        self,
        robot: RobotPort,
        drives: Callable[[Viewer, Switch], bool],
        note: Note,
        refuse: Callable[[Viewer, str], None],
    ) -> None:
        self._robot, self._drives, self._note, self._refuse = robot, drives, note, refuse

    def heed(self, viewer: Viewer, asked: Switch, offered: Switches) -> None:
        """Ask the robot's side, which tells once it holds; what is not offered does not get that far."""
        if not self._drives(viewer, asked):
            self._refuse(viewer, "")
            return
        refusal = offered.refusal(asked)
        if refusal:
            self._refuse(viewer, refusal)
            return
        self._note(viewer.name, "switch", asked.words)
        loop = asyncio.get_running_loop()

        def on_end(reason: str) -> None:
            if reason:
                loop.call_soon_threadsafe(self._refuse, viewer, reason)

        self._robot.switch(asked, on_end)
