# SPDX-License-Identifier: Apache-2.0
"""The robot's side of a goal's worker thread: newest measurements in, verified text and feedback out."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from nav_msgs.msg import Odometry as OdometryMsg
from outrider_interfaces.action import Navigate
from outrider_interfaces.msg import MotionReport
from sensor_msgs.msg import Image
from std_msgs.msg import Header

from outrider.core.errors import FrameError
from outrider.core.values import Decoded, DecodeRequest, LinkState, Odometry, Pose2D
from outrider.navigation.clocks import NO_CLOCK
from outrider.navigation.motion.step_motions import MotionEnd
from outrider.navigation.sensing.camera_check import (
    DARK,
    REPEATED,
    MirrorCheck,
    RepeatWatch,
    is_black,
)
from outrider.navigation.sensing.camera_jpeg import model_jpeg
from outrider.navigation.sensing.odometry_check import OdometryCheck
from outrider.navigation.sensing.odometry_track import PERIOD_S
from outrider.nodes.common import convert, step_messages
from outrider.nodes.common.node import OutriderNode
from outrider.runtime.mission.robot_side import (
    Frame,
    GoalError,
    PictureClock,
    StepState,
    StepUpdate,
    late_pictures,
    unless_blind,
    withdrawal,
)
from outrider.runtime.plans.progress import Progress

FRESH_S = 2.0
# How far apart a picture and its odometry may be in time, and how many odometry messages are kept.
MATCH_S, TRACKED = 0.06, 500
MAX_CLOCK_OFFSET_S = 5.0
UNSTAMPED = convert.Time()
# The period of brightness checks: a large picture takes milliseconds to convert.
LIGHT_PERIOD_S = 0.15


class RosRobotSide:
    """Implements `robot_side.RobotSide`. Thread-safe: callbacks write, the worker waits on a condition."""

    texts: Any
    plans: Any
    prompts: Any
    rounds: Any
    tokens: Any
    strategy: Callable[[], str]
    """Returns the strategy of the newest text."""

    def __init__(
        self, node: OutriderNode, link_state: Callable[[], LinkState], camera_silence_s: float
    ) -> None:
        self._node = node
        self._link_state = link_state
        self._camera_silence_s = camera_silence_s
        self._changed = threading.Condition()
        self._image: tuple[Image, float] | None = None
        self._pictures = PictureClock(node.now_s())
        self._repeat_watch, self._repeats = RepeatWatch(), False
        self._mirror = MirrorCheck()
        self._is_dark, self._light_s = False, -math.inf
        self._odometry_check = OdometryCheck(self._node.is_simulated)
        self._track: deque[Odometry] = deque(maxlen=TRACKED)
        self._image_warning, self._blinded = "", 0
        self._stamp, self._stamp_repeats = UNSTAMPED, False
        self._odometry: Odometry | None = None
        self._pose: Pose2D | None = None
        self._ends: dict[tuple[str, int], MotionEnd] = {}
        self._update: StepUpdate | None = None
        self._feedback: Callable[[Any], None] | None = None
        self._progress = Progress()
        self._travelled_m, self._may_move = 0.0, True
        self._traces = step_messages.Traces()

    def on_image(self, message: Image, came_s: float) -> None:
        """Take a picture that came at `came_s` (`now_s`). An unusable stamp is replaced."""
        came_stamp_s = self._node.stamp_s(came_s)
        if message.header.stamp == UNSTAMPED:
            message.header.stamp = convert.time_of(came_stamp_s)
        stamp = message.header.stamp
        self._stamp_repeats = self._image is not None and stamp == self._stamp
        self._stamp = stamp
        if self._shows_nothing(message, came_s) or self._shows_nothing_new(message):
            return
        if not self._pictures.is_new((stamp.sec, stamp.nanosec), came_s):
            return
        age_s = came_stamp_s - convert.seconds_of(stamp)
        if not 0.0 <= age_s <= MAX_CLOCK_OFFSET_S:
            # The camera has another clock: its pictures count from their arrival.
            message.header.stamp, age_s = convert.time_of(came_stamp_s), 0.0
        with self._changed:
            self._image = (message, came_s - age_s)
            self._changed.notify_all()

    def _shows_nothing(self, message: Image, came_s: float) -> bool:
        """Whether the pictures are black; one is checked every LIGHT_PERIOD_S."""
        if not 0.0 <= came_s - self._light_s < LIGHT_PERIOD_S:
            self._is_dark, self._light_s = False, came_s
            with contextlib.suppress(FrameError):  # reported where the picture is used
                self._is_dark = is_black(convert.rgb_of(message))
        return self._is_dark

    def _shows_nothing_new(self, message: Image) -> bool:
        """Whether the picture repeats a recent one though the robot has moved; else checks for mirroring."""
        odometry, newest = self._odometry_at(message.header.stamp), self.odometry() if self._pose else None
        self._repeats = self._repeat_watch.is_repeated(message.data, odometry or newest, odometry is not None)
        if odometry is not None and not self._repeats:
            with contextlib.suppress(FrameError):  # reported where the picture is used
                self._mirror.see(lambda: convert.rgb_of(message), odometry.pose)
        return self._repeats

    def on_odometry(self, message: OdometryMsg, came_s: float) -> None:
        """Take odometry that came at `came_s` (`now_s`). It is dropped if implausible."""
        odometry = self._odometry_check.take(convert.odometry_sample(message), came_s)
        with self._changed:
            before, self._pose = self._pose, odometry.pose if odometry else None
            if odometry is None:
                return  # a single wrong distance or pose would corrupt all that is computed from it
            if not self._track or not 0.0 <= odometry.stamp_s - self._track[-1].stamp_s < PERIOD_S:
                self._track.append(odometry)
            if before is not None:
                self._travelled_m += odometry.pose.distance_to(before.x, before.y)
            self._odometry = odometry
            self._changed.notify_all()

    def _odometry_at(self, stamp: convert.Time) -> Odometry | None:
        """Returns the odometry at a picture's time; the newest if another clock stamped the picture."""
        age_s = self._node.get_clock().now().nanoseconds * 1e-9 - convert.seconds_of(stamp)
        if abs(age_s) > MAX_CLOCK_OFFSET_S:
            return self.odometry()
        capture_s = self.now_s() - age_s
        with self._changed:
            nearest = min(self._track, key=lambda odometry: abs(odometry.stamp_s - capture_s), default=None)
        return nearest if nearest is not None and abs(nearest.stamp_s - capture_s) <= MATCH_S else None

    def on_motion_report(self, message: MotionReport) -> None:
        """Record the end of a motion."""
        end = step_messages.end_of(message)
        if end is None:
            return  # the waiting caller reports that none came
        with self._changed:
            self._ends[(end.session_id, end.step)] = end
            self._changed.notify_all()

    def now_s(self) -> float:
        """Returns the time of the node's clock in seconds."""
        return self._node.now_s()

    def frame_after(self, stamp_s: float, timeout_s: float) -> Frame | None:
        """Returns the newest picture taken after a time, or None.

        Raises FrameError for a faulty camera.
        """
        if self._untrue():
            raise FrameError(self._untrue())
        deadline_s = time.monotonic() + timeout_s
        with self._changed:
            # A picture from the future dates from before a simulated clock was set back.
            while self._image is None or not stamp_s < self._image[1] <= self.now_s():
                if not self._changed.wait(deadline_s - time.monotonic()):
                    return None
            message, capture_s = self._image
        try:
            odometry = self._odometry_at(message.header.stamp)
            return Frame(model_jpeg(convert.rgb_of(message)), capture_s, message.header, odometry)
        except FrameError as error:
            self._image_warning = str(error)
            self._node.get_logger().error(str(error), throttle_duration_sec=2.0)
            self.pause(timeout_s)
            return None

    def odometry(self) -> Odometry | None:
        """Returns the newest odometry; None if it is older than `FRESH_S`."""
        odometry = self._odometry
        is_fresh = odometry is not None and 0.0 <= self.now_s() - odometry.stamp_s <= FRESH_S
        return odometry if is_fresh else None

    def stands_after(self, stamp_s: float, timeout_s: float) -> bool:
        """Whether odometry measured after a time shows that the robot stands; waits for that."""
        with self._changed:
            return self._changed.wait_for(lambda: self._has_shown_standstill(stamp_s), timeout_s)

    def _has_shown_standstill(self, stamp_s: float) -> bool:
        return self._odometry is not None and self._odometry.stamp_s > stamp_s and self._odometry.stands

    def motion_end(self, session_id: str, step: int, timeout_s: float) -> MotionEnd | None:
        """Returns the report of a motion, or None after the timeout."""
        deadline_s = time.monotonic() + timeout_s
        with self._changed:
            while (session_id, step) not in self._ends:
                if not self._changed.wait(deadline_s - time.monotonic()):
                    return None
            return self._ends.pop((session_id, step))

    def pause(self, duration_s: float) -> None:
        """Sleep for a time in seconds."""
        time.sleep(duration_s)

    def publish_step(self, update: StepUpdate) -> None:
        """Publish the state of a step's text; after `withdraw`, only of a withdrawn one."""
        with self._changed:
            if not (self._may_move or update.state is StepState.WITHDRAWN):
                return
            self._update = update
            self._publish(update)
            if self.tokens.get_subscription_count():
                self._traces.add(update)

    def publish_prompt(self, update: StepUpdate, request: DecodeRequest) -> None:
        """Publish the prompt of a step, if there is a subscriber."""
        if self.prompts.get_subscription_count() > 0:
            self.prompts.publish(step_messages.prompt_message(update, request, self._header(update)))

    def publish_rounds(self, update: StepUpdate, decoded: Decoded) -> None:
        """Publish the statistics of a finished text, round by round."""
        stamp = self._header(update)
        for round_ in decoded.rounds:
            self.rounds.publish(
                step_messages.round_message(update, self.strategy(), decoded.link, round_, stamp)
            )

    def tell_progress(self, progress: Progress) -> None:
        """Publish the plan, or its next step."""
        with self._changed:
            self._progress = progress
            self.plans.publish(step_messages.progress_message(progress, running=True))
            if self._feedback is not None:
                update = self._update or StepUpdate("", 0, StepState.DECODING)
                self._feedback(self._feedback_of(update, self._link_state().value))

    def begin_goal(self, feedback: Callable[[Any], None]) -> None:
        """Drop the last goal's reports and camera checks. `feedback` is called with each text."""
        # The camera's faults may have been corrected.
        self._mirror, self._repeat_watch = MirrorCheck(), RepeatWatch()
        with self._changed:
            self._ends.clear()
            self._feedback, self._travelled_m, self._blinded = feedback, 0.0, 0
            self._progress, self._may_move = Progress(), True

    def end_goal(self) -> None:
        """Stop repeating the text: the last message was its withdrawal."""
        with self._changed:
            self._feedback = self._update = None
            self.plans.publish(step_messages.progress_message(self._progress, running=False))

    def withdraw(self, reason: str, feedback: Callable[[Any], None] | None = None) -> None:
        """Withdraw the update and move nothing until the next goal; with a `feedback`, if its goal runs."""
        with self._changed:
            if feedback not in (None, self._feedback):
                return
            self._may_move = False
            if self._update is not None:
                last = self._update
                self._publish(StepUpdate(last.session_id, last.step, StepState.WITHDRAWN, text=reason))
                self._update = None

    def beat(self) -> None:
        """Send the heartbeat: the last update again. A motion is withdrawn once the camera is silent."""
        with self._changed:
            for update, trace in self._traces.take():
                self.tokens.publish(step_messages.tokens_message(update, trace, self._header(update)))
            if self._update is not None:
                silent_s = self._pictures.silent_s(self.now_s())
                update = unless_blind(self._update, silent_s, self._camera_silence_s)
                self._blinded += update is not self._update
                self._update = update
                if self._untrue():
                    self._update = withdrawal(self._update, self._untrue())
                self._publish(self._update)

    def warning(self) -> str:
        """Returns what is wrong with the robot's side, or an empty text."""
        if self._node.lacks_clock:
            return NO_CLOCK
        if self._untrue():
            return self._untrue()
        if self._is_dark:
            return DARK
        # A driver may send each picture twice.
        if self._repeats and self._pictures.silent_s(self.now_s()) > self._camera_silence_s:
            return REPEATED
        if self._stamp_repeats and self._pictures.silent_s(self.now_s()) > self._camera_silence_s:
            return "the camera's stamps stand still: restart its driver"
        if self._odometry_check.fault:
            return self._odometry_check.fault
        if self._image is None:
            return f"no picture: {self._node.why_silent('camera/image_raw', Image)}"
        if self._odometry is None:
            return f"no odometry: {self._node.why_silent('odom', OdometryMsg)}"
        if self.now_s() - self._image[1] > FRESH_S:
            return f"the newest picture is {self.now_s() - self._image[1]:.1f} s old"
        return self._image_warning

    def cause_of(self, error: GoalError) -> str:
        """Returns a possible cause of this end of a goal, or an empty text."""
        if error is GoalError.NOT_FOUND:
            return late_pictures(self._blinded, self._camera_silence_s)
        return self.warning() if error is GoalError.NO_SENSOR else ""

    def _untrue(self) -> str:
        """Returns why the inputs, however fresh, must not move the robot, or an empty text."""
        return self._mirror.fault or self._node.watch.fault()

    def _publish(self, update: StepUpdate) -> None:
        link = self._link_state()
        self.texts.publish(step_messages.text_message(update, link, self._header(update)))
        if self._feedback is not None:
            self._feedback(self._feedback_of(update, link.value))

    def _feedback_of(self, update: StepUpdate, link: str) -> Any:
        return Navigate.Feedback(
            step=update.step,
            text=update.text,
            action=update.action,
            accepted_tokens=update.verified_tokens,
            tokens_per_s=update.tokens_per_s,
            tokens_per_round=update.tokens_per_round,
            latency_s=update.latency_s,
            link_state=link,
            distance_travelled_m=self._travelled_m,
            plan_step=min(self._progress.current + 1, len(self._progress.steps)),
            plan_steps=len(self._progress.steps),
            plan_words=self._progress.words,
        )

    def _header(self, update: StepUpdate) -> Header:
        if update.frame is not None and isinstance(update.frame.token, Header):
            return update.frame.token
        return convert.header(self._node.get_clock().now().to_msg(), self._node.frame("base_link"))
