# SPDX-License-Identifier: Apache-2.0
"""Runs a simulated robot under a pilot, with answers that take time on the simulation's clock.

That clock stands while a model computes, and then advances by the time that its answer is to take. So the
real robot's loop and pilot can be judged at any round trip, on any machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from outrider.core.errors import Cancelled
from outrider.core.language.actions import Motion, split_answer
from outrider.core.ports import Robot, TextDecoder
from outrider.core.values import STANDSTILL, Decoded, DecodeRequest, LinkState, Odometry, Verified
from outrider.navigation.clocks import Moment
from outrider.navigation.goal.exploring import ExploringDecoder
from outrider.navigation.goal.navigator import NavigatorSettings
from outrider.navigation.motion.driving import CONTROL_PERIOD_S
from outrider.navigation.motion.pilot import Pilot, PilotSettings
from outrider.navigation.motion.step_motions import MotionEnd, StepText
from outrider.navigation.sensing.floor_map import FloorMap
from outrider.runtime.mission.episode import (
    EpisodeResult,
    TruePath,
    decode_action,
    has_reached,
    mapped,
    wanted_in,
)
from outrider.runtime.mission.goal_run import GoalRun, GoalSettings
from outrider.runtime.mission.robot_side import Frame, RobotSide, StepState, StepUpdate
from outrider.simulation.homes.home import Home
from outrider.simulation.looks.styles import draw_look
from outrider.simulation.simulator import open_simulator

CAMERA_PERIOD_S = 0.1
STANDS_MPS, STANDS_RPS = 0.03, 0.05


@dataclass(frozen=True)
class AnswerTimes:
    """Seconds from a frame to its verified action, and from there to the end of the text.

    The strategy `outrider` streams: `outrider bench latency` shows the text's end some 0.03 to 0.05 s after
    its action at any round trip. The defaults leave room for slower machines.
    """

    action_s: float = 0.15
    text_s: float = 0.3

    def over(self, round_trip_s: float) -> AnswerTimes:
        """The same times over a link with this round trip."""
        return AnswerTimes(self.action_s + round_trip_s, self.text_s)


class PacedSide(RobotSide):
    """The robot's side in a simulation; every wait drives the robot on."""

    def __init__(self, robot: Robot, on_tick: Callable[[], None] = lambda: None) -> None:
        self.robot = robot
        self.standing_s = 0.0
        self._on_tick = on_tick
        self._pilot = Pilot(PilotSettings(period_s=CONTROL_PERIOD_S))
        self._pilot.start(self._now())
        self._update: StepUpdate | None = None
        self._ends: dict[int, MotionEnd] = {}

    @property
    def motion(self) -> Motion | None:
        """The motion that the pilot carries out."""
        return self._pilot.motion

    @property
    def update(self) -> StepUpdate | None:
        """The newest text that was given to the pilot."""
        return self._update

    def set_e_stop(self, engaged: bool) -> None:
        """Engage or release the emergency stop, as a person does."""
        self._pilot.on_emergency_stop(engaged, self._now())

    def now_s(self) -> float:
        return self.robot.odometry().stamp_s

    def frame_after(self, stamp_s: float, timeout_s: float) -> Frame | None:
        """The camera's next picture after a time; ignores the timeout."""
        due_s = (math.floor(max(stamp_s, self.now_s()) / CAMERA_PERIOD_S) + 1) * CAMERA_PERIOD_S
        self.pause(due_s - self.now_s())
        return Frame(self.robot.frame_jpeg(), self.now_s(), odometry=self.robot.odometry())

    def odometry(self) -> Odometry:
        return self.robot.odometry()

    def publish_step(self, update: StepUpdate) -> None:
        """Give an update to the pilot at once, and again with each tick."""
        self._update = update
        self._repeat()

    def publish_prompt(self, update: StepUpdate, request: DecodeRequest) -> None:
        """Does nothing: the simulation has no subscriber for prompts."""

    def publish_rounds(self, update: StepUpdate, decoded: Decoded) -> None:
        """Does nothing: the simulation has no subscriber for rounds."""

    def motion_end(self, session_id: str, step: int, timeout_s: float) -> MotionEnd | None:
        """The report of a motion; the robot is driven on until it comes, or until the timeout."""
        deadline_s = self.now_s() + timeout_s
        while step not in self._ends and self.now_s() < deadline_s:
            self._tick()
        return self._ends.pop(step, None)

    def pause(self, duration_s: float) -> None:
        deadline_s = self.now_s() + duration_s - CONTROL_PERIOD_S / 2
        while self.now_s() < deadline_s:
            self._tick()

    def _now(self) -> Moment:
        """The time of the simulation, whose clock is the only one."""
        return Moment(self.now_s(), self.now_s())

    def _tick(self) -> None:
        self._repeat()
        odometry = self.robot.odometry()
        drive = self._pilot.tick(odometry, self.robot.scan(), self._now())
        if drive.end is not None:
            self._ends[drive.end.step] = drive.end
        self.robot.drive(drive.velocity or STANDSTILL, CONTROL_PERIOD_S)
        stands = not odometry.velocity.exceeds(STANDS_MPS, STANDS_RPS)
        self.standing_s += CONTROL_PERIOD_S if stands else 0.0
        self._on_tick()

    def _repeat(self) -> None:
        if self._update is not None:
            self._pilot.on_text(step_text(self._update, self.now_s()), self._now())


