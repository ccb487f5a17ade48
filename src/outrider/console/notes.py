# SPDX-License-Identifier: Apache-2.0
"""What the console has written down of its viewers: a journal's `Notary.note`, or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from outrider.console import messages as m

FOLLOWED = "follow what was said"


class Note(Protocol):
    """Writes down who did what, and never blocks. Of `said`, a sentence, only what it moves may be kept."""

    def __call__(self, who: str, did: str, what: str = "", said: str = "") -> None: ...


def note_nothing(who: str, did: str, what: str = "", said: str = "") -> None:
    """Where there is no journal."""


def noted_of(event: m.ToPage) -> Iterator[tuple[str, str, str]]:
    """Yields who did what by an event of the robot: its motions, and the plans that it begins.

    A step that models follow as it was said is any text, and is left out.
    """
    if isinstance(event, m.Motion):
        yield "action", "moved", f"{event.action}: {event.outcome}"
    elif isinstance(event, m.Plan) and event.running and event.current == 0:
        steps = (FOLLOWED if step in event.targets else step for step in event.steps)
        yield "navigator", "plan", "; ".join(steps)
