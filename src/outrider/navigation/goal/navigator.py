# SPDX-License-Identifier: Apache-2.0
"""The state of one goal, from its instruction to its outcome; it has no camera, model, clock or robot.

For each step the owner calls `begin_step`, decodes the prompt of its context, and passes every verified
text to `on_verified`, which returns a motion as soon as the action line is complete. It then calls
`on_finished` with the whole text and `on_moved` once the robot stands still, in either order. It repeats
this until `outcome` is set.
"""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass, field
from enum import Enum

from outrider.core.language.actions import ActionTable, Motion, split_answer
from outrider.core.language.prompt import PromptContext
from outrider.core.values import Odometry, Pose2D
from outrider.navigation.goal.history import SearchHistory

FARTHEST_MOTION_M = 1.5
log = logging.getLogger(__name__)


class Outcome(str, Enum):
    """How a goal ended."""

    ARRIVED = "arrived"
    NOT_FOUND = "not_found"
    INVALID_TEXT = "invalid_text"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class NavigatorSettings:
    """Bounds of one goal. `max_answer_age_s` is from the frame's stamp to the verified action.

    `max_turning_deg` bounds the turns, in either sense, between two moves ahead: a robot that only turns is
    lost.
    """

    max_steps: int = 300
    max_travel_m: float = 80.0
    max_time_s: float = 900.0
    max_turning_deg: float = 1440.0
    max_answer_age_s: float = 10.0
    max_invalid_texts: int = 3
    table: ActionTable = field(default_factory=ActionTable)


@dataclass(frozen=True)
class StepKey:
    """Identifies the step that an answer belongs to: its goal, its index, and the stamp of its frame."""

    goal_id: str
    index: int
    frame_stamp_s: float


@dataclass
class _StepState:
    key: StepKey
    motion: Motion | None = None
    action: str = ""
    text: str | None = None
    moved_to: Pose2D | None = None


class Navigator:
    """The state of one goal. Times are seconds of one monotonic clock, poses are odometry's."""

    def __init__(
        self, instruction: str, settings: NavigatorSettings, start: Odometry, goal_id: str | None = None
    ) -> None:
        self.instruction = instruction
        self.settings = settings
        self.goal_id = goal_id or uuid.uuid4().hex
        self.history = SearchHistory(start.pose, settings.table)
        self.outcome: Outcome | None = None
        self.message = ""
        self.steps_taken = 0
        self.travelled_m = 0.0
        self._invalid_texts = 0
        self._started_s = start.stamp_s
        self._pose = start.pose
        self._step: _StepState | None = None

    def context(self, odometry: Odometry) -> PromptContext:
        """Returns the context of the next prompt."""
        return self.history.context(self.instruction, odometry.pose)

    def begin_step(self, frame_stamp_s: float) -> StepKey:
        """Begin a step for a frame, and return its key. Answers to earlier steps are stale from now on."""
        key = StepKey(self.goal_id, self.steps_taken, frame_stamp_s)
        self._step = _StepState(key)
        return key

    def on_verified(self, key: StepKey, text: str, now_s: float) -> Motion | None:
        """Returns the step's motion once, when its action line is verified; otherwise, or if stale, None.

        For a stop, and for a text outside the action table, the motion is a standstill.
        """
        step = self._current(key)
        if step is None or step.motion is not None or "\n" not in text:
            return None
        if now_s - key.frame_stamp_s > self.settings.max_answer_age_s:
            log.warning("answer discarded: its frame is %.1f s old", now_s - key.frame_stamp_s)
            self._step = None
            return None
        return self._accept(step, split_answer(text).action)

    def on_finished(self, key: StepKey, text: str, now_s: float) -> Motion | None:
        """Take the whole text. Returns the motion if the text has no second line, else None.

        For a text that was cut short before the end of its action line, begin a new step instead.
        """
        step = self._current(key)
        if step is None:
            return None
        line_end = "" if "\n" in text else "\n"
        motion = self.on_verified(key, text + line_end, now_s)
        step.text = text
        self._conclude(step)
        return motion

    def on_moved(self, key: StepKey, odometry: Odometry) -> None:
        """Record that the robot has carried out the motion, as far as possible, and stands still."""
        step = self._current(key)
        if step is not None and step.motion is not None:
            step.moved_to = odometry.pose
            self._track(odometry)
            self._conclude(step)

    def check_time(self, now_s: float) -> None:
        """End the goal if its time is over."""
        if self.outcome is None and now_s - self._started_s > self.settings.max_time_s:
            self._give_up(f"{self.settings.max_time_s:.0f} s")

    def cancel(self) -> None:
        """End the goal as cancelled. Later answers move nothing."""
        if self.outcome is None:
            self._end(Outcome.CANCELLED, "cancelled")

    def _current(self, key: StepKey) -> _StepState | None:
        if self.outcome is None and self._step is not None and self._step.key == key:
            return self._step
        return None

    def _accept(self, step: _StepState, action: str) -> Motion:
        motion = self.settings.table.motion(action, self.history.last_action)
        if motion is None:
            log.warning("not an action, standing still: %.200r", action)
            self._invalid_texts += 1
        else:
            self._invalid_texts = 0
            step.action = action
        step.motion = motion or Motion()
        return step.motion

    def _track(self, odometry: Odometry) -> None:
        # A longer distance than any motion's is a jump of odometry, or a person's driving.
        moved_m = self._pose.distance_to(odometry.pose.x, odometry.pose.y)
        self.travelled_m += min(moved_m, FARTHEST_MOTION_M)
        self._pose = odometry.pose

    def _conclude(self, step: _StepState) -> None:
        """Once text and motion are both complete, record the step and check the bounds."""
        if step.text is None or step.moved_to is None or step.motion is None:
            return
        self.steps_taken += 1
        self._step = None
        self.history.record_action(step.action, split_answer(step.text).phase, step.moved_to)
        if step.action and step.motion.is_stop:
            self._end(Outcome.ARRIVED, f'stopped: "{self.instruction}" is done by the model\'s account')
        elif self._invalid_texts >= self.settings.max_invalid_texts:
            self._end(
                Outcome.INVALID_TEXT, f"{self._invalid_texts} texts in a row held no action: {step.text!r}"
            )
        elif self.steps_taken >= self.settings.max_steps:
            self._give_up(f"{self.steps_taken} steps")
        elif self.travelled_m >= self.settings.max_travel_m:
            self._give_up(f"{self.travelled_m:.1f} m")
        elif self.history.turned_deg >= self.settings.max_turning_deg:
            self._give_up(f"{self.history.turned_deg:.0f} degrees of turning on the spot")

    def _give_up(self, bound: str) -> None:
        searched = len(self.history.searched_places)
        aim = f"find out {self.instruction}" if self.instruction.startswith("where") else self.instruction
        places = "place" if searched == 1 else "places"
        self._end(Outcome.NOT_FOUND, f"did not {aim} in {bound}; searched {searched} {places}")

    def _end(self, outcome: Outcome, message: str) -> None:
        self.outcome = outcome
        self.message = message
