# SPDX-License-Identifier: Apache-2.0
"""One navigation goal from instruction to result: frame, text, motion, and again.

It blocks, and runs in a worker thread. It knows the decoder and the navigator; camera, odometry and base are
behind `RobotSide`, so that the ROS node and the tests' fakes drive the same loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Protocol

from outrider.core.errors import Cancelled, FrameError, LinkError, MotionError, OutriderError
from outrider.core.language.actions import split_answer
from outrider.core.language.prompt import render_prompt
from outrider.core.ports import TextDecoder
from outrider.core.values import Decoded, DecodeRequest, Odometry, Prompt, Sighting, TokenFate, Verified
from outrider.navigation.goal.navigator import Navigator, NavigatorSettings, Outcome, StepKey
from outrider.navigation.motion.pilot import Ending, MotionEnd

POLL_S = 0.05
ODOMETRY_POLL_S, ODOMETRY_PATIENCE_S = 0.01, 0.4
OVERRIDE_PAUSE_S = 0.5
MAX_FAILED_MOTIONS = 3
# Simulated seconds in a second, at which waits last their full time on the robot's clock.
SLOWEST_PACE = 0.1


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
    """A frame as both models see it. `stamp_s` is on `RobotSide`'s clock; `token` is the owner's own."""

    jpeg: bytes
    stamp_s: float
    token: object = None


@dataclass(frozen=True)
class StepUpdate:
    """What is known of a step now; a withdrawn one has the reason as its text.

    `trace` says what became of the newest tokens (`Verified.trace`), for those who watch.
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
    if not update.action_complete or silent_s <= limit_s:
        return update
    return withdrawal(update, f"no new picture for {silent_s:.1f} s: check the camera")


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


@dataclass(frozen=True)
class GoalSettings:
    """Bounds of the loop, in seconds and tokens; `instructed` as in `render_prompt`."""

    max_new_tokens: int = 96
    answer_deadline_s: float = 20.0
    link_patience_s: float = 60.0
    sensor_patience_s: float = 10.0
    motion_patience_s: float = 15.0
    settle_s: float = 0.1
    instructed: bool = False
    navigator: NavigatorSettings = field(default_factory=NavigatorSettings)


class _End(Exception):
    """Unwinds the loop with its result's error and message."""

    def __init__(self, error: GoalError, message: str) -> None:
        super().__init__(message)
        self.error = error


