# SPDX-License-Identifier: Apache-2.0
"""The robot's steps, searched places and sightings: the prompt's content apart from the picture.

Training data and the running robot both use this class, so the model sees the same state in both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from outrider.core.language.actions import ActionTable, Motion
from outrider.core.language.prompt import (
    HISTORY_STEPS,
    MEMORY_SLOTS,
    PromptContext,
    Step,
    searched_place_memory,
    seen_memory,
)
from outrider.core.values import Pose2D, Sighting, wrap_angle

SEARCHED_SLOTS = 3
SIGHTING_SLOTS = 2
FULL_TURN_DEG, TURN_STEP_DEG = 360.0, 15.0
SAME_PLACE_M = 1.0
HERE_M = 1.2
MOVED_M = 0.1


def confirmed_turn_deg(motion: Motion, before: Pose2D | None, after: Pose2D) -> float:
    """Returns the degrees that a turn counts for: as commanded, or as measured if that is less than half."""
    commanded_deg = abs(math.degrees(motion.turn_rad))
    if before is None:
        return commanded_deg
    measured_deg = measured_turn_deg(motion, before, after)
    return commanded_deg if measured_deg >= commanded_deg / 2.0 else measured_deg


def measured_turn_deg(motion: Motion, before: Pose2D, after: Pose2D) -> float:
    """Returns the degrees that odometry shows for a turn, in its sense."""
    turned_rad = wrap_angle(after.yaw - before.yaw)
    return max(0.0, math.copysign(1.0, motion.turn_rad) * math.degrees(turned_rad))


def confirmed_advance(before: Pose2D | None, after: Pose2D) -> bool:
    """Whether odometry shows that a move ahead has moved the robot (a blocked one has not)."""
    return before is None or before.distance_to(after.x, after.y) > MOVED_M


@dataclass
class SearchHistory:
    """Executed steps, turning in place since the last move ahead, searched places, and sightings.

    Poses are odometry's. `start` is the pose at the start; without it the first action counts as commanded.
    A sighting counts until the robot has been there, or has turned all around without setting out for it.
    Then the robot searches as usual.

    `under_way`: actions are recorded while they may still go on. Turns then count as odometry shows them,
    rounded to TURN_STEP_DEG as in training.
    """

    start: Pose2D | None = None
    table: ActionTable = field(default_factory=ActionTable)
    under_way: bool = False
    steps: list[Step] = field(default_factory=list, init=False)
    _turned_deg: float = field(default=0.0, init=False)
    searched_places: list[tuple[float, float]] = field(default_factory=list, init=False)
    sightings: list[Sighting] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self._pose = self.start

    @property
    def turned_deg(self) -> float:
        """Degrees turned in place since the last confirmed move ahead."""
        return round(self._turned_deg / TURN_STEP_DEG) * TURN_STEP_DEG if self.under_way else self._turned_deg

    @property
    def last_action(self) -> str:
        """The newest executed action; empty before the first."""
        return self.steps[-1].action if self.steps else ""

    def recall(self, sightings: Sequence[Sighting]) -> None:
        """Replace the sightings by those that memory gives for this goal, best last."""
        self.sightings = list(sightings)

    def record_action(self, action: str, phase: str, odometry_after: Pose2D) -> None:
        """Record one executed action. A text outside the action table is ignored."""
        motion = self.table.motion(action, self.last_action)
        if motion is None:
            return
        self.steps.append(Step(phase, action))
        if motion.turn_rad != 0.0:
            self._turned_deg += self._turn_deg(motion, odometry_after)
            self._end_full_turn(odometry_after)
        elif motion.forward_m > 0.0 and confirmed_advance(self._pose, odometry_after):
            self._turned_deg = 0.0
        self._arrive(odometry_after)

    def record_foreign_motion(self, odometry_after: Pose2D) -> None:
        """Record that something else moved the robot. Turning in place starts again from zero."""
        self._turned_deg = 0.0
        self._arrive(odometry_after)

    def context(self, instruction: str, pose: Pose2D) -> PromptContext:
        """Returns the prompt's context for a robot at `pose`."""
        return PromptContext(
            instruction=instruction,
            steps=tuple(self.steps[-HISTORY_STEPS:]),
            turned_deg=round(self.turned_deg),
            memories=self._memories(pose),
        )

    def _turn_deg(self, motion: Motion, after: Pose2D) -> float:
        if self.under_way and self._pose is not None:
            return measured_turn_deg(motion, self._pose, after)
        return confirmed_turn_deg(motion, self._pose, after)

    def _arrive(self, pose: Pose2D) -> None:
        self._pose = pose
        self.sightings = self._ahead_of(pose)

    def _end_full_turn(self, pose: Pose2D) -> None:
        """After a full turn: record the place as searched, and drop the sightings, which led nowhere."""
        if self.turned_deg < FULL_TURN_DEG - 1.0:
            return
        self.sightings = []
        if all(pose.distance_to(x, y) >= SAME_PLACE_M for x, y in self.searched_places):
            self.searched_places.append((pose.x, pose.y))

    def _ahead_of(self, pose: Pose2D) -> list[Sighting]:
        return [s for s in self.sightings if pose.distance_to(s.x, s.y) > HERE_M]

    def remembered(self, pose: Pose2D) -> tuple[tuple[float, float], ...]:
        """Returns the searched places for the prompt of a robot at `pose`, newest last."""
        elsewhere = [place for place in self.searched_places if pose.distance_to(*place) > HERE_M]
        slots = min(SEARCHED_SLOTS, MEMORY_SLOTS - len(self._ahead_of(pose)[-SIGHTING_SLOTS:]))
        return tuple(elsewhere[-slots:])

    def _memories(self, pose: Pose2D) -> tuple[str, ...]:
        """Returns the prompt's memories, searched places first: of too many lines the sightings are kept."""
        searched = (
            searched_place_memory(pose.bearing_to(*place), pose.distance_to(*place))
            for place in self.remembered(pose)
        )
        seen = (
            seen_memory(s.what, pose.bearing_to(s.x, s.y), pose.distance_to(s.x, s.y))
            for s in self._ahead_of(pose)[-SIGHTING_SLOTS:]
        )
        return (*searched, *seen)
