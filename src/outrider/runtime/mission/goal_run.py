# SPDX-License-Identifier: Apache-2.0
"""Runs one navigation goal from instruction to result, step by step: frame, text, motion.

It blocks, and runs in a worker thread. It uses the decoder and the navigator directly. Camera, odometry and
base are behind `RobotSide`, so the ROS node and the tests' fakes drive the same loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from outrider.core.errors import Cancelled, FrameError, LinkError, MotionError, OutriderError
from outrider.core.language.actions import Motion
from outrider.core.language.prompt import render_prompt
from outrider.core.ports import TextDecoder
from outrider.core.values import (
    DecodeRequest,
    Odometry,
    Prompt,
    Sighting,
)
from outrider.navigation.goal.navigator import Navigator, NavigatorSettings, Outcome, StepKey
from outrider.navigation.motion.step_motions import Ending, MotionEnd
from outrider.runtime.mission.bounded_waits import NO_ODOMETRY, POLL_S, first_odometry, polls
from outrider.runtime.mission.growing_text import GrowingText
from outrider.runtime.mission.look_ahead import LookAhead
from outrider.runtime.mission.robot_side import Frame, GoalError, GoalResult, RobotSide, StepState, StepUpdate

ODOMETRY_POLL_S, ODOMETRY_PATIENCE_S = 0.01, 0.4
OVERRIDE_PAUSE_S = 0.5
MAX_FAILED_MOTIONS, MAX_IDLE_MOTIONS = 3, 40
# A blocked motion that covers less than this is idle.
IDLE_M, IDLE_RAD = 0.02, math.radians(1.0)


@dataclass(frozen=True)
class GoalSettings:
    """Bounds of the loop, in seconds and tokens. `instructed`: see `render_prompt`.

    `continuous`: take the next frame during a motion; the robot stands only if the answer comes late.
    """

    max_new_tokens: int = 96
    answer_deadline_s: float = 20.0
    link_patience_s: float = 60.0
    sensor_patience_s: float = 10.0
    motion_patience_s: float = 15.0
    settle_s: float = 0.1
    instructed: bool = False
    continuous: bool = False
    navigator: NavigatorSettings = field(default_factory=NavigatorSettings)


class _End(Exception):
    """Ends the loop with the error and message of the result."""

    def __init__(self, error: GoalError, message: str) -> None:
        super().__init__(message)
        self.error = error


class GoalRun:
    """Runs one goal. The robot stands when `run` returns: the last update is a withdrawal."""

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
        steps_before: int = 0,
    ) -> None:
        """`forgotten` is polled at each step: True drops the `sightings`.

        Step numbers continue after `steps_before`.
        """
        self.instruction = instruction
        self.session_id = session_id
        self.robot = robot
        self.decoder = decoder
        self.settings = settings
        self.cancelled = cancelled
        self.sightings = sightings
        self.forgotten = forgotten
        self._step = steps_before
        self._seen_s = robot.now_s()
        self._failed_motions = self._idle_motions = 0
        self._failing_since_s = 0.0
        self._trouble_since_s: float | None = None
        self._look_ahead = LookAhead()
        self._under_way: StepUpdate | None = None

    @property
    def last_step(self) -> int:
        """The number of the last step that began."""
        return self._step

    @property
    def last_failed(self) -> bool:
        """Whether the last motion failed; further failures may end the goal."""
        return self._failed_motions > 0

    def run(self) -> GoalResult:
        """Block until the goal ends. Expected errors become its result; others propagate after a stop."""
        error, message, steps = GoalError.NONE, "", 0
        navigator: Navigator | None = None
        try:
            start = self._first_odometry()
            navigator = Navigator(self.instruction, self.settings.navigator, start, self.session_id)
            navigator.history.recall(self.sightings)
            navigator.history.under_way = self.settings.continuous
            while navigator.outcome is None:
                self._run_step(navigator)
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

    def _run_step(self, navigator: Navigator) -> None:
        """Take a frame, decode its text, await its motion. Returns early if a fresh frame is to be tried."""
        frame = self._next_frame()
        self._step += 1
        key = navigator.begin_step(frame.stamp_s)
        under_way = self._under_way is not None
        update = StepUpdate(self.session_id, self._step, StepState.DECODING, frame, under_way=under_way)
        odometry = frame.odometry or self.robot.odometry() or self._first_odometry()
        if self.forgotten():
            navigator.history.recall(())
        prompt = Prompt(render_prompt(navigator.context(odometry), self.settings.instructed), frame.jpeg)

        def follow(motion: Motion, latency_s: float) -> None:
            self._look_ahead.follow(motion, odometry.pose, latency_s)

        growing = GrowingText(self.robot, navigator, key, update, follow)
        decoded = self._decode(growing, prompt)
        commanded = decoded if decoded is not None and decoded.action_complete else None
        previous_end, end = self._await_previous(commanded)
        is_overridden = previous_end is not None and not self._handle_end(navigator, previous_end)
        if commanded is not None and not is_overridden:
            self._finish_motion(navigator, key, commanded, end)

    def _next_frame(self) -> Frame:
        """Returns a frame taken after the last motion has settled, or a new one during a motion under way."""
        patience_s = self.settings.sensor_patience_s
        settle_s = 0.0 if self._under_way else self.settings.settle_s
        for _ in polls(self.robot, patience_s, POLL_S * 4):
            self._check_cancelled()
            try:
                frame = self.robot.frame_after(self._seen_s + settle_s, POLL_S * 4)
            except FrameError as error:
                raise _End(GoalError.NO_SENSOR, str(error)) from error
            if frame is not None:
                self._seen_s = frame.stamp_s
                return frame
        raise _End(
            GoalError.NO_SENSOR,
            f"no camera frame for {patience_s:.0f} s: check the camera node and its topic",
        )

    def _first_odometry(self) -> Odometry:
        odometry = first_odometry(self.robot, self.settings.sensor_patience_s, self.cancelled)
        self._check_cancelled()
        if odometry is None:
            raise _End(GoalError.NO_SENSOR, NO_ODOMETRY)
        return odometry

    def _odometry_since(self, after_s: float) -> Odometry:
        """Returns the first odometry after a time, or the newest after ODOMETRY_PATIENCE_S."""
        for _ in polls(self.robot, ODOMETRY_PATIENCE_S, ODOMETRY_POLL_S):
            self._check_cancelled()
            odometry = self.robot.odometry()
            if odometry is not None and odometry.stamp_s > after_s:
                return odometry
            self.robot.pause(ODOMETRY_POLL_S)
        return self.robot.odometry() or self._first_odometry()

    def _decode(self, growing: GrowingText, prompt: Prompt) -> StepUpdate | None:
        """Returns the finished text; None after a link or frame failure that may recover."""
        request = DecodeRequest(prompt, self.settings.max_new_tokens, self.settings.answer_deadline_s)
        self.robot.publish_prompt(growing.update, request)

        def is_over() -> bool:
            return self.cancelled() or (growing.says_enough and self._is_time_to_look())

        try:
            decoded = self.decoder.decode(request, growing.on_verified, is_over)
        except Cancelled:
            if self.cancelled():
                raise _End(GoalError.CANCELLED, "cancelled") from None
            if not growing.says_enough:  # the decoder was closed
                raise
            return growing.cut()
        except (LinkError, FrameError) as failure:
            self._recover_later(failure)
            return None
        self._trouble_since_s = None
        update = growing.finish(decoded)
        self.robot.publish_rounds(update, decoded)
        return update

    def _is_time_to_look(self) -> bool:
        return self.settings.continuous and self._look_ahead.is_due(self.robot.odometry())

    def _recover_later(self, failure: OutriderError) -> None:
        """Stop the robot and pause. Ends the goal once the failure has lasted longer than its patience."""
        now_s = self.robot.now_s()
        since_s = self._trouble_since_s = self._trouble_since_s or now_s
        is_link = isinstance(failure, LinkError)
        patience_s = self.settings.link_patience_s if is_link else self.settings.sensor_patience_s
        self._withdraw(str(failure))
        if now_s - since_s >= patience_s:
            raise _End(GoalError.LINK_LOST if is_link else GoalError.NO_SENSOR, str(failure))
        self.robot.pause(POLL_S * 4)
        self._seen_s = self.robot.now_s()

    def _await_previous(self, commanded: StepUpdate | None) -> tuple[MotionEnd | None, MotionEnd | None]:
        """Wait until the motion under way, if any, has ended. Returns how it and `commanded` ended.

        `commanded` is this step's update, if it moves the robot. An action node reports in order: if the
        report of `commanded` comes first, the node that carried out the previous motion was replaced, and
        that motion's report is lost. Both ends are None if there is no report yet.
        """
        previous, self._under_way = self._under_way, None
        if previous is None:
            return None, None
        end: MotionEnd | None = None

        def has_next_ended() -> bool:
            nonlocal end
            if commanded is not None:
                end = self.robot.motion_end(self.session_id, commanded.step, 0.0)
            return end is not None

        previous_end = self._await_end(previous, has_next_ended)
        return previous_end, end

    def _finish_motion(
        self, navigator: Navigator, key: StepKey, update: StepUpdate, end: MotionEnd | None
    ) -> None:
        """Wait until the motion ends, or until the next frame is due; then it counts as carried out.

        `end` is the report of the motion, if there is one already.
        """
        end = end or self._await_end(update, self._is_time_to_look)
        self._seen_s = self.robot.now_s()
        if end is None:
            self._under_way = update
            navigator.on_moved(key, self.robot.odometry() or self._first_odometry())
        elif self._handle_end(navigator, end):
            navigator.on_moved(key, self._odometry_since(self._seen_s))

    def _handle_end(self, navigator: Navigator, end: MotionEnd) -> bool:
        """Handle the end of a motion. Returns whether it counts as a step: not if a person took over."""
        if end.ending is Ending.EMERGENCY_STOP:
            raise _End(GoalError.EMERGENCY_STOP, end.message)
        if end.ending is Ending.OVERRIDDEN:
            self._on_override(navigator, end.message)
            return False
        # A motion that was stopped is no failure: link and camera have timeouts of their own.
        if end.ending is Ending.FAILED:
            self._count_failure(end.message)
            return True
        self._failed_motions = 0
        is_idle = end.ending is Ending.BLOCKED and end.distance_m < IDLE_M and abs(end.turned_rad) < IDLE_RAD
        self._idle_motions = self._idle_motions + 1 if is_idle else 0
        if self._idle_motions >= MAX_IDLE_MOTIONS:
            idle = f"{self._idle_motions} motions in a row covered nothing"
            raise _End(GoalError.MOTION_FAILED, f"{idle}: is the robot free, and does its base obey?")
        return True

    def _count_failure(self, message: str) -> None:
        """Count a failed motion. A few in a row do not end the goal: a machine may stall for seconds."""
        if self._failed_motions == 0:
            self._failing_since_s = self._seen_s
        self._failed_motions += 1
        lasts = self._seen_s - self._failing_since_s >= self.settings.sensor_patience_s
        if lasts and self._failed_motions >= MAX_FAILED_MOTIONS:
            raise _End(GoalError.MOTION_FAILED, f"{self._failed_motions} motions failed: {message}")

    def _on_override(self, navigator: Navigator, reason: str) -> None:
        """Handle driving by a person: the step does not count, and the search continues from the new pose."""
        self._withdraw(reason)
        self.robot.pause(OVERRIDE_PAUSE_S)
        self._seen_s = self.robot.now_s()
        odometry = self.robot.odometry() or self._first_odometry()
        navigator.history.record_foreign_motion(odometry.pose)

    def _await_end(self, update: StepUpdate, is_enough: Callable[[], bool]) -> MotionEnd | None:
        """Returns how the motion ended; None once `is_enough` is true before that."""
        patience_s = self.settings.motion_patience_s
        for _ in polls(self.robot, patience_s, POLL_S):
            self._check_cancelled()
            is_over = is_enough()
            end = self.robot.motion_end(self.session_id, update.step, 0.0 if is_over else POLL_S)
            if end is not None or is_over:
                return end
        raise _End(
            GoalError.MOTION_FAILED,
            f"no report of {update.action!r} for {patience_s:.0f} s: is the action node active?",
        )

    def _check_cancelled(self) -> None:
        if self.cancelled():
            raise _End(GoalError.CANCELLED, "cancelled")

    def _withdraw(self, reason: str) -> None:
        self.robot.publish_step(StepUpdate(self.session_id, self._step, StepState.WITHDRAWN, text=reason))


def _error_of(outcome: Outcome) -> GoalError:
    if outcome is Outcome.ARRIVED:
        return GoalError.NONE
    if outcome is Outcome.CANCELLED:
        return GoalError.CANCELLED
    return GoalError.NOT_FOUND if outcome is Outcome.NOT_FOUND else GoalError.MODEL_FAILED
