"""Values: angles, poses, cameras, velocities and the rates of a text."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.core.sensors.camera import GO2_FRONT_CAMERA, SIM_CAMERA
from outrider.core.values import Decoded, Pose2D, RoundStats, Velocity, wrap_angle


@given(st.floats(-1e4, 1e4))
def test_a_wrapped_angle_is_the_same_angle_in_half_open_range(angle):
    wrapped = wrap_angle(angle)
    assert -math.pi < wrapped <= math.pi
    assert math.isclose(math.cos(wrapped), math.cos(angle), abs_tol=1e-6)
    assert math.isclose(math.sin(wrapped), math.sin(angle), abs_tol=1e-6)


def test_bearing_and_distance():
    pose = Pose2D(1.0, 1.0, math.pi / 2)
    assert pose.bearing_to(1.0, 3.0) == pytest.approx(0.0)
    assert pose.bearing_to(0.0, 1.0) == pytest.approx(math.pi / 2), "left is positive"
    assert pose.distance_to(4.0, 5.0) == pytest.approx(5.0)


def test_a_scaled_camera_sees_the_same_field():
    assert SIM_CAMERA.horizontal_fov_rad == pytest.approx(GO2_FRONT_CAMERA.horizontal_fov_rad)
    assert math.degrees(SIM_CAMERA.horizontal_fov_rad) == pytest.approx(73.0, abs=0.3)


def test_rates_of_a_text():
    rounds = tuple(RoundStats(i, 4, 2, emitted, 0, 0, 0, 0, 0, 0, 0) for i, emitted in enumerate((3, 2)))
    text = Decoded("abcde", (1, 2, 3, 4, 5), True, 0.5, 0.1, 2, rounds)
    assert text.tokens_per_s == pytest.approx(10.0)
    assert text.tokens_per_round == pytest.approx(2.5)
    empty = Decoded("", (), False, 0.0, 0.0, 0)
    assert empty.tokens_per_s == 0.0 and empty.tokens_per_round == 0.0


@pytest.mark.parametrize(
    ("velocity", "is_above"),
    [
        (Velocity(), False),
        (Velocity(0.3, 0.3, 0.0), False),
        (Velocity(-0.4, 0.4, 0.0), True),
        (Velocity(0.0, 0.0, 0.9), False),
        (Velocity(0.0, 0.0, -1.1), True),
    ],
)
def test_a_velocity_exceeds_a_speed_in_any_direction(velocity, is_above):
    assert velocity.exceeds(0.5, 1.0) is is_above


@pytest.mark.parametrize(
    ("other", "is_beyond"),
    [
        (Pose2D(1.0, 1.0, 3.1), False),
        (Pose2D(1.3, 0.6, 3.1), False),
        (Pose2D(1.5, 1.5, 3.1), True),
        (Pose2D(1.0, 1.0, -3.1), False),
        (Pose2D(1.0, 1.0, -2.9), True),
    ],
)
def test_a_pose_is_beyond_by_distance_or_by_the_shorter_turn(other, is_beyond):
    assert Pose2D(1.0, 1.0, 3.1).is_beyond(other, 0.6, 0.2) is is_beyond
