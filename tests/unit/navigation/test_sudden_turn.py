"""A scan that turns at once by more than a robot can, as from a lidar that slips in its mount."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import numpy as np
import pytest
from flatland import Flatland, box, wall

from outrider.core.values import Pose2D, RangeScan, Velocity
from outrider.navigation.sensing.scan_check import ScanCheck, ScanSample
from outrider.navigation.sensing.sudden_turn import SuddenTurn
from outrider.navigation.sensing.transforms import TransformTree

PERIOD_S, REACH_M, BEGIN_S = 0.1, 8.0, 100.0
ROOM = [wall(-2, -3, 4, -3), wall(4, -3, 4, 2), wall(4, 2, -2, 2), wall(-2, 2, -2, -3), *box(2.0, 1.0, 0.3)]
SQUARE = box(0.0, 0.0, 2.5)
CORRIDOR = [wall(-9, -1, 9, -1), wall(-9, 1, 9, 1)]
Change = Callable[[RangeScan], RangeScan]


class Lidar:
    """The lidar of a robot in a flat world, and the check of its scans."""

    def __init__(self, walls: list[tuple[float, float, float, float]], is_stamped: bool = True) -> None:
        self.robot = Flatland(walls, Pose2D(0.3, 0.2, 0.4), noise=0.02)
        self.check = ScanCheck(TransformTree(), "base_link")
        self._now_s, self._is_stamped = BEGIN_S, is_stamped

    def faults(
        self, number: int, velocity: Velocity, turned_deg: float = 0.0, dt_s: float = PERIOD_S
    ) -> set[str]:
        """Return the faults while the robot drives for so many scans, with a lidar turned by an angle."""
        found = set()
        for _ in range(number):
            self.robot.drive(velocity, dt_s)
            self._now_s += dt_s
            scan = self.robot.scan()
            rays = round(math.radians(turned_deg) / scan.angle_step)
            last_rad = scan.angle_min + scan.angle_step * (len(scan.ranges) - 1)
            sample = ScanSample(
                np.roll(np.array(scan.ranges), rays),
                *(scan.angle_min, last_rad, scan.angle_step, 0.05, REACH_M, "base_link"),
                stamp_s=self._now_s if self._is_stamped else 0.0,
            )
            self.check.take(sample, self._now_s)
            found.add(self.check.fault)
        return found


@pytest.mark.parametrize(
    ("turned_deg", "is_stamped"), [(60.0, True), (90.0, False), (-90.0, True), (180.0, True)]
)
def test_a_scan_that_turns_at_once_is_a_fault_until_it_is_back(turned_deg: float, is_stamped: bool) -> None:
    lidar = Lidar(ROOM, is_stamped)
    assert lidar.faults(20, Velocity(0.3, wz=0.5)) == {""}
    (fault,) = lidar.faults(50, Velocity(), turned_deg)
    named = re.fullmatch(r"the scan turned at once by (\d+) deg: .*", fault)
    assert named is not None
    assert float(named[1]) == pytest.approx(abs(turned_deg), abs=6.0)
    lidar.faults(12, Velocity())
    assert lidar.faults(3, Velocity()) == {""}


def test_a_lidar_that_is_restarted_after_the_fault_counts_again() -> None:
    lidar = Lidar(ROOM)
    lidar.faults(5, Velocity())
    assert "" not in lidar.faults(20, Velocity(), 90.0)
    lidar.faults(12, Velocity(), 90.0, dt_s=3.0)
    assert lidar.faults(3, Velocity(), 90.0) == {""}


@pytest.mark.parametrize("share", [0.3, 0.45, 0.55, 0.7])
@pytest.mark.parametrize("rays", [360, 270, 180])
def test_somebody_who_steps_near_turns_no_scan(share: float, rays: int) -> None:
    """The worst case is a round room: its free part fits any turn."""
    watch, step_rad = SuddenTurn(), math.radians(1.0)
    for shift in (0, 40, 90, 170):
        near = np.roll(np.where(np.arange(rays) < share * rays, 1.0, 3.0), shift)
        for number, ranges in enumerate([np.full(rays, 3.0), near, near, np.full(rays, 3.0)]):
            assert watch.fault(ranges, step_rad, BEGIN_S + PERIOD_S * number) == ""


def test_a_turned_scan_stays_a_fault_when_its_driver_sends_a_ray_more_or_less() -> None:
    rng = np.random.default_rng(4)
    scan, check = rng.uniform(1.0, 6.0, 360), SuddenTurn()
    assert check.fault(scan, math.radians(1.0), BEGIN_S) == ""
    for number in range(1, 7):
        turned = np.roll(scan, 90)
        ranges = (turned, np.append(turned, turned[0]), turned[:-1])[number % 3]
        assert "turned at once by 90 deg" in check.fault(ranges, math.radians(1.0), BEGIN_S + 0.1 * number)


@pytest.mark.parametrize("rays", [360, 1000, 1440])
def test_people_who_walk_up_in_the_open_turn_no_scan(rays: int) -> None:
    """Nothing else is in reach: one person at the place of another is no turn of the surroundings."""
    check, width = SuddenTurn(), rays // 11

    def scan(first_m: float, second_m: float) -> np.ndarray:
        ranges = np.full(rays, math.inf)
        ranges[:width], ranges[rays // 3 : rays // 3 + width] = first_m, second_m
        return ranges

    for number in range(6):
        ranges = scan(2.4 - 0.3 * number, 2.7 - 0.3 * number)
        assert check.fault(ranges, math.tau / rays, BEGIN_S + 0.2 * number) == ""


@pytest.mark.lengthy
@pytest.mark.parametrize("walls", [ROOM, SQUARE, CORRIDOR], ids=["room", "square", "corridor"])
@pytest.mark.parametrize("dt_s", [0.1, 0.2, 0.5])
@pytest.mark.parametrize("rate_rps", [1.5, -1.5, 0.3])
def test_a_robot_that_turns_or_moves_turns_no_scan_at_once(walls, dt_s: float, rate_rps: float) -> None:
    lidar = Lidar(walls)
    moving = lidar.faults(30, Velocity(wz=rate_rps), dt_s=dt_s) | lidar.faults(6, Velocity(0.5), dt_s=dt_s)
    assert moving == {""}
