"""Motions reckoned from the pose of their camera frame, for a robot that has moved since."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from flatland import Flatland, wall

from outrider.core.language.actions import Motion
from outrider.core.values import Pose2D, RangeScan, Velocity
from outrider.navigation.limits import MotionLimits
from outrider.navigation.motion.anchoring import AnchoredMotion, rest_of, seconds_left
from outrider.navigation.motion.controller import Command, MotionController

AHEAD, LEFT = Motion(forward_m=0.5), Motion(turn_rad=math.radians(30.0))
HOME = Pose2D(0.0, 0.0, 0.0)
PERIOD_S = 0.05


def turned(degrees: float, x: float = 0.0) -> Pose2D:
    return Pose2D(x, 0.0, math.radians(degrees))


@pytest.mark.parametrize(
    ("motion", "pose", "rest"),
    [
        (AHEAD, HOME, AHEAD),
        (AHEAD, Pose2D(0.2, 0.1, 0.3), Motion(forward_m=0.3)),
        (AHEAD, Pose2D(0.49, 0.0, 0.0), Motion()),
        (AHEAD, Pose2D(0.9, 0.0, 0.0), Motion()),
        (AHEAD, Pose2D(-0.2, 0.0, 0.0), AHEAD),
        (LEFT, turned(10.0), Motion(turn_rad=math.radians(20.0))),
        (LEFT, turned(29.0), Motion()),
        (LEFT, turned(40.0), Motion(turn_rad=math.radians(-10.0))),
    ],
)
def test_the_rest_of_a_motion(motion: Motion, pose: Pose2D, rest: Motion) -> None:
    left = rest_of(motion, HOME, pose)
    assert left.forward_m == pytest.approx(rest.forward_m)
    assert left.turn_rad == pytest.approx(rest.turn_rad)


def test_a_rest_is_reckoned_in_the_anchors_frame() -> None:
    anchor = Pose2D(3.0, -1.0, math.pi - 0.1)
    here = anchor.compose(Pose2D(0.2, 0.0, 0.0))
    assert rest_of(AHEAD, anchor, here).forward_m == pytest.approx(0.3)
    assert rest_of(LEFT, anchor, anchor.compose(turned(20.0))).turn_rad == pytest.approx(math.radians(10.0))


def test_before_its_half_a_motion_has_no_end_in_sight() -> None:
    limits = MotionLimits(forward_mps=0.5, yaw_rps=1.0)
    assert seconds_left(AHEAD, HOME, Pose2D(0.2, 0.0, 0.0), limits) == math.inf
    assert seconds_left(AHEAD, HOME, Pose2D(0.3, 0.0, 0.0), limits) == pytest.approx(0.4)
    assert seconds_left(LEFT, HOME, turned(10.0), limits) == math.inf
    assert seconds_left(LEFT, HOME, turned(20.0), limits) == pytest.approx(math.radians(10.0))
    assert seconds_left(AHEAD, HOME, Pose2D(0.6, 0.0, 0.0), limits) == 0.0


def carry_out(robot: Flatland, motion: Motion, anchor: Pose2D) -> tuple[Command, list[Velocity]]:
    executor = AnchoredMotion(motion, anchor, lambda part: MotionController(part, period_s=PERIOD_S))
    executor.start(robot.odometry(), robot.time_s)
    sent = []
    while True:
        command = executor.update(robot.odometry(), robot.scan(), robot.time_s)
        if command.done:
            return command, sent
        sent.append(command.velocity)
        robot.drive(command.velocity, PERIOD_S)


@pytest.mark.parametrize("here", [HOME, Pose2D(0.2, 0.03, 0.0), turned(25.0), turned(-40.0, x=0.1)])
def test_a_move_ahead_ends_where_its_frame_meant(here: Pose2D) -> None:
    robot = Flatland(start=here)
    command, _ = carry_out(robot, AHEAD, HOME)
    assert command.done and not command.error and not command.blocked
    assert robot.pose.x == pytest.approx(0.5, abs=0.06) and abs(robot.pose.y) < 0.06
    assert abs(math.degrees(robot.pose.yaw)) < 7.0


@pytest.mark.parametrize("degrees", [0.0, 12.0, 29.5, 44.0, -10.0])
def test_a_turn_ends_where_its_frame_meant(degrees: float) -> None:
    robot = Flatland(start=turned(degrees))
    command, _ = carry_out(robot, LEFT, HOME)
    assert not command.error and math.degrees(robot.pose.yaw) == pytest.approx(30.0, abs=2.5)


@pytest.mark.parametrize(
    ("motion", "velocity"), [(LEFT, Velocity(vx=0.6)), (AHEAD, Velocity(wz=1.0)), (LEFT, Velocity(wz=-1.0))]
)
def test_momentum_of_another_kind_is_waited_for(motion: Motion, velocity: Velocity) -> None:
    robot = Flatland()
    robot.velocity = velocity
    command, sent = carry_out(robot, motion, HOME)
    assert not command.error and not command.blocked
    if velocity.vx or motion.forward_m:
        assert sent[0] == Velocity()


def test_momentum_of_its_own_kind_is_kept() -> None:
    robot = Flatland()
    robot.velocity = Velocity(vx=0.5)
    _, sent = carry_out(robot, Motion(forward_m=0.75), HOME)
    assert sent[0].vx >= 0.5


def test_what_stands_in_the_way_blocks_it_as_any_motion() -> None:
    robot = Flatland([wall(0.75, -2.0, 0.75, 2.0)], start=Pose2D(0.1, 0.0, 0.0))
    command, _ = carry_out(robot, Motion(forward_m=0.75), HOME)
    assert command.blocked and robot.contacts == 0


def test_a_turn_back_that_is_blocked_ends_the_move() -> None:
    made = []

    class Blocked:
        odometry_froze = False

        def start(self, *_: object) -> None:
            """Do nothing: the start has no effect here."""

        def update(self, *_: object) -> Command:
            return Command(done=True, blocked=True, note="held")

    def make(part: Motion) -> Blocked:
        made.append(part)
        return Blocked()

    executor = AnchoredMotion(AHEAD, HOME, make)
    robot = Flatland(start=turned(30.0))
    executor.start(robot.odometry(), 0.0)
    scan: Callable[[], RangeScan] = robot.scan
    assert executor.update(robot.odometry(), scan(), 0.0).blocked
    assert len(made) == 1 and made[0].turn_rad == pytest.approx(math.radians(-30.0))
