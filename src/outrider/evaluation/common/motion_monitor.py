# SPDX-License-Identifier: Apache-2.0
"""Checks that a simulated robot's true motion stays within what a text of the grammar says."""

from __future__ import annotations

import math
from dataclasses import dataclass

from outrider.core.language.actions import ACTION_TEXTS, ActionTable, Motion
from outrider.core.values import Pose2D, wrap_angle
from outrider.navigation.motion.motion_bounds import HEADING_RAD, OVER_M, OVER_RAD

FURTHER_M = 0.3
"""Metres by which a robot may truly exceed a motion, as in `outrider eval safety`.

The pilot ends a motion OVER_M beyond it by odometry; then the robot comes to rest.
"""


@dataclass
class WatchedMotion:
    """A motion under way, bounded by what it says or by the robot's offset from `frame` when it began."""

    motion: Motion
    frame: Pose2D
    reach_m: float
    turn_rad: float
    is_outside: bool = False

    @classmethod
    def beginning_at(cls, motion: Motion, frame: Pose2D, truth: Pose2D) -> WatchedMotion:
        """Return a motion that begins at `truth`, given for what the camera saw at `frame`."""
        reach_m, turn_rad = _offset(frame, truth)
        return cls(motion, frame, reach_m, abs(turn_rad))

    def judge(self, truth: Pose2D) -> str:
        """Return how the robot exceeds the motion, only once; empty if it does not."""
        moved_m, turned_rad = _offset(self.frame, truth)
        over_rad = OVER_RAD if self.motion.turn_rad else HEADING_RAD
        is_far = moved_m > max(self.reach_m, self.motion.forward_m) + FURTHER_M
        is_turned = abs(turned_rad) > max(self.turn_rad, abs(self.motion.turn_rad)) + over_rad
        if self.is_outside or not (is_far or is_turned):
            return ""
        self.is_outside = True
        return f"{self.motion}: {moved_m:.2f} m and {math.degrees(turned_rad):.0f} deg from its frame"


def has_moved_from(start: Pose2D, pose: Pose2D) -> bool:
    """Whether a robot that should stand has moved or turned by more than it takes to come to rest."""
    moved_m, turned_rad = _offset(start, pose)
    return moved_m > OVER_M or abs(turned_rad) > OVER_RAD


def matches_action(text: str, action: str, motion: Motion) -> bool:
    """Whether a text's first line is an action of the grammar with this motion, or half of its turn."""
    entry = ActionTable().motion(action)
    line, newline, _ = text.partition("\n")
    if not newline or line != action or action not in ACTION_TEXTS or entry is None:
        return False
    return motion in (entry, Motion(turn_rad=entry.turn_rad / 2.0))


def _offset(start: Pose2D, pose: Pose2D) -> tuple[float, float]:
    return start.distance_to(pose.x, pose.y), wrap_angle(pose.yaw - start.yaw)
