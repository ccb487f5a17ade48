# SPDX-License-Identifier: Apache-2.0
"""What a pilot takes, and what it gives: texts of steps in, velocities and the ends of motions out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from outrider.core.values import Velocity
from outrider.navigation.motion.controller import Command


class Ending(Enum):
    """How the motion of a text ended."""

    DONE = 0
    BLOCKED = 1
    FAILED = 2
    STOPPED = 3
    REFUSED = 4
    EMERGENCY_STOP = 5
    OVERRIDDEN = 6


@dataclass(frozen=True)
class StepText:
    """What is verified of one step's text.

    `complete` means that `action` is final; `withdrawn` that nothing of the step may move the robot any more,
    for the reason in `text`. While `link_lost` nothing moves; once it is back, a complete action may begin.
    """

    session_id: str
    step: int
    action: str = ""
    complete: bool = False
    withdrawn: bool = False
    link_lost: bool = False
    frame_age_s: float = 0.0
    text: str = ""

    @property
    def key(self) -> tuple[str, int]:
        """What tells steps apart: the session and the number in it."""
        return self.session_id, self.step


@dataclass(frozen=True)
class MotionEnd:
    """The report that is due for every complete action, exactly once."""

    session_id: str
    step: int
    action: str
    ending: Ending
    message: str = ""
    distance_m: float = 0.0
    turned_rad: float = 0.0
    duration_s: float = 0.0


@dataclass(frozen=True)
class Drive:
    """What to send now: a velocity (None: nothing, the base is not ours), and a report if one is due.

    `stop` asks for a stop by every way the base knows, beside the zero velocity.
    """

    velocity: Velocity | None = None
    end: MotionEnd | None = None
    stop: bool = False


class StepLedger:
    """Which steps may still begin: each at most once, in order, and none that was withdrawn.

    It knows of every complete action whether it has a report, though camera or link failed before it began.
    """

    def __init__(self) -> None:
        self._last: StepText | None = None
        self._waiting: StepText | None = None
        self._withdrawn: StepText | None = None

    def is_new(self, text: StepText) -> bool:
        """Whether neither the step nor a later one of its session has begun or was withdrawn."""
        last = self._last
        return last is None or last.session_id != text.session_id or text.step > last.step

    def begin(self, text: StepText) -> None:
        """The step begins: its motion is reported when that ends."""
        self._last, self._waiting, self._withdrawn = text, None, None

    def wait(self, text: StepText) -> None:
        """The step's action is complete and may not begin yet; the text is repeated."""
        self._waiting = text

    def withdraw(self, text: StepText) -> StepText | None:
        """The step never begins; returns what waited, whose report is due now."""
        waiting, self._last, self._waiting = self._waiting, text, None
        if waiting is not None and waiting.key == text.key:
            return waiting
        self._withdrawn = text
        return None

    def why_withdrawn(self, text: StepText) -> str | None:
        """The reason why a step whose action is complete only now will not begin; told once, else None."""
        withdrawn = self._withdrawn
        if withdrawn is None or withdrawn.key != text.key:
            return None
        self._withdrawn = None
        return withdrawn.text or "withdrawn"


def ending_of(command: Command) -> Ending:
    """How a motion ended whose last command this is."""
    if command.error:
        return Ending.FAILED
    return Ending.BLOCKED if command.blocked else Ending.DONE
