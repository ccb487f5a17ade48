# SPDX-License-Identifier: Apache-2.0
"""Records what viewers do: in a journal by its `Notary.note`, or nowhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from outrider.console import messages as m

FOLLOWED = "follow what was said"


class Note(Protocol):
    """Records who did what; never blocks. Of a sentence `said`, only the motion it orders may be kept."""

    def __call__(self, who: str, did: str, what: str = "", said: str = "") -> None: ...


def note_nothing(who: str, did: str, what: str = "", said: str = "") -> None:
    """Does nothing: there is no journal."""


def noted_of(event: m.ToPage) -> Iterator[tuple[str, str, str]]:
    """Yields who did what, for an event of the robot: its motions, and the plans that it begins.

    A step that the models follow verbatim may hold any text, so FOLLOWED stands for it.
    """
    if isinstance(event, m.Motion):
        yield "action", "moved", f"{event.action}: {event.outcome}"
    elif isinstance(event, m.Plan) and event.running and event.current == 0:
        steps = (FOLLOWED if step in event.targets else step for step in event.steps)
        yield "navigator", "plan", "; ".join(steps)
