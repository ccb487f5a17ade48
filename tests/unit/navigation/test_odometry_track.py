"""Where the robot was at the moment of a picture."""

from __future__ import annotations

import math

import pytest

from outrider.core.values import Odometry, Pose2D, Velocity
from outrider.navigation.sensing.odometry_track import KEPT, OdometryTrack


def at(time_s: float, x: float, yaw: float = 0.0) -> Odometry:
    return Odometry(Pose2D(x, 0.0, yaw), Velocity(), time_s)


def test_between_two_measurements_the_robot_moves_evenly_and_turns_the_short_way() -> None:
    track = OdometryTrack()
    track.take(at(10.0, 1.0, math.pi - 0.1))
    track.take(at(10.2, 2.0, -math.pi + 0.1))
    pose = track.pose_at(10.05)
    assert pose is not None and pose.x == pytest.approx(1.25) and pose.yaw == pytest.approx(math.pi - 0.05)
    for time_s in (10.2, 10.25):
        last = track.pose_at(time_s)
        assert last is not None and (last.x, last.yaw) == pytest.approx((2.0, -math.pi + 0.1))


@pytest.mark.parametrize("time_s", [9.8, 10.5, 12.0])
def test_a_time_that_no_measurement_is_near_has_no_pose(time_s: float) -> None:
    track = OdometryTrack()
    assert track.pose_at(10.0) is None
    for one in (at(10.0, 1.0), at(11.0, 2.0)):
        track.take(one)
    assert track.pose_at(time_s) is None


def test_a_fast_source_is_thinned_out_and_old_measurements_go() -> None:
    track = OdometryTrack()
    for tick in range(4 * KEPT):
        track.take(at(0.0025 * tick, float(tick)))
    assert track.pose_at(8.0) is not None and len(track._track) <= KEPT
    for tick in range(KEPT):
        track.take(at(100.0 + 0.02 * tick, 0.0))
    assert track.pose_at(8.0) is None


def test_a_clock_that_went_back_begins_a_new_track() -> None:
    track = OdometryTrack()
    track.take(at(100.0, 1.0))
    track.take(at(5.0, 2.0))
    assert track.pose_at(100.0) is None and track.pose_at(5.0) == Pose2D(2.0, 0.0, 0.0)
