"""A simulated robot for the goal loop, in one thread: an update's motion is carried out at once."""

from __future__ import annotations

from outrider.core.language.actions import ActionTable
from outrider.core.values import Decoded, DecodeRequest, Odometry
from outrider.memory.observer import Observer
from outrider.navigation.motion.driving import carry_out
from outrider.navigation.motion.step_motions import Ending, MotionEnd
from outrider.navigation.sensing.floor_map import FloorMap
from outrider.runtime.mission.robot_side import Frame, StepState, StepUpdate
from outrider.simulation.simulator import Simulator


class SimulatedSide:
    """Implements `robot_side.RobotSide`. It maps the floor and shows texts to an observer."""

    def __init__(self, simulator: Simulator, observer: Observer | None = None) -> None:
        self.simulator = simulator
        self.floor = FloorMap()
        self.texts: list[str] = []
        self._observer = observer
        self._ends: dict[tuple[str, int], MotionEnd] = {}
        self._last_action = ("", "")

    def now_s(self) -> float:
        return self.simulator.time_s

    def frame_after(self, stamp_s: float, timeout_s: float) -> Frame | None:
        return Frame(self.simulator.frame_jpeg(), max(self.now_s(), stamp_s + 1e-6))

    def odometry(self) -> Odometry:
        odometry = self.simulator.odometry()
        self.floor.see(odometry.pose, self.simulator.scan())
        return odometry

    def publish_step(self, update: StepUpdate) -> None:
        key = (update.session_id, update.step)
        if self._observer is not None:
            finished = update.state is StepState.FINISHED
            self._observer.on_text(
                key, update.text, finished, self.simulator.odometry().pose, 1e9 + self.now_s()
            )
        if update.state is StepState.FINISHED:
            self.texts.append(update.text)
        if update.action_complete and update.state is StepState.FINISHED and key not in self._ends:
            self._ends[key] = self._move(update)

    def _move(self, update: StepUpdate) -> MotionEnd:
        session, previous = self._last_action
        motion = ActionTable().motion(update.action, previous if session == update.session_id else "")
        self._last_action = (update.session_id, update.action)
        if motion is None:
            return MotionEnd(update.session_id, update.step, update.action, Ending.REFUSED)
        if not motion.is_stop:
            carry_out(self.simulator, motion)
        return MotionEnd(update.session_id, update.step, update.action, Ending.DONE)

    def publish_prompt(self, update: StepUpdate, request: DecodeRequest) -> None:
        """Does nothing: the simulation has no subscriber for prompts."""

    def publish_rounds(self, update: StepUpdate, decoded: Decoded) -> None:
        """Does nothing: the simulation has no subscriber for rounds."""

    def motion_end(self, session_id: str, step: int, timeout_s: float) -> MotionEnd | None:
        return self._ends.get((session_id, step))

    def pause(self, duration_s: float) -> None:
        """Does nothing: the simulated clock only advances when the robot drives."""

    def distance_to(self, x: float, y: float) -> float:
        return self.simulator.truth().distance_to(x, y)

    def facing_rad(self, x: float, y: float) -> float:
        return abs(self.simulator.truth().bearing_to(x, y))
