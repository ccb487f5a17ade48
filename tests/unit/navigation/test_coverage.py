"""No motion into a sector that the scan does not cover; a lidar of 180 degrees is enough."""

import math

import numpy as np
import pytest
from flatland import Flatland, box, wall

from outrider.core.language.actions import Motion
from outrider.core.values import Pose2D, RangeScan
from outrider.navigation.limits import Footprint
from outrider.navigation.motion.driving import carry_out
from outrider.navigation.sensing.coverage import Coverage, coverage

AHEAD, LEFT, RIGHT = Motion(forward_m=0.5), Motion(turn_rad=math.pi / 4), Motion(turn_rad=-math.pi / 4)


class HalfBlind(Flatland):
    """A base whose scan reads `told` at bearings (degrees) for which `sees` is false."""

    def __init__(self, sees, told=math.nan, **more):
        super().__init__(**more)
        self.sees, self.told = sees, told

    def scan(self):
        scan = super().scan()
        degrees = np.degrees(scan.angle_min + scan.angle_step * np.arange(len(scan.ranges)))
        ranges = np.where([self.sees(d) for d in degrees], scan.ranges, self.told)
        return RangeScan(tuple(ranges.tolist()), scan.angle_min, scan.angle_step, scan.stamp_s)


@pytest.mark.parametrize("told", [math.nan, 0.0, -math.inf])
@pytest.mark.parametrize(
    "sees, moves",
    [
        (lambda d: abs(d) <= 90, (True, True, True)),
        (lambda d: abs(d) <= 135, (True, True, True)),
        (lambda d: abs(d) > 90, (False, False, False)),
        (lambda d: abs(d) > 20, (False, False, False)),
        (lambda d: not 60 < d < 80, (True, False, True)),
        (lambda d: not -80 < d < -60, (True, True, False)),
        (lambda d: d > -90 and d < 0, (False, False, True)),
        (lambda d: abs(d) < 45, (True, False, False)),
        (lambda d: abs(d - 10) > 2, (True, True, True)),
        (lambda d: abs(d - 10) > 6, (False, False, True)),
    ],
)
def test_the_robot_moves_only_where_the_scan_has_ranges(sees, moves, told):
    for motion, may in zip((AHEAD, LEFT, RIGHT), moves, strict=True):
        robot = HalfBlind(sees, told)
        command = carry_out(robot, motion)
        moved = abs(robot.pose.x) > 0.1 or abs(robot.pose.yaw) > 0.1
        assert moved == may and (command.error is None) == may
        assert may or "the scan says nothing about what is ahead" in command.error


@pytest.mark.parametrize("half_deg", [90, 135])
@pytest.mark.parametrize("y", [-0.15, 0.15])
def test_a_lidar_that_looks_ahead_alone_serves_a_side_step(half_deg, y):
    robot = HalfBlind(lambda d: abs(d) <= half_deg, walls=box(0.9, y, 0.05))
    assert not carry_out(robot, Motion(forward_m=0.75)).blocked and robot.contacts == 0
    assert robot.pose.y * y < 0 and robot.pose.x == pytest.approx(0.75, abs=0.05)


def test_the_robot_makes_no_side_step_to_a_side_without_ranges():
    robot = HalfBlind(lambda d: d >= -35, walls=box(0.9, 0.22, 0.05))
    assert carry_out(robot, Motion(forward_m=0.75)).blocked
    assert abs(robot.pose.y) < 0.03 and robot.contacts == 0


def test_a_turn_next_to_a_wall_does_not_back_away_without_ranges_behind():
    robot = HalfBlind(lambda d: abs(d) <= 90, walls=[wall(0.38, -3, 0.38, 3)])
    carry_out(robot, LEFT)
    assert robot.contacts == 0 and robot.pose.x > -0.02


@pytest.mark.parametrize("x, half_deg", [(0.3, 52), (0.0, 25), (-0.3, 16)])
def test_the_corridor_is_seen_from_where_the_lidar_stands(x, half_deg):
    """A scan that is just wide enough, and one of half that width."""
    step = math.radians(1.0)
    for share, enough in ((1.0, True), (0.5, False)):
        number = int(2 * half_deg * share)
        scan = RangeScan((math.inf,) * number, -step * (number - 1) / 2, step, 0.0, mount=Pose2D(x, 0.0, 0.0))
        assert coverage(scan, Footprint()).ahead == enough


def test_rays_that_hit_the_robot_itself_are_ignored():
    scan = RangeScan((0.1,) * 60 + (math.inf,) * 120, -math.pi, math.tau / 180, 0.0)
    assert coverage(scan, Footprint()) == Coverage(ahead=True, behind=False, left=True, right=False)
