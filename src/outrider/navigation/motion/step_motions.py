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


def ending_of(command: Command) -> Ending:
    """How a motion ended whose last command this is."""
    if command.error:
        return Ending.FAILED
    return Ending.BLOCKED if command.blocked else Ending.DONE