class GoalRun:
    """Runs one goal. The robot stands when `run` returns: the last thing told is a withdrawal."""

    def __init__(
        self,
        instruction: str,
        session_id: str,
        robot: RobotSide,
        decoder: TextDecoder,
        settings: GoalSettings,
        cancelled: Callable[[], bool],
        sightings: Sequence[Sighting] = (),
        forgotten: Callable[[], bool] = lambda: False,
    ) -> None:
        """`forgotten`: asked at each step whether the `sightings` are to be known no more."""
        self.instruction = instruction
        self.session_id = session_id
        self.robot = robot
        self.decoder = decoder
        self.settings = settings
        self.cancelled = cancelled
        self.sightings = sightings
        self.forgotten = forgotten
        self._step = 0
        self._seen_s = robot.now_s()
        self._failed_motions = 0
        self._failing_since_s = 0.0
        self._trouble_since_s: float | None = None

    def run(self) -> GoalResult:
        """Blocks until the goal has ended; expected failures become results, defects go on after a stop."""
        error, message, steps = GoalError.NONE, "", 0
        navigator: Navigator | None = None
        try:
            start = self._first_odometry()
            navigator = Navigator(self.instruction, self.settings.navigator, start, self.session_id)
            navigator.history.recall(self.sightings)
            while navigator.outcome is None:
                self._one_step(navigator)
                navigator.check_time(self.robot.now_s())
            error, message = _error_of(navigator.outcome), navigator.message
        except _End as end:
            error, message = end.error, str(end)
        except MotionError as failure:
            error, message = GoalError.MOTION_FAILED, str(failure)
        except OutriderError as failure:
            error, message = GoalError.MODEL_FAILED, str(failure)
        finally:
            self._withdraw(message or "the goal has ended")
        steps = navigator.steps_taken if navigator else 0
        return GoalResult(error is GoalError.NONE, error, message, steps)

    def _one_step(self, navigator: Navigator) -> None:
        """Frame, text, motion. Returns without a finished step where a fresh frame is to be tried."""
        frame = self._next_frame()
        self._step += 1
        key = navigator.begin_step(frame.stamp_s)
        update = StepUpdate(self.session_id, self._step, StepState.DECODING, frame)
        odometry = self.robot.odometry() or self._first_odometry()
        if self.forgotten():
            navigator.history.recall(())
        prompt = Prompt(render_prompt(navigator.context(odometry), self.settings.instructed), frame.jpeg)
        finished = self._decode(navigator, key, update, prompt)
        if finished is not None and finished.action_complete:
            self._finish_motion(navigator, key, finished)

    def _next_frame(self) -> Frame:
        """A frame taken after the last motion has settled."""
        patience_s = self.settings.sensor_patience_s
        for _ in self._polls(patience_s, POLL_S * 4):
            try:
                frame = self.robot.frame_after(self._seen_s + self.settings.settle_s, POLL_S * 4)
            except FrameError as error:
                raise _End(GoalError.NO_SENSOR, str(error)) from error
            if frame is not None:
                self._seen_s = frame.stamp_s
                return frame
        raise _End(
            GoalError.NO_SENSOR,
            f"no camera frame for {patience_s:.0f} s: check the camera node and its topic",
        )

    def _polls(self, patience_s: float, poll_s: float) -> Iterator[None]:
        """Yields before each look of `poll_s` real seconds, until the patience is over on the robot's clock.

        A simulated clock that is slower than SLOWEST_PACE stretches it no further, one that stands still not
        at all.
        """
        started_s, waited_s = self.robot.now_s(), 0.0
        elapsed_s = 0.0
        while elapsed_s < patience_s and waited_s < (patience_s / SLOWEST_PACE if elapsed_s else patience_s):
            self._check_cancelled()
            yield
            waited_s += poll_s
            elapsed_s = abs(self.robot.now_s() - started_s)

    def _first_odometry(self) -> Odometry:
        for _ in self._polls(self.settings.sensor_patience_s, POLL_S):
            odometry = self.robot.odometry()
            if odometry is not None:
                return odometry
            self.robot.pause(POLL_S)
        raise _End(GoalError.NO_SENSOR, "no odometry: check that something publishes odom")

    def _odometry_since(self, after_s: float) -> Odometry:
        """The first odometry from after a time; the newest there is, where none comes soon."""
        for _ in self._polls(ODOMETRY_PATIENCE_S, ODOMETRY_POLL_S):
            odometry = self.robot.odometry()
            if odometry is not None and odometry.stamp_s > after_s:
                return odometry
            self.robot.pause(ODOMETRY_POLL_S)
        return self.robot.odometry() or self._first_odometry()

    def _decode(
        self, navigator: Navigator, key: StepKey, update: StepUpdate, prompt: Prompt
    ) -> StepUpdate | None:
        """The finished text, told as it grows; None where link or frame failed and may yet recover."""
        growing = _Growing(self, navigator, key, update)
        request = DecodeRequest(prompt, self.settings.max_new_tokens, self.settings.answer_deadline_s)
        self.robot.tell_prompt(update, request)
        try:
            decoded = self.decoder.decode(request, growing.on_verified, self.cancelled)
        except Cancelled:
            raise _End(GoalError.CANCELLED, "cancelled") from None
        except (LinkError, FrameError) as failure:
            self._recover_later(failure)
            return None
        self._trouble_since_s = None
        update = growing.finish(decoded)
        self.robot.tell_rounds(update, decoded)
        return update

    def _recover_later(self, failure: OutriderError) -> None:
        """The robot stands; the goal goes on once the cause is gone, within the patience for it."""
        now_s = self.robot.now_s()
        since_s = self._trouble_since_s = self._trouble_since_s or now_s
        is_link = isinstance(failure, LinkError)
        patience_s = self.settings.link_patience_s if is_link else self.settings.sensor_patience_s
        self._withdraw(str(failure))
        if now_s - since_s >= patience_s:
            raise _End(GoalError.LINK_LOST if is_link else GoalError.NO_SENSOR, str(failure))
        self.robot.pause(POLL_S * 4)
        self._seen_s = self.robot.now_s()

    def _finish_motion(self, navigator: Navigator, key: StepKey, update: StepUpdate) -> None:
        end = self._await_end(update)
        self._seen_s = self.robot.now_s()
        if end.ending is Ending.EMERGENCY_STOP:
            raise _End(GoalError.EMERGENCY_STOP, end.message)
        if end.ending is Ending.OVERRIDDEN:
            self._give_way(navigator, end.message)
            return
        # A stopped one had its cause in link or camera, which have a patience of their own.
        if end.ending is Ending.FAILED:
            self._heed_failure(end.message)
        else:
            self._failed_motions = 0
        navigator.on_moved(key, self._odometry_since(self._seen_s))

    def _heed_failure(self, message: str) -> None:
        """A machine that is held up for some seconds may fail a few motions in a row: that ends no goal."""
        if self._failed_motions == 0:
            self._failing_since_s = self._seen_s
        self._failed_motions += 1
        lasts = self._seen_s - self._failing_since_s >= self.settings.sensor_patience_s
        if lasts and self._failed_motions >= MAX_FAILED_MOTIONS:
            raise _End(GoalError.MOTION_FAILED, f"{self._failed_motions} motions failed: {message}")

    def _give_way(self, navigator: Navigator, reason: str) -> None:
        """A person drives: the step does not count, and the search goes on from where they leave it."""
        self._withdraw(reason)
        self.robot.pause(OVERRIDE_PAUSE_S)
        self._seen_s = self.robot.now_s()
        odometry = self.robot.odometry() or self._first_odometry()
        navigator.history.record_foreign_motion(odometry.pose)

    def _await_end(self, update: StepUpdate) -> MotionEnd:
        patience_s = self.settings.motion_patience_s
        for _ in self._polls(patience_s, POLL_S):
            end = self.robot.motion_end(self.session_id, update.step, POLL_S)
            if end is not None:
                return end
        raise _End(
            GoalError.MOTION_FAILED,
            f"no report of {update.action!r} for {patience_s:.0f} s: is the action node active?",
        )

    def _check_cancelled(self) -> None:
        if self.cancelled():
            raise _End(GoalError.CANCELLED, "cancelled")

    def _withdraw(self, reason: str) -> None:
        self.robot.tell(StepUpdate(self.session_id, self._step, StepState.WITHDRAWN, text=reason))


