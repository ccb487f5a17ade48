"""A scan that turns the other way than the robot does."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from flatland import Flatland, box, wall

from outrider.core.values import Pose2D, RangeScan, Velocity
from outrider.navigation.clocks import Moment
from outrider.navigation.motion.pilot import Pilot, PilotSettings
from outrider.navigation.motion.step_motions import Ending, MotionEnd, StepText
from outrider.navigation.sensing.mirrored_scan import MIRRORED, MirroredScan

PERIOD_S = 0.04
ROOM = [wall(-2, -3, 4, -3), wall(4, -3, 4, 2), wall(4, 2, -2, 2), wall(-2, 2, -2, -3), *box(2.0, 1.0, 0.3)]
SQUARE = box(0.0, 0.0, 2.5)
CORRIDOR = [wall(-9, -1, 9, -1), wall(-9, 1, 9, 1)]
TO_AND_FRO = [1.0] * 20 + [-1.0] * 20


def mirrored(scan: RangeScan) -> RangeScan:
    """As of a lidar that hangs upside down."""
    return replace(scan, ranges=(scan.ranges[0], *reversed(scan.ranges[1:])))


def declared(scan: RangeScan) -> RangeScan:
    """The same, of which tf tells."""
    return replace(mirrored(scan), angle_min=-scan.angle_min, angle_step=-scan.angle_step)


def half(scan: RangeScan) -> RangeScan:
    """The half circle ahead."""
    return replace(scan, ranges=scan.ranges[45:135], angle_min=-math.pi / 2)


def is_mirrored(
    walls: list[tuple[float, float, float, float]],
    see: Callable[[RangeScan], RangeScan],
    rates_rps: list[float],
    late: int = 0,
) -> bool:
    """What is found as the robot turns; its odometry is that of `late` periods later."""
    robot, check = Flatland(walls, Pose2D(0.3, 0.2, 0.4), noise=0.02), MirroredScan()
    scans: list[RangeScan] = []
    for rate_rps in rates_rps:
        robot.drive(Velocity(wz=rate_rps), PERIOD_S)
        scans.append(see(robot.scan()))
        if len(scans) > late:
            check.see(scans[-1 - late], robot.odometry().pose)
    return check.is_mirrored


@pytest.mark.parametrize("sense", [1.0, -1.0])
@pytest.mark.parametrize("walls", [ROOM, SQUARE, CORRIDOR], ids=["room", "square", "corridor"])
def test_a_mirrored_scan_is_noticed_within_a_turn(
    walls: list[tuple[float, float, float, float]], sense: float
) -> None:
    turn = [sense] * 30
    assert is_mirrored(walls, mirrored, turn)
    assert is_mirrored(walls, lambda scan: half(mirrored(scan)), turn)
    for right in (lambda scan: scan, declared, half):
        assert not is_mirrored(walls, right, turn * 3)


@pytest.mark.parametrize("late", [0, 3, 6])
def test_a_scan_that_is_late_is_not_mirrored_though_the_robot_turns_to_and_fro(late: int) -> None:
    assert not is_mirrored(ROOM, lambda scan: scan, TO_AND_FRO * 6, late)


def test_nothing_is_said_of_a_robot_that_does_not_turn_or_sees_nothing() -> None:
    assert not is_mirrored(ROOM, mirrored, [0.0] * 60)
    assert not is_mirrored([], mirrored, [1.0] * 60)
    assert not is_mirrored(ROOM, lambda scan: replace(scan, ranges=scan.ranges[90:110]), [1.0] * 60)


def test_a_mirrored_scan_moves_nothing_more_and_the_next_goal_looks_anew() -> None:
    robot, pilot = Flatland(ROOM), Pilot(PilotSettings(period_s=PERIOD_S))
    ends: list[MotionEnd] = []

    def carry_out(session: str, step: int, see: Callable[[RangeScan], RangeScan]) -> MotionEnd:
        while True:
            now = Moment(100.0 + robot.time_s, 100.0 + robot.time_s)
            pilot.on_text(StepText(session, step, "turn left large", complete=True), now)
            scan, odometry = see(robot.scan()), replace(robot.odometry(), stamp_s=now.motion_s)
            drive = pilot.tick(odometry, replace(scan, stamp_s=now.motion_s), now)
            robot.drive(drive.velocity or Velocity(), PERIOD_S)
            if drive.end is not None:
                ends.append(drive.end)
                return drive.end

    for step in range(4):
        last = carry_out("first", step, mirrored)
    assert (last.ending, last.message, last.turned_rad) == (Ending.FAILED, MIRRORED, 0.0)
    assert sum(abs(end.turned_rad) for end in ends) < math.radians(90.0)
    for step in range(4):
        assert carry_out("second", step, lambda scan: scan).ending is Ending.DONE
