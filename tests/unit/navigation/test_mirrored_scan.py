"""A scan that turns the other way than the robot, and one that moves another way."""

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
from outrider.navigation.sensing.mirrored_scan import MIRRORED, TURNED, MirroredScan, TurnedScan

PERIOD_S = 0.04
ROOM = [wall(-2, -3, 4, -3), wall(4, -3, 4, 2), wall(4, 2, -2, 2), wall(-2, 2, -2, -3), *box(2.0, 1.0, 0.3)]
SQUARE = box(0.0, 0.0, 2.5)
CORRIDOR = [wall(-9, -1, 9, -1), wall(-9, 1, 9, 1)]
TO_AND_FRO = [1.0] * 20 + [-1.0] * 20
AHEAD = Velocity(0.5)


def mirrored(scan: RangeScan) -> RangeScan:
    """Return the scan of a lidar that hangs upside down."""
    return replace(scan, ranges=(scan.ranges[0], *reversed(scan.ranges[1:])))


def declared(scan: RangeScan) -> RangeScan:
    """Return the mirrored scan with angles that say so, as with a correct transform in tf."""
    return replace(mirrored(scan), angle_min=-scan.angle_min, angle_step=-scan.angle_step)


def half(scan: RangeScan) -> RangeScan:
    """Return the half circle ahead."""
    return replace(scan, ranges=scan.ranges[45:135], angle_min=-math.pi / 2)


def is_mirrored(
    walls: list[tuple[float, float, float, float]],
    see: Callable[[RangeScan], RangeScan],
    rates_rps: list[float],
    late: int = 0,
) -> bool:
    """Return whether the check finds a mirrored scan as the robot turns.

    Each scan comes with the odometry of `late` periods later.
    """
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


def test_no_fault_is_reported_without_turns_or_without_ranges() -> None:
    assert not is_mirrored(ROOM, mirrored, [0.0] * 60)
    assert not is_mirrored([], mirrored, [1.0] * 60)
    assert not is_mirrored(ROOM, lambda scan: replace(scan, ranges=scan.ranges[90:110]), [1.0] * 60)


def from_ahead(scan: RangeScan) -> RangeScan:
    """Return the same scan, beginning ahead."""
    return replace(scan, ranges=(*scan.ranges[90:], *scan.ranges[:90]), angle_min=0.0)


def closed(scan: RangeScan) -> RangeScan:
    """Return the same scan, with its first ray repeated at the end."""
    return replace(from_ahead(scan), ranges=(*from_ahead(scan).ranges, scan.ranges[90]))


def turned(scan: RangeScan, degrees: float = 180.0) -> RangeScan:
    """Return the scan of a lidar whose yaw in tf is wrong by an angle."""
    return replace(scan, mount=Pose2D(0.0, 0.0, math.radians(degrees)))


def is_turned(
    walls: list[tuple[float, float, float, float]],
    see: Callable[[RangeScan], RangeScan],
    velocities: list[Velocity],
    yaw: float = 0.4,
    slips: bool = False,
) -> bool:
    """Return whether the check finds a turned scan as the robot moves.

    If it `slips`, only its odometry moves.
    """
    robot, check = Flatland(walls, Pose2D(-1.0, -0.5, yaw), noise=0.02), TurnedScan()
    first = robot.scan()
    for velocity in velocities:
        robot.drive(velocity, PERIOD_S)
        check.see(see(first if slips else robot.scan()), robot.odometry().pose)
    return check.is_turned


@pytest.mark.parametrize("degrees", [60.0, -90.0, 135.0, 180.0])
def test_a_turned_scan_is_noticed_within_a_metre(degrees: float) -> None:
    way = [AHEAD] * 50
    assert is_turned(ROOM, lambda scan: turned(scan, degrees), way)
    assert is_turned(SQUARE, lambda scan: turned(half(scan), degrees), way)


