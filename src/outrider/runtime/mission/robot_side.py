# SPDX-License-Identifier: Apache-2.0
"""The data between a goal's loop and the robot's side: frames, updates of a step, and results."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from outrider.core.language.sentences.planner import brief
from outrider.core.values import Decoded, DecodeRequest, Odometry, TokenFate
from outrider.navigation.motion.step_motions import MotionEnd

MANY_BLINDED = 5
"""The number of withdrawn motions in one goal from which missing pictures are reported."""


class StepState(Enum):
    """Mirrors the constants of VerifiedText."""

    DECODING = 0
    FINISHED = 1
    WITHDRAWN = 2


class GoalError(Enum):
    """Mirrors the error codes of Navigate."""

    NONE = 0
    BAD_INSTRUCTION = 1
    NOT_FOUND = 2
    LINK_LOST = 3
    NO_SENSOR = 4
    MOTION_FAILED = 5
    CANCELLED = 6
    MODEL_FAILED = 7
    EMERGENCY_STOP = 8
    MEMORY_FAILED = 9


@dataclass(frozen=True)
class Frame:
    """A frame as both models see it. `stamp_s` is on `RobotSide`'s clock; `token` is for its owner's use.

    `odometry` is from the moment of the frame. None means the current odometry, as for a robot that stands.
    """

    jpeg: bytes
    stamp_s: float
    token: object = None
    odometry: Odometry | None = None


@dataclass(frozen=True)
class StepUpdate:
    """The current state of a step. The text of a withdrawn step is the reason.

    `trace` gives the fate of the newest tokens (`Verified.trace`), for display. `under_way`: the motion of
    the previous step may still move the robot.
    """

    session_id: str
    step: int
    state: StepState
    frame: Frame | None = None
    text: str = ""
    action: str = ""
    action_complete: bool = False
    verified_tokens: int = 0
    target_passes: int = 0
    latency_s: float = 0.0
    tokens_per_s: float = 0.0
    tokens_per_round: float = 0.0
    trace: tuple[tuple[str, TokenFate], ...] = ()
    under_way: bool = False


class PictureClock:
    """Remembers when the camera last gave a new picture, on its owner's clock."""

    def __init__(self, now_s: float) -> None:
        self._stamp: object = None
        self._seen_s = now_s

    def is_new(self, stamp: object, now_s: float) -> bool:
        """Whether this stamp is new. A driver that has lost its camera may repeat the last picture."""
        if stamp == self._stamp:
            return False
        self._stamp, self._seen_s = stamp, now_s
        return True

    def silent_s(self, now_s: float) -> float:
        """Returns the age of the newest picture in seconds; infinite if the clock was set back since."""
        return now_s - self._seen_s if now_s >= self._seen_s else math.inf


def unless_blind(update: StepUpdate, silent_s: float, limit_s: float) -> StepUpdate:
    """Returns the update, or its withdrawal if the camera has been silent for longer than `limit_s`.

    Only a motion is withdrawn. Decoding may go on with the last picture.
    """
    if not (update.action_complete or update.under_way) or silent_s <= limit_s:
        return update
    reason = (
        f"no new picture for {silent_s:.2f} s, where camera_silence_s allows {limit_s:g}: check the camera"
    )
    return withdrawal(update, reason)


def late_pictures(num_blinded: int, limit_s: float) -> str:
    """Returns a message if `unless_blind` withdrew `num_blinded` motions of one goal; empty for a few."""
    if num_blinded < MANY_BLINDED:
        return ""
    return (
        f"{num_blinded} motions ended because no new picture had come for {limit_s:g} s: let the camera give "
        "more, or raise camera_silence_s"
    )


def withdrawal(update: StepUpdate, reason: str) -> StepUpdate:
    """Returns the update that withdraws another."""
    return StepUpdate(update.session_id, update.step, StepState.WITHDRAWN, text=reason)


@dataclass(frozen=True)
class GoalResult:
    """The result of a goal. A `private` message is only for the person who gave the goal, not for logs."""

    success: bool
    error: GoalError
    message: str
    steps: int
    private: bool = False

    def logged(self, sentence: str) -> str:
        """Returns how the goal ended, without private words: logs are a topic and files."""
        if not self.private:
            return self.message
        ending = "answered" if self.success else self.error.name.lower().replace("_", " ")
        return f"{brief(sentence)}: {ending}"


class RobotSide(Protocol):
    """The loop's interface to the robot. All calls return within their timeout."""

    def now_s(self) -> float:
        """Returns the time in seconds on the clock that stamps odometry."""

    def frame_after(self, stamp_s: float, timeout_s: float) -> Frame | None:
        """Returns the newest frame after `stamp_s`, or None. Raises FrameError for a faulty camera."""

    def odometry(self) -> Odometry | None:
        """Returns the newest odometry; None before the first."""

    def publish_step(self, update: StepUpdate) -> None:
        """Publish an update. The receiver moves the robot when the action is complete."""

    def publish_prompt(self, update: StepUpdate, request: DecodeRequest) -> None:
        """Publish the request that the step's text is decoded from."""

    def publish_rounds(self, update: StepUpdate, decoded: Decoded) -> None:
        """Publish the statistics of a finished text, round by round."""

    def motion_end(self, session_id: str, step: int, timeout_s: float) -> MotionEnd | None:
        """Returns the report of a motion, or None after the timeout."""

    def pause(self, duration_s: float) -> None:
        """Wait for a time in seconds."""
