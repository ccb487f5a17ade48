# SPDX-License-Identifier: Apache-2.0
"""What a goal's loop and the robot's side tell each other: frames, updates of a step, and results."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from outrider.core.language.sentences.planner import brief
from outrider.core.values import Decoded, DecodeRequest, Odometry, TokenFate
from outrider.navigation.motion.step_motions import MotionEnd

MANY_BLINDED = 5
"""Motions of one goal for want of pictures: fewer are hiccups."""


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
    """A frame as both models see it. `stamp_s` is on `RobotSide`'s clock; `token` is the owner's own.

    `odometry`: of the moment when it was taken; None where it is that of now, as for a robot that stands.
    """

    jpeg: bytes
    stamp_s: float
    token: object = None
    odometry: Odometry | None = None


@dataclass(frozen=True)
class StepUpdate:
    """What is known of a step now; a withdrawn one has the reason as its text.

    `trace` says what became of the newest tokens (`Verified.trace`), for those who watch. `under_way`: the
    motion of the step before may still move the robot.
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
    """When the camera last gave a new picture, on the clock of its owner."""

    def __init__(self, now_s: float) -> None:
        self._stamp: object = None
        self._seen_s = now_s

    def is_new(self, stamp: object, now_s: float) -> bool:
        """Whether a picture with this stamp is one: a driver that has lost its camera may repeat the last."""
        if stamp == self._stamp:
            return False
        self._stamp, self._seen_s = stamp, now_s
        return True

    def silent_s(self, now_s: float) -> float:
        """How long ago the newest picture came; for ever on a clock that was set back since."""
        return now_s - self._seen_s if now_s >= self._seen_s else math.inf


def unless_blind(update: StepUpdate, silent_s: float, limit_s: float) -> StepUpdate:
    """What a robot's side repeats: the update, or its withdrawal where the camera is silent for too long.

    Only a motion is withdrawn: a text may well be decoded from a picture that was the last one.
    """
    if not (update.action_complete or update.under_way) or silent_s <= limit_s:
        return update
    told = f"no new picture for {silent_s:.2f} s, where camera_silence_s allows {limit_s:g}: check the camera"
    return withdrawal(update, told)


def late_pictures(num_blinded: int, limit_s: float) -> str:
    """How a camera has held up a goal, so many of whose motions `unless_blind` withdrew; empty for few."""
    if num_blinded < MANY_BLINDED:
        return ""
    return (
        f"{num_blinded} motions ended because no new picture had come for {limit_s:g} s: let the camera give "
        "more, or raise camera_silence_s"
    )


def withdrawal(update: StepUpdate, reason: str) -> StepUpdate:
    """What takes an update back."""
    return StepUpdate(update.session_id, update.step, StepState.WITHDRAWN, text=reason)


@dataclass(frozen=True)
class GoalResult:
    """How a goal ended. A `private` message is for whoever gave the goal, not for logs."""

    success: bool
    error: GoalError
    message: str
    steps: int
    private: bool = False

    def logged(self, sentence: str) -> str:
        """How the goal of a sentence ended, as anybody may read it: logs are a topic and files."""
        if not self.private:
            return self.message
        ending = "answered" if self.success else self.error.name.lower().replace("_", " ")
        return f"{brief(sentence)}: {ending}"


class RobotSide(Protocol):
    """What the loop needs of the robot. All calls return within their timeout."""

    def now_s(self) -> float:
        """Returns the time in seconds on the clock that stamps odometry."""

    def frame_after(self, stamp_s: float, timeout_s: float) -> Frame | None:
        """The newest frame taken after a time, or None. Raises FrameError for a camera not to be trusted."""

    def odometry(self) -> Odometry | None:
        """Returns the newest odometry; None before the first."""

    def tell(self, update: StepUpdate) -> None:
        """Publish; the receiver moves the robot when an action is complete."""

    def tell_prompt(self, update: StepUpdate, request: DecodeRequest) -> None:
        """Publish what the step's text is about to be decoded from."""

    def tell_rounds(self, update: StepUpdate, decoded: Decoded) -> None:
        """Publish the statistics of a finished text, round by round."""

    def motion_end(self, session_id: str, step: int, timeout_s: float) -> MotionEnd | None:
        """The report of a motion, or None after the timeout."""

    def pause(self, duration_s: float) -> None:
        """Waits for a time in seconds."""
