# SPDX-License-Identifier: Apache-2.0
"""Turns verified text into velocities: one motion at a time, each for one text; anything else is a stop.

Priority, highest first: the emergency stop, the joystick, the text. Besides faults, the base stops after:

| an emergency stop              | at once |
| a joystick that asks for zero  | at the next tick |
| a joystick that falls silent   | within `joystick_s` |
| a text that is withdrawn       | at the next tick |

Sans-IO: the owner passes texts and measurements, calls `tick` at 20 to 50 Hz and sends what it returns.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from outrider.core.language.actions import ActionTable, Motion
from outrider.core.values import STANDSTILL, Odometry, Pose2D, RangeScan, Velocity, wrap_angle
from outrider.navigation.clocks import ClockWatch, Moment, clock_off
from outrider.navigation.limits import MotionLimits
from outrider.navigation.motion.anchoring import MotionExecutor, executor_from
from outrider.navigation.motion.controller import MotionController, OdometryRepeats
from outrider.navigation.motion.safety import Deadman, clamp
from outrider.navigation.motion.step_motions import Drive, Ending, MotionEnd, StepLedger, StepText, ending_of
from outrider.navigation.motion.stopping import Stopping
from outrider.navigation.sensing.frozen_scan import FrozenScan
from outrider.navigation.sensing.odometry_track import OdometryTrack

# Longer than the longest motion takes in real seconds when a simulation runs at a tenth of real time.
MAX_MOTION_REAL_S = 240.0
TAKEN_OVER = "a newer text took over"
STILL_FROZEN = "odometry still repeats itself: check its source, then give the goal again"


@dataclass(frozen=True)
class PilotSettings:
    """Bounds in seconds. `silence_s` and `joystick_s`: real seconds of silence that stop the robot.

    A text moves nothing if its frame is older than `max_frame_age_s`, or than the last driving by hand or
    emergency stop. A text waits up to `base_patience_s` for a base in trouble. `period_s` is the time
    between ticks: a limit that would pass before the next tick counts as reached, so none is ever exceeded.
    """

    silence_s: float = 0.3
    joystick_s: float = 0.3
    max_frame_age_s: float = 10.0
    base_patience_s: float = 5.0
    period_s: float = 1.0 / 30.0
    use_scan: bool = True
    table: ActionTable = field(default_factory=ActionTable)
    limits: MotionLimits = field(default_factory=MotionLimits)


@dataclass
class _Running:
    text: StepText
    motion: Motion
    controller: MotionExecutor
    started: Moment
    start: Odometry | None = None
    latest: Odometry | None = None


class Pilot:
    """Starts at most one motion for each (session, step), ends it, and reports how it ended.

    `make_executor` makes the executor of a motion; the default is a controller that computes velocities.
    """

    def __init__(
        self, settings: PilotSettings, make_executor: Callable[[Motion], MotionExecutor] | None = None
    ) -> None:
        self.settings = settings
        # A planner drives on by itself, until it is told to stop.
        self._has_planner = make_executor is not None
        self._make_executor = make_executor or partial(
            MotionController, limits=settings.limits, period_s=settings.period_s, repeats=OdometryRepeats()
        )
        self.emergency = False
        self._running: _Running | None = None
        self._frozen: tuple[str, Pose2D, Velocity] | None = None
        self._frozen_scan, self._judged_session = FrozenScan(), ""
        self._ledger = StepLedger()
        self._last_action: tuple[str, str] = ("", "")
        self._last_text_s = 0.0
        self._drivers: dict[str, Deadman] = {}
        self._driven_s = self._emergency_s = self._moved_s = -math.inf
        self._track = OdometryTrack()
        self._started_s: float | None = -math.inf
        self._ends: list[MotionEnd] = []
        self.stopping = Stopping()
        self._trouble, self._trouble_s = "", 0.0
        self._clock_watch, self.clock_fault = ClockWatch(), ""

    @property
    def is_moving(self) -> bool:
        """Whether a motion is running."""
        return self._running is not None

    @property
    def motion(self) -> Motion | None:
        """The motion that is being carried out, if any."""
        return self._running.motion if self._running else None

    @property
    def drivers(self) -> tuple[str, ...]:
        """The drivers by hand. While there are two, the robot stands."""
        return tuple(self._drivers)

    def start(self, now: Moment) -> None:
        """Ignore frames from before now, or before the motion clock runs: their motions may be half done."""
        self._started_s = now.motion_s if now.motion_s > 0.0 else None

    def on_text(self, text: StepText, now: Moment) -> None:
        """Take a text or its repetition. It may begin or end a motion, which the next `tick` carries out."""
        self.clock_fault = self._clock_watch.fault(now)
        running = self._running.text if self._running else None
        if running and text.session_id == running.session_id and text.step >= running.step:
            self._last_text_s = now.real_s
        if text.withdrawn:
            if running and text.session_id == running.session_id:
                self._finish(Ending.STOPPED, text.text or "withdrawn", now)
            if self._ledger.is_new(text) and (waited := self._ledger.withdraw(text)) is not None:
                self._report(waited, Ending.STOPPED, text.text)
            return
        if text.link_lost:
            self._finish(Ending.STOPPED, "the link to the verifier is lost", now)
        if text.complete and self._ledger.is_new(text):
            if text.link_lost or self._waits_for_base(text, now):
                self._ledger.wait(text)
            else:
                self._begin(text, now)
        elif text.complete and (reason := self._ledger.why_withdrawn(text)) is not None:
            self._report(text, Ending.STOPPED, reason)

    def on_base(self, trouble: str, now: Moment) -> None:
        """Set what keeps the base from moving. It fails a running motion; a new text waits for a while."""
        if trouble and not self._trouble:
            self._trouble_s = now.real_s
        self._trouble = trouble
        if trouble and self._running:
            self._drivers.clear()
            self._finish(Ending.FAILED, trouble, now)

    def on_joystick(self, velocity: Velocity, now: Moment, driver: str = "joystick") -> None:
        """Take a person's velocity; it ends any motion. Texts move nothing until the joystick is silent.

        While two drivers send velocities the robot stands: neither has priority.
        """
        if self.emergency:
            return
        self._finish(Ending.OVERRIDDEN, "the joystick took over", now)
        # Half a period more than the wait for the next tick: the base acts on a command slightly later.
        patience_s = self.settings.joystick_s - 1.5 * self.settings.period_s
        deadman = self._drivers.setdefault(driver, Deadman(patience_s))
        deadman.feed(clamp(velocity, self.settings.limits), now.real_s)

    def on_emergency_stop(self, engaged: bool, now: Moment) -> None:
        """Take the state of the emergency stop. While it is engaged the robot stands and nothing starts."""
        if engaged or self.emergency:
            self._emergency_s = now.motion_s
        self.emergency = engaged
        if engaged:
            self._drivers.clear()
            self._finish(Ending.EMERGENCY_STOP, "emergency stop", now)
            self.stopping.order(now)

    def stop(self, reason: str, now: Moment) -> None:
        """End any motion and stop the base, whether it moves or not."""
        self._drivers.clear()
        self._finish(Ending.STOPPED, reason, now)
        self.stopping.order(now)

    def tick(
        self, odometry: Odometry | None, scan: RangeScan | None, now: Moment, missing: str = ""
    ) -> Drive:
        """Returns what to send now. Stamps are on the motion clock; `missing` explains a None."""
        self.clock_fault = self._clock_watch.fault(now)
        if self._started_s is None and now.motion_s > 0.0:
            self._started_s = now.motion_s
        if odometry is None:
            self._track, self._frozen_scan = OdometryTrack(), FrozenScan()  # later poses are in another frame
        else:
            self._track.take(odometry)
        velocity = (
            self._advance(odometry, scan, now, missing) if self._running else self._manual_velocity(now)
        )
        if velocity is None and self.stopping.is_due(odometry, now):
            velocity = STANDSTILL
        end = self._ends.pop(0) if self._ends else None
        return Drive(velocity, end, self.stopping.take_order())

    def _waits_for_base(self, text: StepText, now: Moment) -> bool:
        """Whether the text waits. Only a motion does: a stop, or a text that is no action, acts at once."""
        motion = self._motion(text)
        moves = motion is not None and not motion.is_stop
        return moves and bool(self._trouble) and now.real_s - self._trouble_s < self.settings.base_patience_s

    def _manual_velocity(self, now: Moment) -> Velocity | None:
        """Returns the only driver's velocity; a standstill for two; None once all are silent."""
        if not self._drivers:
            return None
        self._driven_s = now.motion_s
        self._drivers = {
            driver: deadman for driver, deadman in self._drivers.items() if not deadman.expired(now.real_s)
        }
        if not self._drivers:
            self.stopping.order(now)
            return None
        first, *others = self._drivers.values()
        return STANDSTILL if others else first.velocity(now.real_s)

    def _begin(self, text: StepText, now: Moment) -> None:
        self._ledger.begin(text)
        motion = self._motion(text)
        refusal = self._refusal(text, motion, now)
        if refusal is None and motion is not None and not motion.is_stop:
            self._move(text, motion, now)
            return
        self._finish(Ending.STOPPED, TAKEN_OVER, now)
        if refusal is None or refusal[0] is Ending.REFUSED:
            self.stopping.order(now)
        self._report(text, *(refusal or (Ending.DONE, "")))

    def _move(self, text: StepText, motion: Motion, now: Moment) -> None:
        """Begin a motion, planned from the pose of its frame if the robot has moved or was moved since."""
        anchor = self._track.pose_at(now.motion_s - text.frame_age_s)
        was_moving = self._is_from_before(self._moved_s, text, now)
        executor = executor_from(motion, anchor, self._track.newest, was_moving, self._make_executor)
        if isinstance(executor, str):
            self._finish(Ending.STOPPED, TAKEN_OVER, now)
            self._report(text, Ending.FAILED, f"discarded: {executor}")
            return
        if text.session_id != self._judged_session:
            self._judged_session = text.session_id
            self._frozen_scan.begin_goal()
        running = self._running
        if running and running.text.session_id == text.session_id and not self._has_planner:
            self._end(Ending.STOPPED, TAKEN_OVER, now)  # without a stop: the robot keeps moving
        else:
            self._finish(Ending.STOPPED, TAKEN_OVER, now)
        self._last_text_s = now.real_s
        self._running = _Running(text, motion, executor, now)

    def _refusal(self, text: StepText, motion: Motion | None, now: Moment) -> tuple[Ending, str] | None:
        """Returns why a text moves nothing, or None."""
        if self.emergency:
            return Ending.EMERGENCY_STOP, "emergency stop is engaged"
        # With a wrong clock the frame's age means nothing.
        off = clock_off(text.frame_age_s)
        if (self.clock_fault or off) and not self._drivers:
            return Ending.FAILED, self.clock_fault or f"discarded: {off}"
        if self._is_from_before(self._emergency_s, text, now):
            return Ending.EMERGENCY_STOP, "the emergency stop was engaged since its frame"
        if self._drivers:
            return Ending.OVERRIDDEN, "the joystick has the robot"
        if self._is_from_before(self._driven_s, text, now):
            return Ending.OVERRIDDEN, "the joystick had the robot since its frame"
        if self._started_s is None or self._is_from_before(self._started_s, text, now):
            return Ending.FAILED, "discarded: its frame is from before the action node was active"
        if text.frame_age_s > self.settings.max_frame_age_s:
            return Ending.FAILED, f"discarded: its frame is {text.frame_age_s:.1f} s old"
        if motion is None:
            return Ending.REFUSED, f"not an action: {text.action!r}"
        if not motion.is_stop and self._trouble:
            return Ending.FAILED, self._trouble
        return None

    def _is_from_before(self, moment_s: float, text: StepText, now: Moment) -> bool:
        """Whether the text's frame is older than a moment; False if the clock went back since."""
        return 0.0 <= now.motion_s - moment_s < text.frame_age_s

    def _previous(self) -> tuple[str, str]:
        """Returns session and action of the running motion, or of the last one."""
        running = self._running.text if self._running else None
        return (running.session_id, running.action) if running else self._last_action

    def _motion(self, text: StepText) -> Motion | None:
        """Returns the text's motion, given the last action of its session."""
        session_id, previous = self._previous()
        return self.settings.table.motion(text.action, previous if session_id == text.session_id else "")

    def _advance(
        self, odometry: Odometry | None, scan: RangeScan | None, now: Moment, missing: str
    ) -> Velocity | None:
        """Advance the running motion. Returns its velocity; None once it has ended."""
        running = self._running
        assert running is not None
        fault = self._fault(odometry, scan, now, missing)
        if fault or odometry is None:
            self._finish(Ending.FAILED, fault, now)
            return None
        if running.start is None:
            if self._frozen == (running.text.session_id, odometry.pose, odometry.velocity):
                self._finish(Ending.FAILED, STILL_FROZEN, now)
                return None
            running.start = odometry
            running.controller.start(odometry, now.motion_s)
        running.latest = odometry
        self._moved_s = now.motion_s
        command = running.controller.update(odometry, scan if self.settings.use_scan else None, now.motion_s)
        if command.done:
            self._finish(ending_of(command), command.error or command.note, now)
            frozen = running.text.session_id, odometry.pose, odometry.velocity
            self._frozen = frozen if running.controller.odometry_froze else None
            return None
        return clamp(command.velocity, self.settings.limits)

    def _fault(self, odometry: Odometry | None, scan: RangeScan | None, now: Moment, missing: str) -> str:
        """Returns why nothing may move now, or an empty text."""
        silent_s = now.real_s - self._last_text_s
        if silent_s > self.settings.silence_s - self.settings.period_s:
            return f"no sign of life from the navigator for {silent_s:.2f} s"
        if self.clock_fault:
            return self.clock_fault
        if self._running and now.real_s - self._running.started.real_s > MAX_MOTION_REAL_S:
            return f"not done after {MAX_MOTION_REAL_S:.0f} s of real time: the simulation is too slow"
        if odometry is None:
            return missing or "no odometry yet: check the topic odom"
        if scan is None and self.settings.use_scan:
            return missing or "no scan yet: check the topic scan"
        return self._frozen_scan.fault(scan, odometry) if scan is not None and self.settings.use_scan else ""

    def _finish(self, ending: Ending, message: str, now: Moment) -> None:
        """End the running motion, if any, with a stop."""
        if self._running is not None:
            self.stopping.order(now)
        self._end(ending, message, now)

    def _end(self, ending: Ending, message: str, now: Moment) -> None:
        running, self._running = self._running, None
        if running is None:
            return
        distance_m = turned_rad = 0.0
        if running.start and running.latest:
            start, latest = running.start.pose, running.latest.pose
            distance_m = start.distance_to(latest.x, latest.y)
            turned_rad = wrap_angle(latest.yaw - start.yaw)
        duration_s = now.motion_s - running.started.motion_s
        self._report(running.text, ending, message, distance_m, turned_rad, duration_s)

    def _report(self, text: StepText, ending: Ending, message: str = "", *measures: float) -> None:
        # A motion that the joystick ended counts as not done, as in the search's history.
        if ending is not Ending.OVERRIDDEN and self.settings.table.motion(text.action) is not None:
            self._last_action = (text.session_id, text.action)
        self._ends.append(MotionEnd(text.session_id, text.step, text.action, ending, message, *measures))
