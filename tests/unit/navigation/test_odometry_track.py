"""Where the robot was when a picture was taken."""

from __future__ import annotations

import math

import pytest

from outrider.core.values import Odometry, Pose2D, Velocity
from outrider.navigation.sensing.odometry_track import KEPT, OdometryTrack, Speedometer


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


def test_a_velocity_is_that_of_the_poses_in_the_robots_own_frame() -> None:
    speed = Speedometer(0.1)
    for number in range(20):
        time_s = number * 0.002
        velocity = speed.velocity(Pose2D(0.0, 0.5 * time_s, math.pi / 2), time_s)
    assert (velocity.vx, velocity.vy, velocity.wz) == pytest.approx((0.5, 0.0, 0.0), abs=1e-9)
    assert speed.velocity(Pose2D(9.0, 9.0, 0.0), 1000.0) == Velocity(), "a gap is no motion"


def test_a_clock_that_is_coarser_than_the_poses_hides_no_motion() -> None:
    speed = Speedometer(0.2)
    for number in range(100):
        at_s = 0.02 * number
        velocity = speed.velocity(Pose2D(0.3 * at_s, 0.0, 0.0), math.floor(at_s / 0.05) * 0.05)
        if at_s > 0.3:
            assert 0.2 < velocity.vx < 0.45
