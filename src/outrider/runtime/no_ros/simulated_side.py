# SPDX-License-Identifier: Apache-2.0
"""A simulated robot for a goal's loop, without nodes: a text's action moves it at once."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Protocol

import cv2

from outrider.core.language.actions import ActionTable
from outrider.core.values import Decoded, DecodeRequest, LinkState, Odometry
from outrider.memory.observer import Observer
from outrider.navigation.motion.driving import carry_out
from outrider.navigation.motion.step_motions import Ending, MotionEnd, ending_of
from outrider.navigation.sensing.floor_map import FloorMap
from outrider.runtime.mission.memory_queries import Recollection
from outrider.runtime.mission.robot_side import Frame, StepState, StepUpdate
from outrider.runtime.plans.progress import Progress
from outrider.runtime.reports.live_view import LiveState
from outrider.runtime.reports.recorder import Recorder, Truth
from outrider.simulation.simulator import Simulator


class View(Protocol):
    """Shows a run as it happens."""

    def show(self, state: LiveState) -> None:
        """Show a moment of the run. May raise Cancelled, which ends the run."""

    def say(self, line: str) -> None:
        """Show a line about the run."""


class SimulatedSide:
    """Implements `robot_side.RobotSide` in one thread, maps the floor, and records the run.

    Its clock counts real seconds while a text is decoded, and simulated ones while the robot moves. With
    `video` camera pictures are recorded too. Things that the texts report go into the memory of
    `recollection`, as with the memory node.
    """

    def __init__(
        self,
        simulator: Simulator,
        recorder: Recorder,
        view: View,
        video: bool,
        recollection: Recollection | None = None,
    ) -> None:
        self.simulator, self.floor = simulator, FloorMap()
        self._recorder, self._view, self._video = recorder, view, video
        self._observer = Observer(recollection.memory, recollection.home) if recollection else None
        self._travelled_m, self._last_pose = 0.0, simulator.truth()
        self._ends: dict[tuple[str, int], MotionEnd] = {}
        self._last_action = ("", "")
        self._ahead_s = -time.monotonic()
        self._moving_since: tuple[float, float] | None = None
        self._record()

    def now_s(self) -> float:
        """Returns seconds since this object was made."""
        if self._moving_since is None:
            return time.monotonic() + self._ahead_s
        began_s, simulated_s = self._moving_since
        return began_s + self.simulator.time_s - simulated_s

    def frame_after(self, stamp_s: float, timeout_s: float) -> Frame | None:
        """Returns a new frame. The clock first skips to `stamp_s`: the robot stands still until then."""
        self._ahead_s += max(0.0, stamp_s + 1e-6 - self.now_s())
        return Frame(self.simulator.frame_jpeg(), self.now_s())

    def odometry(self) -> Odometry:
        """Returns the current odometry, and adds the current scan to the floor map."""
        odometry = self.simulator.odometry()
        self.floor.see(odometry.pose, self.simulator.scan())
        return replace(odometry, stamp_s=self.now_s())

    def publish_step(self, update: StepUpdate) -> None:
        """Record an update. Carry out its action once the text is finished. Raises MemoryStoreError.

        The action waits for the whole text because both models run in this thread.
        """
        self._recorder.on_text(update, LinkState.LOCAL.value, self.now_s())
        self._recorder.on_tokens(update.step, update.trace)
        self._show()
        key = (update.session_id, update.step)
        self._remember(key, update)
        if update.action_complete and update.state is StepState.FINISHED and key not in self._ends:
            self._ends[key] = self._move(update)
            self._recorder.on_motion_end(self._ends[key], self.now_s())

    def publish_prompt(self, update: StepUpdate, request: DecodeRequest) -> None:
        """Does nothing: the simulation has no subscriber for prompts."""

    def publish_rounds(self, update: StepUpdate, decoded: Decoded) -> None:
        """Record the statistics of a text's rounds."""
        for stats in decoded.rounds:
            self._recorder.on_round(update.step, self._recorder.strategy, stats)

    def motion_end(self, session_id: str, step: int, timeout_s: float) -> MotionEnd | None:
        """Returns the report of a motion. It has ended before `publish_step` returns."""
        return self._ends.get((session_id, step))

    def pause(self, duration_s: float) -> None:
        """Advance the clock by exactly this duration, even if the view takes longer."""
        then_s = self.now_s() + duration_s
        self._ahead_s = then_s - time.monotonic()
        self._show()
        self._ahead_s = then_s - time.monotonic()

    def on_progress(self, progress: Progress) -> None:
        """Show and record the plan's next step."""
        self._recorder.truth = self.truth()
        self._recorder.on_progress(progress)
        if progress.words:
            self._view.say(f"{self.now_s():6.1f} s  {progress.words}")

    def truth(self) -> Truth:
        """Returns the pose, the distance to the home's target, and the collisions so far."""
        pose, target = self.simulator.truth(), self.simulator.home.target
        return Truth(pose, pose.distance_to(target.x, target.y), self.simulator.collisions)

    def _remember(self, key: tuple[str, int], update: StepUpdate) -> None:
        """Record what a text reports as seen from the current pose, before the robot moves on."""
        if self._observer is not None and update.state is not StepState.WITHDRAWN:
            is_finished, pose = update.state is StepState.FINISHED, self.simulator.odometry().pose
            self._observer.on_text(key, update.text, is_finished, pose, time.time())

    def _move(self, update: StepUpdate) -> MotionEnd:
        session, previous = self._last_action
        motion = ActionTable().motion(update.action, previous if session == update.session_id else "")
        self._last_action = (update.session_id, update.action)
        if motion is None:
            return MotionEnd(update.session_id, update.step, update.action, Ending.REFUSED)
        self._moving_since = self.now_s(), self.simulator.time_s
        try:
            command = carry_out(self.simulator, motion, on_tick=self._record)
        finally:
            self._ahead_s, self._moving_since = self.now_s() - time.monotonic(), None
        message = command.error or command.note
        return MotionEnd(update.session_id, update.step, update.action, ending_of(command), message)

    def _record(self) -> None:
        now_s = self.now_s()
        self._recorder.truth = self.truth()
        self._recorder.on_odometry(self.simulator.odometry().pose, now_s)
        if self._video and self._recorder.wants_frame(now_s):
            picture = cv2.cvtColor(self.simulator.render_camera(), cv2.COLOR_RGB2BGR)
            self._recorder.on_frame(cv2.imencode(".jpg", picture)[1].tobytes(), now_s)
        self._show()

    def _show(self) -> None:
        truth = self.truth()
        self._travelled_m += self._last_pose.distance_to(truth.pose.x, truth.pose.y)
        self._last_pose = truth.pose
        update, link = self._recorder.latest, LinkState.LOCAL.value
        self._view.show(
            LiveState(
                self._recorder.instruction,
                self.now_s(),
                update,
                link,
                self._travelled_m,
                self._recorder.target_distance_m,
            )
        )
