# SPDX-License-Identifier: Apache-2.0
"""A robot for a console, without ROS: both models and a simulated home, in their own thread."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outrider.console import messages as m
from outrider.console.robot import GoalEnd
from outrider.console.server import ConsoleServer
from outrider.console.switching.switches import NOT_EMULATED, Switch
from outrider.core.errors import Cancelled, OutriderError, SimulationError
from outrider.core.language.grammar import Vocabulary
from outrider.core.ports import TextDecoder
from outrider.core.sensors.camera import SIM_CAMERA
from outrider.core.values import STANDSTILL, Pose2D, Velocity, Visibility
from outrider.decoding.config import DecodingConfig
from outrider.memory.store.records import RecordFilter
from outrider.navigation.limits import SETTLED_MPS, SETTLED_RPS
from outrider.navigation.motion.step_motions import MotionEnd
from outrider.navigation.sensing.floor_map import FloorMap
from outrider.runtime.mission.goal_run import GoalSettings
from outrider.runtime.mission.robot_side import StepState
from outrider.runtime.no_ros.simulated_side import SimulatedSide
from outrider.runtime.plans.progress import Progress
from outrider.runtime.reports.live_view import LiveState
from outrider.runtime.reports.recorder import Recorder

if TYPE_CHECKING:
    from outrider.runtime.mission.memory_queries import Recollection
    from outrider.runtime.plans.run_log import RunLog
    from outrider.simulation.simulator import Simulator

log = logging.getLogger(__name__)

START_S = 600.0
PICTURE_PERIOD_S, IDLE_PERIOD_S, STOP_PERIOD_S = 0.1, 0.1, 0.02
# The longest time until an aborted motion's momentum is gone.
REST_STEPS, REST_STEP_S = 20, 0.05
MEMORIES = 40
SHAREABLE = RecordFilter(visibility=Visibility.SHAREABLE)
STOPPED = "the emergency stop is engaged: a person releases it at the console"
E_STOPPED = "the emergency stop was engaged"
ENDED = "the simulated robot ended with an error: see the log, and start it again"


@dataclass(frozen=True)
class _Goal:
    instruction: str
    on_end: Callable[[GoalEnd], None]
    number: int
    refused: bool = False
    """Whether it was given while the emergency stop was engaged."""


@dataclass(frozen=True)
class _World:
    """The objects that the thread uses."""

    simulator: Simulator
    decoder: TextDecoder
    recollection: Recollection
    floor: FloorMap
    log: RunLog


class SimulatedRobot:
    """Implements `console.robot.RobotPort`. It cannot be driven by hand: its `limits` are zero.

    It moves in real time. A stop or a cancellation ends a motion within one control period. After an
    unexpected error every goal fails, with that reason.
    """

    limits = Velocity()

    def __init__(self, world: Mapping[str, Any], folder: Path, vocabulary: Vocabulary | None) -> None:
        """`world` holds the simulation's parameters, as for its node. Raises OutriderError."""
        self._parameters, self._folder, self._vocabulary = world, folder, vocabulary
        self._goals: queue.Queue[_Goal | None] = queue.Queue()
        self._newest = self._ended_before = self._stopped_before = 0
        self._lock = threading.Lock()
        self._stopped = False
        self.collisions = 0
        self._console: ConsoleServer | None = None
        self._simulator: Simulator | None = None
        self._started = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="robot", daemon=True)
        self._thread.start()
        if not self._started.wait(START_S):
            raise SimulationError(f"the simulation did not start within {START_S:g} s: see the log")
        if self._error is not None:
            raise self._error

    def show_on(self, console: ConsoleServer) -> None:
        """Show the robot's state on this console from now on."""
        self._console = console
        console.update(link="local")
        console.set_camera_model(SIM_CAMERA)

    def truth(self) -> tuple[Pose2D, Velocity]:
        """Returns the robot's true pose and velocity.

        Call it in the robot's thread, which calls the console's methods.
        """
        assert self._simulator is not None, "it shows nothing before it has started"
        return self._simulator.truth(), self._simulator.odometry().velocity

    def close(self) -> None:
        """End the running goal, and the thread."""
        self.cancel_goal()
        self._goals.put(None)
        self._thread.join()

    def drive(self, velocity: Velocity) -> None:
        """Does nothing: see `limits`."""

    def set_e_stop(self, engaged: bool) -> bool:
        """Engage the emergency stop and end all goals, or release it. Returns True."""
        self._stopped = engaged
        if engaged:
            self._stopped_before = self._newest
            self.cancel_goal()
        return True

    def send_goal(self, instruction: str, on_end: Callable[[GoalEnd], None]) -> None:
        """Queue a goal. It is refused if the emergency stop is engaged now."""
        with self._lock:
            self._newest += 1
            self._goals.put(_Goal(instruction, on_end, self._newest, self._stopped))

    def cancel_goal(self) -> None:
        """End the running goal and the queued ones."""
        with self._lock:
            self._ended_before = self._newest

    def switch(self, request: Switch, on_end: Callable[[str], None]) -> None:
        """Refuse: both models are in this process, without a link."""
        on_end(NOT_EMULATED)

    # These run in the simulation's thread: pictures can be rendered only there.

    def _run(self) -> None:
        with ExitStack() as stack:
            try:
                world = self._open(stack)
            except Exception as error:  # the constructor raises it: an error in this thread has no caller
                self._error = error
                return
            finally:
                self._started.set()
            try:
                self._serve(world)
            except Exception:
                log.exception("the simulated robot has ended")
                while (goal := self._goals.get()) is not None:
                    goal.on_end(GoalEnd(False, ENDED))

    def _serve(self, world: _World) -> None:
        while (goal := self._next(world)) is not None:
            end = GoalEnd(False, ENDED)
            try:
                end = self._carry_out(world, goal)
            finally:
                goal.on_end(end)

    def _next(self, world: _World) -> _Goal | None:
        """Returns the next goal. Shows the newest picture while it waits."""
        watch = _Watch(self._console, world.simulator, lambda: False)
        while True:
            watch.console = self._console
            watch.look(world.simulator.odometry().pose)
            try:
                return self._goals.get(timeout=IDLE_PERIOD_S)
            except queue.Empty:
                continue

    def _open(self, stack: ExitStack) -> _World:
        from outrider.runtime.datasets.held_out import load_pair
        from outrider.runtime.mission.memory_queries import Recollection
        from outrider.runtime.plans.run_log import RunLog
        from outrider.runtime.wiring.decoders import local_decoder
        from outrider.runtime.wiring.memory_stores import temporary_memory, this_home

        simulator = self._simulator = stack.enter_context(closing(self._open_simulator()))
        pair = load_pair(self._folder)
        decoder = stack.enter_context(closing(local_decoder(pair.target, pair.draft, DecodingConfig())))
        memory = stack.enter_context(temporary_memory())
        recollection = Recollection(memory, this_home(""), time.time)
        return _World(simulator, decoder, recollection, FloorMap(), RunLog())

    def _open_simulator(self) -> Simulator:
        from outrider.simulation.homes.home import generate_home
        from outrider.simulation.homes.vocabulary import target_of
        from outrider.simulation.simulator import open_simulator

        world = self._parameters
        home = generate_home(world["seed"], target_of(world["holds"]), world["placement"])
        return open_simulator(home, world["seed"], world["odometry_noise"], world["legs"])

    def _carry_out(self, world: _World, goal: _Goal) -> GoalEnd:
        from outrider.runtime.plans.errand import Errand

        def is_over() -> bool:
            return self._stopped or goal.number <= self._ended_before

        if self._stopped or goal.refused:
            return GoalEnd(False, STOPPED)
        watch = _Watch(self._console, world.simulator, is_over)
        recorder = _ConsoleRecorder(goal.instruction, self._console)
        settings = GoalSettings(instructed=self._vocabulary is None)
        try:
            side = SimulatedSide(world.simulator, recorder, watch, False, world.recollection)
            side.floor = world.floor
            errand = Errand(
                side,
                world.decoder,
                self._vocabulary,
                settings,
                world.recollection,
                world.floor,
                log=world.log,
                on_progress=watch.show_plan,
            )
            result = errand.run(goal.instruction, is_over)
        except OutriderError as error:
            return self._end_of(goal, GoalEnd(False, str(error)))
        finally:
            _come_to_rest(world.simulator)
            self.collisions = world.simulator.collisions
            watch.show_end()
            self._show_memories(world.recollection)
        return self._end_of(goal, GoalEnd(result.success, result.message))

    def _end_of(self, goal: _Goal, end: GoalEnd) -> GoalEnd:
        """Returns the end, or the emergency stop as its cause."""
        if end.success or goal.number > self._stopped_before:
            return end
        return GoalEnd(False, STOPPED if self._stopped else E_STOPPED)

    def _show_memories(self, recollection: Recollection) -> None:
        if self._console is not None:
            found = recollection.memory.recall("things seen here", MEMORIES, SHAREABLE)
            places = ((recalled.record.text, recalled.record.place) for recalled in found)
            things = tuple(m.Thing(text, place.x, place.y) for text, place in places if place is not None)
            self._console.show(m.Memories(things))