def step_text(update: StepUpdate, now_s: float) -> StepText:
    """Returns an update as the pilot takes it, without a link in between."""
    return StepText(
        update.session_id,
        update.step,
        update.action,
        update.action_complete,
        withdrawn=update.state is StepState.WITHDRAWN,
        frame_age_s=now_s - update.frame.stamp_s if update.frame else 0.0,
        text=update.text,
    )


class PacedDecoder:
    """Implements `core.ports.TextDecoder`: gives another decoder's action and phase after the given times.

    The rest of the text moves nothing; its time passes without decoding it.
    """

    link_state = LinkState.LOCAL

    def __init__(self, decoder: TextDecoder, side: PacedSide, times: AnswerTimes) -> None:
        self._decoder, self._side, self._times = decoder, side, times
        self.actions: tuple[str, ...] = ()

    def decode(
        self,
        request: DecodeRequest,
        on_verified: Callable[[Verified], None] = lambda _: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Decoded:
        """Decode an action at the pace of the times. Raises Cancelled once `cancelled`."""
        text = decode_action(self._decoder, request.prompt, request.max_new_tokens)
        action = split_answer(text).action
        self.actions += (action,)
        began_s = self._side.now_s()
        self._wait(self._times.action_s, cancelled)
        on_verified(Verified((), action + "\n", self._side.now_s() - began_s))
        self._wait(CONTROL_PERIOD_S, cancelled)
        on_verified(Verified((), text, self._side.now_s() - began_s))
        self._wait(self._times.text_s - CONTROL_PERIOD_S, cancelled)
        return Decoded(text, (), True, self._side.now_s() - began_s, 0.0, 0)

    def close(self) -> None:
        """Does nothing: the caller owns the wrapped decoder."""

    def _wait(self, duration_s: float, cancelled: Callable[[], bool]) -> None:
        until_s = self._side.now_s() + duration_s
        while True:
            if cancelled():
                raise Cancelled("cancelled")
            if self._side.now_s() >= until_s - CONTROL_PERIOD_S / 2:
                return
            self._side.pause(CONTROL_PERIOD_S)


@dataclass(frozen=True)
class Pace:
    """How the robot moves, and how long answers take. `continuous` as in `GoalSettings`."""

    continuous: bool
    times: AnswerTimes


def run_paced_episode(
    home: Home,
    instruction: str,
    decoder: TextDecoder,
    settings: NavigatorSettings,
    odometry_noise: float,
    pace: Pace,
    legs: bool = False,
    look: str = "plain",
) -> EpisodeResult:
    """Run one goal to its end; the simulated clock advances while a text is decoded."""
    drawn_look = draw_look(look, home.seed)
    with closing(open_simulator(home, home.seed, odometry_noise, legs, drawn_look)) as simulator:
        path = TruePath(simulator)
        side = PacedSide(simulator, path.extend)
        floor = FloorMap()
        exploring = ExploringDecoder(decoder, floor, mapped(simulator, floor))
        paced = PacedDecoder(exploring, side, pace.times)
        goal = GoalSettings(continuous=pace.continuous, navigator=settings)
        began_s = side.now_s()
        result = GoalRun(instruction, "episode", side, paced, goal, lambda: False).run()
        pose = simulator.truth()
        return EpisodeResult(
            seed=home.seed,
            placement=home.placement,
            instruction=instruction,
            outcome="arrived" if result.success else result.error.name.lower(),
            success=result.success and has_reached(home, wanted_in(instruction, home), pose),
            steps=result.steps,
            path_m=path.length_m,
            collisions=simulator.collisions,
            target_distance_m=home.target.distance_m(pose.x, pose.y),
            duration_s=side.now_s() - began_s,
            actions=paced.actions,
            standing_s=side.standing_s,
        )
