# SPDX-License-Identifier: Apache-2.0
"""The action table: the only texts that ever move the robot, and the motion of each.

Left is positive yaw (REP-103). Any text that does not fully match the table is a stop.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

STOP = "stop"
SIZES = ("small", "medium", "large")
VERBS = ("move forward", "turn left", "turn right")
ACTION_TEXTS = (*(f"{verb} {size}" for verb in VERBS for size in SIZES), STOP)


@dataclass(frozen=True)
class Motion:
    """One bounded motion relative to its start: metres ahead, or radians (left positive)."""

    forward_m: float = 0.0
    turn_rad: float = 0.0

    @property
    def is_stop(self) -> bool:
        """Whether the robot stays where it is."""
        return self.forward_m == 0.0 and self.turn_rad == 0.0


@dataclass(frozen=True)
class ActionTable:
    """The metres and degrees of small, medium and large."""

    forward_m: tuple[float, float, float] = (0.25, 0.50, 0.75)
    turn_deg: tuple[float, float, float] = (15.0, 30.0, 45.0)

    def motion(self, action: str, previous: str = "") -> Motion | None:
        """Return the motion of an action text, or None if the text is not exactly one of the table's.

        `previous` is the goal's action before this one, if any. A turn that reverses a turn is halved, so
        that a model that is unsure about a bearing converges to it instead of oscillating.
        """
        motion, before = self._entry(action), self._entry(previous)
        if motion is None or before is None or motion.turn_rad * before.turn_rad >= 0.0:
            return motion
        return Motion(turn_rad=motion.turn_rad / 2.0)

    def _entry(self, action: str) -> Motion | None:
        if action == STOP:
            return Motion()
        verb, _, size = action.rpartition(" ")
        if verb not in VERBS or size not in SIZES:
            return None
        index = SIZES.index(size)
        if verb == "move forward":
            return Motion(forward_m=self.forward_m[index])
        sign = 1.0 if verb == "turn left" else -1.0
        return Motion(turn_rad=sign * math.radians(self.turn_deg[index]))


@dataclass(frozen=True)
class Answer:
    """The parts of a model's text `<action>\\n<phase>: <reason>`; missing parts are empty."""

    action: str
    phase: str
    reason: str


def split_answer(text: str) -> Answer:
    """Split a text, finished or not. The action counts only once its line is complete."""
    action, newline, rest = text.partition("\n")
    if not newline:
        return Answer("", "", "")
    phase, colon, reason = rest.partition(":")
    return Answer(action, phase, reason.strip()) if colon else Answer(action, "", rest.strip())
