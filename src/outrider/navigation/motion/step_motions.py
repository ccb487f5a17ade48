# SPDX-License-Identifier: Apache-2.0
"""A pilot's inputs and outputs: texts of steps in, velocities and ends of motions out."""

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
    """The verified part of one step's text.

    `complete`: `action` is final. `withdrawn`: nothing of the step may move the robot any more, for the
    reason in `text`. While `link_lost` nothing moves; once the link is back, a complete action may begin.
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
        """Identifies the step: its session and its number there."""
        return self.session_id, self.step


@dataclass(frozen=True)
class MotionEnd:
    """The report of a complete action. Each action gets exactly one."""

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
    """What to send now: a velocity (None: send nothing, the base is free), and a report if one is due.

    `stop` asks for a stop by all of the base's interfaces, in addition to the zero velocity.
    """

    velocity: Velocity | None = None
    end: MotionEnd | None = None
    stop: bool = False


class StepLedger:
    """Decides which steps may still begin: each at most once, in order, and none that was withdrawn.

    It also ensures a report for a complete action whose camera or link failed before it began.
    """

    def __init__(self) -> None:
        self._last: StepText | None = None
        self._waiting: StepText | None = None
        self._withdrawn: StepText | None = None

    def is_new(self, text: StepText) -> bool:
        """Whether neither this step nor a later one of its session has begun or was withdrawn."""
        last = self._last
        return last is None or last.session_id != text.session_id or text.step > last.step

    def begin(self, text: StepText) -> None:
        """Record that the step begins. Its motion is reported when it ends."""
        self._last, self._waiting, self._withdrawn = text, None, None

    def wait(self, text: StepText) -> None:
        """Record that the step's action is complete but may not begin yet. The text will be repeated."""
        self._waiting = text

    def withdraw(self, text: StepText) -> StepText | None:
        """Record that the step never begins. Returns its waiting text, whose report is due now, if any."""
        waiting, self._last, self._waiting = self._waiting, text, None
        if waiting is not None and waiting.key == text.key:
            return waiting
        self._withdrawn = text
        return None

    def why_withdrawn(self, text: StepText) -> str | None:
        """Returns, once, why a step withdrawn before its action was complete does not begin; else None."""
        withdrawn = self._withdrawn
        if withdrawn is None or withdrawn.key != text.key:
            return None
        self._withdrawn = None
        return withdrawn.text or "withdrawn"


def ending_of(command: Command) -> Ending:
    """Returns how a motion ended, from its last command."""
    if command.error:
        return Ending.FAILED
    return Ending.BLOCKED if command.blocked else Ending.DONE