@pytest.mark.parametrize("velocity", [AHEAD, Velocity(0.5, 0.1, 0.3), Velocity(0.1, -0.3), Velocity(wz=1.0)])
@pytest.mark.parametrize("walls", [ROOM, SQUARE, CORRIDOR, []], ids=["room", "square", "corridor", "nothing"])
def test_a_sound_scan_is_not_turned_whichever_way_the_robot_goes(
    walls: list[tuple[float, float, float, float]], velocity: Velocity
) -> None:
    for right in (lambda scan: scan, declared, half, closed, lambda scan: turned(scan, 10.0)):
        assert not is_turned(walls, right, [velocity] * 80)


def test_no_yaw_fault_is_reported_if_the_scan_is_ambiguous() -> None:
    assert not is_turned(CORRIDOR, turned, [AHEAD] * 50, yaw=0.0)
    assert not is_turned(ROOM, lambda scan: scan, [AHEAD] * 50, slips=True)
    assert not is_turned(ROOM, turned, [Velocity(wz=1.0)] * 60)


@pytest.mark.parametrize("degrees", [0.0, 45.0, 60.0, 135.0])
@pytest.mark.parametrize("yaw", [0.4, 1.0, -2.0])
def test_a_repeated_ray_changes_nothing(degrees: float, yaw: float) -> None:
    def found(see: Callable[[RangeScan], RangeScan]) -> bool:
        return is_turned(ROOM, lambda scan: see(turned(scan, degrees)), [AHEAD] * 50, yaw)

    assert found(from_ahead) is found(closed)


def test_scans_too_far_apart_are_not_compared() -> None:
    """As after a gap in the scans, or a jump of odometry: such scans may be alike by chance."""
    for step_m, is_found in ((0.5, True), (2.0, False)):
        check = TurnedScan()
        for number in range(8):
            pose = Pose2D(-1.5 + step_m * (number % 2), -1.5, 0.0)
            check.see(turned(Flatland(ROOM, pose).scan()), pose)
        assert check.is_turned is is_found


@pytest.mark.parametrize(
    ("see", "action", "fault"),
    [(mirrored, "turn left large", MIRRORED), (turned, "move forward medium", TURNED)],
    ids=["mirrored", "turned"],
)
def test_a_mirrored_scan_ends_all_motion_until_the_next_goal(
    see: Callable[[RangeScan], RangeScan], action: str, fault: str
) -> None:
    robot, pilot = Flatland(ROOM, Pose2D(-1.0, -1.0, 0.0)), Pilot(PilotSettings(period_s=PERIOD_S))
    ends: list[MotionEnd] = []

    def carry_out(session: str, step: int, see: Callable[[RangeScan], RangeScan]) -> MotionEnd:
        while True:
            now = Moment(100.0 + robot.time_s, 100.0 + robot.time_s)
            pilot.on_text(StepText(session, step, action, complete=True), now)
            scan, odometry = see(robot.scan()), replace(robot.odometry(), stamp_s=now.motion_s)
            drive = pilot.tick(odometry, replace(scan, stamp_s=now.motion_s), now)
            robot.drive(drive.velocity or Velocity(), PERIOD_S)
            if drive.end is not None:
                ends.append(drive.end)
                return drive.end

    for step in range(4):
        last = carry_out("first", step, see)
    assert (last.ending, last.message, last.distance_m) == (Ending.FAILED, fault, 0.0)
    assert sum(abs(end.turned_rad) for end in ends) < math.radians(90.0)
    assert sum(end.distance_m for end in ends) < 1.0
    robot.time_s += 20.0
    stale = Moment(100.0 + robot.time_s, 100.0 + robot.time_s)
    pilot.on_text(StepText("second", 0, action, complete=True, frame_age_s=11.0), stale)
    assert pilot.tick(None, None, stale).end is not None, "refused: it begins no look"
    for step in range(1, 5):
        assert carry_out("second", step, lambda scan: scan).ending is Ending.DONE
