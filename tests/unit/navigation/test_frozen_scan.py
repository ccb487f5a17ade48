"""A scan, or a part of it, that repeats itself although the robot has moved."""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from outrider.core.values import Odometry, Pose2D, RangeScan, Velocity
from outrider.navigation.sensing.frozen_scan import FrozenScan

RAYS = 180
STEP = math.tau / RAYS


def wall_scan(ahead_m, stamp_s, side_m=math.inf):
    """Return a scan of a wall across the way, and of walls along both sides of it."""
    bearings = -math.pi + STEP * np.arange(RAYS)
    with np.errstate(divide="ignore"):
        ahead = np.where(np.cos(bearings) > 0.0, ahead_m / np.cos(bearings), math.inf)
        aside = side_m / np.abs(np.sin(bearings))
    ranges = np.minimum(ahead, aside)
    return RangeScan(tuple(np.where(ranges < 8.0, ranges, math.inf)), -math.pi, STEP, stamp_s)


def at(x, yaw=0.0, stamp_s=0.0):
    return Odometry(Pose2D(x, 0.0, yaw), Velocity(), stamp_s)


@pytest.mark.parametrize("mount_yaw", [0.0, 2.0])
def test_a_scan_that_repeats_itself_while_the_robot_moves_is_frozen_until_it_changes(mount_yaw):
    watch = FrozenScan()
    frozen = []
    for index in range(12):
        scan = replace(wall_scan(2.0, 0.04 * index), mount=Pose2D(0.0, 0.0, mount_yaw))
        frozen.append(watch.sees(scan, at(0.02 * index, stamp_s=0.04 * index)))
    assert not any(frozen[:3]) and all(frozen[4:])
    assert not watch.sees(wall_scan(1.9, 0.6), at(0.3, stamp_s=0.6))


def test_a_scan_that_may_repeat_is_not_frozen():
    for ahead_m, side_m, step_m in ((2.0, 1.0, 0.0), (math.inf, 1.0, 0.02), (math.inf, math.inf, 0.02)):
        watch = FrozenScan()
        assert not any(
            watch.sees(wall_scan(ahead_m, 0.04 * i, side_m), at(step_m * i, stamp_s=0.04 * i))
            for i in range(12)
        )


def test_a_scan_that_repeats_itself_while_the_robot_turns_is_frozen():
    watch = FrozenScan()
    frozen = [watch.sees(wall_scan(2.0, 0.04 * i), at(0.0, 0.02 * i, 0.04 * i)) for i in range(12)]
    assert frozen[-1]


@pytest.mark.parametrize("part", [slice(0, 60), slice(40, 140), slice(0, RAYS - 1)])
@pytest.mark.parametrize(("mps", "rps"), [(0.5, 0.0), (0.2, 0.9), (0.0, 0.9)])
def test_a_part_of_a_scan_that_repeats_itself_is_noticed_and_no_scan_that_changes(part, mps, rps):
    """A square room, 3 m to each wall; the lidar rounds to 1 cm."""

    def room(x, yaw):
        bearings = yaw - math.pi + STEP * np.arange(RAYS)
        with np.errstate(divide="ignore"):
            to_x = np.where(np.cos(bearings) > 0, 3.0 - x, -3.0 - x) / np.cos(bearings)
            ranges = np.minimum(np.abs(to_x), np.abs(3.0 / np.sin(bearings)))
        return np.round(ranges, 2)

    sound, broken, first = FrozenScan(), FrozenScan(), None
    seen = []
    for index in range(30):
        x, yaw, stamp_s = 0.04 * index * mps, 0.04 * index * rps, 0.04 * index
        ranges = room(x, yaw)
        first = ranges if first is None else first
        odometry = at(x, yaw, stamp_s)
        assert not sound.sees(RangeScan(tuple(ranges), -math.pi, STEP, stamp_s), odometry)
        kept = ranges.copy()
        kept[part] = first[part]
        seen.append(broken.sees(RangeScan(tuple(kept), -math.pi, STEP, stamp_s), odometry))
    assert seen[-1] and not seen[0]


def test_a_robot_that_slips_on_the_spot_is_tried_again():
    watch, seen = FrozenScan(), []
    for index in range(120):
        jitter = 0.001 * (index % 2)
        scan = wall_scan(2.0, 0.04 * index)
        middle = RAYS // 2
        ranges = (*scan.ranges[:middle], scan.ranges[middle] + jitter, *scan.ranges[middle + 1 :])
        seen.append(
            watch.sees(replace(scan, ranges=ranges), at(min(0.2, 0.02 * index), stamp_s=0.04 * index))
        )
    assert any(seen) and not seen[-1]


def test_scans_that_come_later_than_odometry_are_compared_with_that_of_their_own_moment():
    """The robot stands for half a second and then moves; scans repeat until they show it."""
    watch = FrozenScan()
    for i in range(40):
        ahead_m, seen_s = max(0.0, 0.04 * i - 0.5), max(0.0, 0.04 * i - 0.2)
        scan = wall_scan(2.0 - 0.5 * max(0.0, seen_s - 0.5), seen_s)
        assert not watch.sees(scan, at(0.5 * ahead_m, stamp_s=0.04 * i))


@pytest.mark.parametrize("late_s", [0.02, 0.04, 0.1, 0.2])
@pytest.mark.parametrize(("mps", "rps"), [(0.5, 0.0), (0.0, 0.8)])
def test_scans_that_come_before_odometry_are_compared_with_that_of_their_own_moment(late_s, mps, rps):
    """The robot moves for half a second and then stands: scans without noise repeat, odometry is late."""
    watch = FrozenScan()
    for i in range(40):
        now_s, known_s = 0.04 * i, max(0.0, 0.04 * i - late_s)
        moved_s, told_s = min(now_s, 0.5), min(known_s, 0.5)
        scan = wall_scan(2.0 - 0.5 * moved_s, now_s)
        assert not watch.sees(scan, at(mps * told_s, rps * told_s, known_s))


@pytest.mark.lengthy
@pytest.mark.parametrize("period_s", [0.05, 0.1, 0.2, 0.3, 0.45])
@pytest.mark.parametrize(("mps", "rps"), [(0.5, 0.0), (0.0, 1.5), (0.5, -1.5)])
def test_a_scan_from_just_before_the_robot_started_or_just_after_it_stopped_is_not_frozen(period_s, mps, rps):
    """A busy machine looks seldom, and at a scan a moment older than its odometry."""
    for begins_s, late_s in product(np.arange(0.5, 1.0, 0.04), (0.0, 0.02, 0.04)):
        watch = FrozenScan()

        def moved_s(time_s, begins_s=begins_s):
            return min(max(0.0, time_s - begins_s), 0.6)

        for now_s in np.arange(0.0, 3.0, period_s):
            seen_s = moved_s(now_s - late_s)
            scan = wall_scan(2.0, now_s - late_s, 1.0)
            shifted = np.asarray(scan.ranges) - 0.01 * seen_s  # any motion changes every bit
            scan = replace(scan, ranges=tuple(shifted.tolist()))
            told = at(mps * moved_s(now_s), rps * moved_s(now_s), float(now_s))
            assert not watch.sees(scan, told), (begins_s, late_s, now_s)
