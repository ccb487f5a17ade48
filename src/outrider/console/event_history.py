# SPDX-License-Identifier: Apache-2.0
"""Keeps a bounded history for viewers who join later; of a repeated text, returns what is new."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, cast

import msgspec

from outrider.console import messages as m
from outrider.console.commands import Command
from outrider.console.drawing.floor import CELL_M, FloorSketch
from outrider.console.robot import GoalEnd

MAX_TEXTS, MAX_ROUNDS, MAX_MOTIONS, MAX_COMMANDS = 30, 120, 30, 50


class EventHistory:
    """The newest events of each kind, and the known floor."""

    def __init__(self) -> None:
        self.floor = FloorSketch()
        self._texts: deque[m.Text] = deque(maxlen=MAX_TEXTS)
        self._ends: deque[tuple[str, m.Ended, m.Ended]] = deque(maxlen=MAX_COMMANDS)
        self._planned: tuple[str, ...] = ()
        self._rows: dict[type, deque[Any]] = {
            m.Round: deque(maxlen=MAX_ROUNDS),
            m.Motion: deque(maxlen=MAX_MOTIONS),
        }
        newest = (m.Plan(), m.Switches(), m.Sights(), m.Memories())
        self._newest: dict[type, Any] = {type(event): event for event in newest}

    @property
    def switches(self) -> m.Switches:
        """What may be switched, and what is in force."""
        return cast(m.Switches, self._newest[m.Switches])

    def placed(self) -> Iterator[tuple[str, float, float]]:
        """Yields the things that the newest text sees, each with its position on the floor."""
        return ((thing.what, thing.x, thing.y) for thing in self._newest[m.Sights].things)

    def add(self, event: m.ToPage) -> m.ToPage | None:
        """Keeps an event; returns what to send of it, or None if it says nothing new."""
        if isinstance(event, m.Text):
            return self._text(event)
        if isinstance(event, m.Plan) and event.running:
            self._planned = event.steps
        kind = type(event)
        if kind in self._newest:
            self._newest[kind] = event
        elif kind in self._rows:
            self._rows[kind].append(event)
        return event

    def end(self, command: Command, end: GoalEnd) -> None:
        """Keeps how a command ended: its own words for the page that gave it, the plan's words for others."""
        state, plan = "done" if end.success else "failed", "; ".join(self._planned)
        self._planned = ()
        own = m.Ended(state, command.text, end.message)
        self._ends.append((command.secret, own, m.Ended(state, plan)))

    def welcome_fields(self, secret: str) -> dict[str, Any]:
        """Returns the kept fields of a welcome, for the page with this secret."""
        return {
            "ended": tuple(own if secret == sender else public for sender, own, public in self._ends),
            "texts": tuple(self._texts),
            "rounds": tuple(self._rows[m.Round]),
            "motions": tuple(self._rows[m.Motion]),
            "plan": self._newest[m.Plan],
            "switches": self._newest[m.Switches],
            "sights": self._newest[m.Sights],
            "memories": self._newest[m.Memories],
            "trail": m.Trail(tuple(self.floor.points)),
            "walls": m.Walls(CELL_M, tuple(sorted(self.floor.cells))),
        }

    def _text(self, text: m.Text) -> m.Text | None:
        """Keep a text, and return what is new in it; None for a mere repetition, which is a sign of life."""
        last = self._texts[-1] if self._texts else None
        if last is not None and (last.session, last.step) == (text.session, text.step):
            if text.state == "withdrawn":
                text = msgspec.structs.replace(last, state=text.state, note=text.note)
            if text == last:
                return None
            self._texts.pop()
        self._texts.append(text)
        return text
