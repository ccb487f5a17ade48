# SPDX-License-Identifier: Apache-2.0
"""The steps of a plan that move the robot. Each is a goal of its own, with or without verified texts."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from outrider.core.errors import Cancelled
from outrider.core.language.actions import Motion
from outrider.core.language.plan import Find, Follow, Go, Home, Move, Return, Turn, Wait
from outrider.core.ports import TextDecoder
from outrider.core.values import Pose2D, Sighting
from outrider.navigation.goal.commanded_motion import CommandedMotion
from outrider.navigation.goal.exploring import ExploringDecoder
from outrider.navigation.goal.guide import Destination, Guide, LedDecoder
from outrider.navigation.sensing.floor_map import FloorMap
from outrider.runtime.mission.bounded_waits import POLL_S, polls
from outrider.runtime.mission.goal_run import GoalRun, GoalSettings
from outrider.runtime.mission.memory_queries import Recollection
from outrider.runtime.mission.robot_side import GoalError, GoalResult, RobotSide
from outrider.runtime.plans.run_log import RunLog

RETURN_REACH_M, POINT_REACH_M = 0.4, 0.3
ENDS_A_FIND = (GoalError.CANCELLED, GoalError.EMERGENCY_STOP, GoalError.NO_SENSOR)
LOST_START = "cannot come back: odometry has jumped since, and where it began is not known any more"
CLOCK_STANDS = "the robot's clock stands still, or nearly: is the simulation paused?"
HALF_TURN = Motion(turn_rad=math.pi)
Cancelling = Callable[[], bool]


@dataclass
class Moves:
    """One method for each kind of step. Raises MemoryStoreError and Cancelled; other failures are results.

    `leading` is true while the robot moves by itself, which needs no link. These are turns and moves of a
    given size, and paths by its map: to places that a person named, around walls to things it has seen, and
    to unseen floor.
    """

    robot: RobotSide
    decoder: TextDecoder
    settings: GoalSettings
    recollection: Recollection | None
    floor: FloorMap | None
    log: RunLog
    _alone: bool = field(default=False, init=False)
    _led: LedDecoder | None = field(default=None, init=False)
    _exploring: ExploringDecoder | None = field(default=None, init=False)
    _began_at: Pose2D | None = field(default=None, init=False)
    _breaks_before: int = field(default=0, init=False)
    _steps: int = field(default=0, init=False)
    _goal: GoalRun | None = field(default=None, init=False)

    @property
    def leading(self) -> bool:
        """Whether the robot moves by itself now."""
        return self._alone or any(led is not None and led.leading for led in (self._led, self._exploring))

    def begin(self, pose: Pose2D | None) -> None:
        """Begin a plan. Steps that come back return to this pose."""
        self._began_at, self._breaks_before = pose, self.floor.num_breaks if self.floor else 0
        self.log.set_start(pose, self._breaks_before)
        self._steps = 0

    def find(self, step: Find, cancelled: Cancelling) -> GoalResult:
        """Go to where a person said the thing is, then search by camera if the models may know it."""
        self.log.wanted = step
        steps = 0
        destination = self._destination(step.thing)
        if destination is not None:
            led = self._lead(destination, cancelled)
            steps = led.steps
            if not step.instruction or led.error in ENDS_A_FIND:
                return led
        result = self._search(step, cancelled)
        return replace(result, steps=steps + result.steps)

    def follow(self, step: Follow, cancelled: Cancelling) -> GoalResult:
        """Carry out a sentence by the models, as it was said."""
        return self._by_models(step.instruction, (), cancelled)

    def come_back(self, step: Return, cancelled: Cancelling) -> GoalResult:
        """Go back to where the plan began."""
        return self._lead_back(self._began_at, self._breaks_before, cancelled)

    def home(self, step: Home, cancelled: Cancelling) -> GoalResult:
        """Go to the place that a person named as home, else to where the robot started."""
        home = self._destination("home")
        if home is not None:
            return self._lead(home, cancelled)
        return self._lead_back(self.log.start, self.log.breaks_before, cancelled)

    def go(self, step: Go, cancelled: Cancelling) -> GoalResult:
        """Go to a point on the floor that the robot has seen."""
        return self._lead(Destination(step.x, step.y, POINT_REACH_M), cancelled, "stands at the point")

    def turn(self, step: Turn, cancelled: Cancelling) -> GoalResult:
        """Turn on the spot by the given angle."""
        return self._carry_out_motion(Motion(turn_rad=math.radians(step.actual_deg)), cancelled)

    def move(self, step: Move, cancelled: Cancelling) -> GoalResult:
        """Move. Backwards is a half turn, a move ahead, and a half turn: no camera or scan looks behind."""
        ahead = Motion(forward_m=abs(step.actual_m))
        motions = [ahead] if step.metres > 0 else [HALF_TURN, ahead, HALF_TURN]
        steps, said = 0, list[str]()
        for motion in motions:
            result = self._carry_out_motion(motion, cancelled)
            steps, said = steps + result.steps, [*said, result.message]
            if not result.success:
                break
        return replace(result, steps=steps, message=", ".join(said))

    def wait(self, step: Wait, cancelled: Cancelling) -> GoalResult:
        """Stand for a time on the robot's clock."""
        began_s = self.robot.now_s()
        for _ in polls(self.robot, step.seconds, POLL_S):
            if cancelled():
                raise Cancelled("cancelled")
            self.robot.pause(POLL_S)
        if abs(self.robot.now_s() - began_s) < step.seconds:
            return GoalResult(False, GoalError.NO_SENSOR, CLOCK_STANDS, 0)
        return GoalResult(True, GoalError.NONE, f"waited {step.seconds:g} s", 0)

    def _search(self, step: Find, cancelled: Cancelling) -> GoalResult:
        """Search from here. If that finds nothing, search once more from where the plan began."""
        is_elsewhere = self._is_elsewhere()
        first = self._search_from_here(step, cancelled)
        if first.error is not GoalError.NOT_FOUND or not is_elsewhere:
            return first
        back = self._lead_back(self._began_at, self._breaks_before, cancelled)
        if not back.success:
            ended = back if back.error in ENDS_A_FIND else first
            return replace(ended, steps=first.steps + back.steps)
        second = self._search_from_here(step, cancelled)
        return replace(second, steps=first.steps + back.steps + second.steps)

    def _search_from_here(self, step: Find, cancelled: Cancelling) -> GoalResult:
        """Search by the models, with what the robot has seen so far."""
        sightings = self.recollection.sightings(step.thing) if self.recollection else []
        return self._by_models(step.instruction, sightings, cancelled)

    def _is_elsewhere(self) -> bool:
        """Whether the robot can go back to where the plan began, and is not there."""
        odometry, began = self.robot.odometry(), self._began_at
        if self.floor is None or odometry is None or began is None:
            return False
        return odometry.pose.distance_to(began.x, began.y) > RETURN_REACH_M

    def _carry_out_motion(self, motion: Motion, cancelled: Cancelling) -> GoalResult:
        def has_failed() -> bool:
            return self._goal is not None and self._goal.last_failed

        commanded = CommandedMotion(motion, self.robot.odometry, self.settings.navigator.table, has_failed)
        result = self._run_alone("turn or move as told", commanded, cancelled)
        return replace(result, message=commanded.words) if result.success else result

    def _lead_back(self, pose: Pose2D | None, breaks_before: int, cancelled: Cancelling) -> GoalResult:
        """Go back to `pose`. `breaks_before` is the number of odometry jumps before the robot was there."""
        assert pose is not None, "a plan that moves begins once there is odometry"
        if self.floor is not None and self.floor.num_breaks != breaks_before:
            return GoalResult(False, GoalError.MOTION_FAILED, LOST_START, 0)
        return self._lead(Destination(pose.x, pose.y, RETURN_REACH_M), cancelled, "stands where it began")

    def _lead(
        self, destination: Destination, cancelled: Cancelling, reached: str = "stands at the remembered place"
    ) -> GoalResult:
        """Go to a known place by the robot's own map. The decoder gets no information about it."""
        assert self.floor is not None
        guide = Guide(self.floor, destination, self.robot.odometry, self.settings.navigator.table)
        result = self._run_alone("go to a remembered place", guide, cancelled)
        return replace(result, message=reached) if result.success else result

    def _run_alone(self, instruction: str, decoder: TextDecoder, cancelled: Cancelling) -> GoalResult:
        """Run a goal without a model, motion by motion: each is computed from the robot's current pose."""
        self._alone = True
        try:
            return self._run(instruction, decoder, cancelled, replace(self.settings, continuous=False))
        finally:
            self._alone = False

    def _by_models(
        self, instruction: str, sightings: Sequence[Sighting], cancelled: Cancelling
    ) -> GoalResult:
        decoder = self._led_by_map(sightings)
        try:
            forgotten = self._watch_for_forgetting()
            return self._run(instruction, decoder, cancelled, self.settings, sightings, forgotten)
        finally:
            self._led = self._exploring = None

    def _run(
        self,
        instruction: str,
        decoder: TextDecoder,
        cancelled: Cancelling,
        settings: GoalSettings,
        sightings: Sequence[Sighting] = (),
        forgotten: Callable[[], bool] = lambda: False,
    ) -> GoalResult:
        """Run one goal to its end. Step numbers continue from the plan's earlier goals."""
        self._goal = GoalRun(
            instruction,
            uuid.uuid4().hex,
            self.robot,
            decoder,
            settings,
            cancelled,
            sightings,
            forgotten,
            self._steps,
        )
        try:
            return self._goal.run()
        finally:
            self._steps, self._goal = self._goal.last_step, None

    def _watch_for_forgetting(self) -> Callable[[], bool]:
        """Returns a check for records deleted since now. If it is true, the goal drops its sightings."""
        if self.recollection is None:
            return lambda: False
        memory = self.recollection.memory
        at_start = memory.num_forgotten()

        def forgotten() -> bool:
            is_changed = memory.num_forgotten() != at_start
            if is_changed and self._led is not None:
                self._led.forget()
            return is_changed

        return forgotten

    def _led_by_map(self, sightings: Sequence[Sighting]) -> TextDecoder:
        """Returns the models' decoder with the map's help: towards the last sighting, and to unseen floor."""
        if self.floor is None:
            return self.decoder
        odometry, table = self.robot.odometry, self.settings.navigator.table
        self._exploring = ExploringDecoder(self.decoder, self.floor, odometry, table)
        if not sightings:
            return self._exploring
        self._led = LedDecoder(self._exploring, self.floor, sightings[-1], odometry, table)
        return self._led

    def _destination(self, thing: str) -> Destination | None:
        if self.recollection is None or self.floor is None:
            return None
        return self.recollection.destination(thing)