class _ConsoleRecorder(Recorder):
    """Also shows the ends of motions on the console."""

    def __init__(self, instruction: str, console: ConsoleServer | None) -> None:
        super().__init__(instruction)
        self._console = console

    def on_motion_end(self, end: MotionEnd, time_s: float) -> None:
        super().on_motion_end(end, time_s)
        if self._console is not None:
            outcome = end.ending.name.lower().replace("_", " ")
            self._console.show(m.Motion(end.session_id, end.step, end.action, outcome, end.message))


def _come_to_rest(simulator: Simulator) -> None:
    """Brake: an aborted motion leaves momentum, and nothing advances the simulation until the next motion."""
    for _ in range(REST_STEPS):
        if not simulator.odometry().velocity.exceeds(SETTLED_MPS, SETTLED_RPS):
            return
        simulator.drive(STANDSTILL, REST_STEP_S)


@dataclass
class _Watch:
    """Shows a run on the console in real time. Raises Cancelled when the run is to end."""

    console: ConsoleServer | None
    simulator: Simulator
    is_over: Callable[[], bool]
    _began_s: float = field(default_factory=time.monotonic)
    _looked_s: float = 0.0
    _pose: Pose2D | None = None
    _plan: m.Plan = field(default_factory=m.Plan)

    def show(self, state: LiveState) -> None:
        """Show a moment of the run, when it is due."""
        while not self.is_over():
            ahead_s = state.time_s - (time.monotonic() - self._began_s)
            if ahead_s <= 0.0:
                break
            time.sleep(min(ahead_s, STOP_PERIOD_S))
        else:
            raise Cancelled("cancelled")
        self._show_text(state)
        self.look(self.simulator.odometry().pose)

    def look(self, pose: Pose2D) -> None:
        """Show the robot's pose by odometry, as in its map, and its picture at intervals."""
        if self.console is None:
            return
        self.console.show_pose(pose)
        moving = self._pose is not None and pose != self._pose
        self.console.update(moving=moving, stands=not moving)
        self._pose = pose
        if time.monotonic() - self._looked_s >= PICTURE_PERIOD_S:
            self.console.show_picture(self.simulator.frame_jpeg())
            self._looked_s = time.monotonic()

    def say(self, line: str) -> None:
        """Does nothing: the page already shows these lines' content."""

    def show_plan(self, progress: Progress) -> None:
        """Show the plan and its current step."""
        running = progress.current < len(progress.steps)
        self._plan = m.Plan(progress.steps, progress.current, running, progress.targets)
        if self.console is not None:
            self.console.show(self._plan)

    def show_end(self) -> None:
        """Show the robot's final pose."""
        if self.console is not None:
            self.console.show(m.Plan(self._plan.steps, self._plan.current))
            self.console.show_pose(self.simulator.odometry().pose)
            self.console.update(moving=False, stands=True)

    def _show_text(self, state: LiveState) -> None:
        update = state.update
        if self.console is not None and update.session_id and update.state is not StepState.WITHDRAWN:
            self.console.show(
                m.Text(
                    session=update.session_id,
                    step=update.step,
                    state=update.state.name.lower(),
                    text=update.text,
                    action=update.action if update.action_complete else "",
                    latency_s=update.latency_s,
                    tokens_per_s=update.tokens_per_s,
                    tokens_per_round=update.tokens_per_round,
                )
            )
