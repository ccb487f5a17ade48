"""The goal's loop, a pilot and a base under one clock: stepwise and continuous motion."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from outrider.core.errors import Cancelled, LinkError
from outrider.core.values import (
    Decoded,
    DecodeRequest,
    Odometry,
    Pose2D,
    RangeScan,
    Velocity,
    Verified,
    wrap_angle,
)
from outrider.evaluation.robot.paced_side import CAMERA_PERIOD_S, AnswerTimes, PacedDecoder, PacedSide
from outrider.runtime.mission.goal_run import GoalRun, GoalSettings
from outrider.runtime.mission.robot_side import (
    Frame,
    GoalError,
    GoalResult,
    StepState,
    StepUpdate,
    unless_blind,
)

FREE = (math.inf,) * 36
AHEAD, LEFT = "move forward medium\napproach: the cup", "turn left medium\nlook: nothing yet"
STOP = "stop\nstop: at the cup"
LAG_S = 0.1


@dataclass
class Floor:
    """Implements `core.ports.Robot`: a base on a free floor that follows its commands with a lag."""

    pose: Pose2D = field(default_factory=lambda: Pose2D(0.0, 0.0, 0.0))
    velocity: Velocity = field(default_factory=Velocity)
    time_s: float = 10.0
    jpeg: bytes = b"\xff\xd8"

    def odometry(self) -> Odometry:
        return Odometry(self.pose, self.velocity, self.time_s)

    def scan(self) -> RangeScan:
        return RangeScan(FREE, -math.pi, math.tau / 36, self.time_s)

    def frame_jpeg(self) -> bytes:
        return self.jpeg

    def drive(self, velocity: Velocity, duration_s: float) -> None:
        blend = duration_s / (duration_s + LAG_S)
        old = self.velocity
        self.velocity = Velocity(
            old.vx + blend * (velocity.vx - old.vx),
            old.vy + blend * (velocity.vy - old.vy),
            old.wz + blend * (velocity.wz - old.wz),
        )
        moved = Pose2D(self.velocity.vx * duration_s, self.velocity.vy * duration_s, 0.0)
        at = self.pose.compose(moved)
        self.pose = Pose2D(at.x, at.y, wrap_angle(at.yaw + self.velocity.wz * duration_s))
        self.time_s += duration_s


@dataclass
class Script:
    """Returns its texts in turn, then a stop. Records the robot's pose and speed at each."""

    floor: Floor
    texts: list[str]
    poses: list[Pose2D] = field(default_factory=list)
    speeds: list[float] = field(default_factory=list)

    def decode(
        self,
        request: DecodeRequest,
        on_verified: Callable[[Verified], None] = lambda _: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Decoded:
        self.poses.append(self.floor.pose)
        self.speeds.append(math.hypot(self.floor.velocity.vx, self.floor.velocity.wz))
        text = self.texts.pop(0) if self.texts else STOP
        on_verified(Verified((), text, 0.0))
        return Decoded(text, (), True, 0.0, 0.0, 0)

    def close(self) -> None:
        """Does nothing: there is nothing to release."""


@dataclass
class Outcome:
    result: GoalResult
    floor: Floor
    script: Script
    took_s: float
    standing_s: float


def run(texts: list[str], continuous: bool, times: AnswerTimes | None = None) -> Outcome:
    floor = Floor()
    side, script = PacedSide(floor), Script(floor, list(texts))
    decoder = PacedDecoder(script, side, times or AnswerTimes())
    settings = GoalSettings(continuous=continuous)
    result = GoalRun("find the cup", "goal", side, decoder, settings, lambda: False).run()
    return Outcome(result, floor, script, side.now_s() - 10.0, side.standing_s)


@pytest.mark.parametrize("round_trip_s", [0.0, 0.3, 1.5])
@pytest.mark.parametrize("texts", [[AHEAD] * 6, [LEFT] * 6, [LEFT, AHEAD, AHEAD, LEFT, AHEAD]])
def test_continuous_motion_is_faster_at_every_round_trip(texts: list[str], round_trip_s: float) -> None:
    times = AnswerTimes().over(round_trip_s)
    step, flow = run(texts, False, times), run(texts, True, times)
    assert step.result.success and flow.result.success
    assert flow.took_s < 0.85 * step.took_s
    assert flow.standing_s / flow.took_s < step.standing_s / step.took_s


def test_every_action_is_carried_out_from_where_its_frame_was_taken() -> None:
    for texts, way in (([AHEAD] * 5, AHEAD), ([LEFT] * 5, LEFT), ([AHEAD, LEFT, AHEAD], AHEAD)):
        flow = run(texts, True)
        # A pose is recorded when a text is decoded, at its frame; the stop's comes before the motion's end.
        meant = flow.script.poses[-2].compose(
            Pose2D(0.5, 0.0, 0.0) if way is AHEAD else Pose2D(0.0, 0.0, math.radians(30.0))
        )
        assert flow.floor.pose.distance_to(meant.x, meant.y) < 0.2
        assert abs(wrap_angle(flow.floor.pose.yaw - meant.yaw)) < math.radians(20.0)


def test_frames_are_taken_under_way_but_for_the_first() -> None:
    flow, step = run([AHEAD] * 5, True), run([AHEAD] * 5, False)
    assert flow.script.speeds[0] == 0.0 and min(flow.script.speeds[1:]) > 0.1
    assert max(step.script.speeds) < 0.05


def test_the_next_picture_is_taken_as_soon_as_it_is_due() -> None:
    floor = Floor()
    side, script = PacedSide(floor), Script(floor, [LEFT] * 6)
    frames_s, cuts_s = [], []

    class Noting(PacedDecoder):
        def decode(self, *given: Any, **named: Any) -> Decoded:
            frames_s.append(floor.time_s)
            try:
                return super().decode(*given, **named)
            except Cancelled:
                cuts_s.append(floor.time_s)
                raise

    decoder = Noting(script, side, AnswerTimes().over(0.3))
    settings = GoalSettings(continuous=True)
    assert GoalRun("find the cup", "goal", side, decoder, settings, lambda: False).run().success
    assert cuts_s, "a text is cut off where the next picture is due before its end"
    for cut_s in cuts_s:
        assert min(taken for taken in frames_s if taken > cut_s) - cut_s < CAMERA_PERIOD_S + 1e-6


def test_a_text_of_no_action_stops_the_robot_under_way() -> None:
    flow = run([AHEAD, "fly away\nx: y"] * 2 + [AHEAD], True)
    assert flow.result.success
    after = flow.script.poses[2].distance_to(flow.script.poses[1].x, flow.script.poses[1].y)
    assert after < 0.25


class Failing(Script):
    """Loses its link once, at the third text."""

    def decode(self, *args: object, **more: object) -> Decoded:  # type: ignore[override]
        if len(self.poses) == 2 and self.texts:
            self.poses.append(self.floor.pose)
            raise LinkError("the verifier does not answer")
        return super().decode(*args, **more)  # type: ignore[arg-type]


def test_a_link_that_is_lost_under_way_stops_the_robot_and_the_goal_goes_on() -> None:
    floor = Floor()
    side, script = PacedSide(floor), Failing(floor, [AHEAD] * 4)
    decoder = PacedDecoder(script, side, AnswerTimes())
    result = GoalRun("x", "goal", side, decoder, GoalSettings(continuous=True), lambda: False).run()
    assert result.success
    lost, back = script.poses[2], script.poses[3]
    assert lost.distance_to(back.x, back.y) < 0.2, "it came to a stand within 0.3 s"


def test_a_goal_that_is_cancelled_under_way_stops() -> None:
    floor = Floor()
    side = PacedSide(floor)
    script = Script(floor, [AHEAD] * 9)
    decoder = PacedDecoder(script, side, AnswerTimes())
    settings = GoalSettings(continuous=True)
    result = GoalRun("x", "goal", side, decoder, settings, lambda: floor.pose.x > 1.0).run()
    assert result.error is GoalError.CANCELLED
    side.pause(1.0)
    assert floor.velocity.vx < 0.01 and floor.pose.x < 1.3


def test_a_camera_that_falls_silent_under_way_takes_the_motion_back() -> None:
    decoding = StepUpdate("goal", 2, StepState.DECODING, Frame(b"", 1.0))
    assert unless_blind(decoding, 0.5, 0.2) is decoding
    assert unless_blind(replace(decoding, under_way=True), 0.5, 0.2).state is StepState.WITHDRAWN