class _Growing:
    """The text of one step while it grows: each verified piece is told, the action once it is complete."""

    def __init__(self, run: GoalRun, navigator: Navigator, key: StepKey, update: StepUpdate) -> None:
        self._run, self._navigator, self._key = run, navigator, key
        self.update = update

    def on_verified(self, verified: Verified) -> None:
        now_s = self._run.robot.now_s()
        motion = self._navigator.on_verified(self._key, verified.text, now_s)
        tokens = self.update.verified_tokens + len(verified.token_ids)
        self.update = replace(self.update, text=verified.text, verified_tokens=tokens, trace=verified.trace)
        if motion is not None:
            self._complete_action(verified.text, now_s)
        self._run.robot.tell(self.update)

    def finish(self, decoded: Decoded) -> StepUpdate:
        """Tell the whole text. One line that has ended is an action; one cut short is none."""
        now_s = self._run.robot.now_s()
        if decoded.finished or "\n" in decoded.text:
            motion = self._navigator.on_finished(self._key, decoded.text, now_s)
            if motion is not None:
                self._complete_action(decoded.text + "\n", now_s)
        self.update = replace(
            self.update,
            state=StepState.FINISHED,
            text=decoded.text,
            verified_tokens=len(decoded.token_ids),
            target_passes=decoded.target_passes,
            tokens_per_s=decoded.tokens_per_s,
            tokens_per_round=decoded.tokens_per_round,
            trace=(),
        )
        self._run.robot.tell(self.update)
        return self.update

    def _complete_action(self, text: str, now_s: float) -> None:
        latency_s = now_s - self._key.frame_stamp_s
        action = split_answer(text).action
        self.update = replace(self.update, action=action, action_complete=True, latency_s=latency_s)


def _error_of(outcome: Outcome) -> GoalError:
    if outcome is Outcome.ARRIVED:
        return GoalError.NONE
    if outcome is Outcome.CANCELLED:
        return GoalError.CANCELLED
    return GoalError.NOT_FOUND if outcome is Outcome.NOT_FOUND else GoalError.MODEL_FAILED
