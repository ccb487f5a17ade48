"""Odometry, mode and battery from the Go2's own topics."""

from __future__ import annotations

import math
import time
from array import array
from collections.abc import Callable
from typing import Any

import pytest
from conftest import Client, NodeThread, wait_until
from nav_msgs.msg import Odometry as OdometryMsg
from sensor_msgs.msg import BatteryState
from tf2_msgs.msg import TFMessage

from outrider.core.values import Odometry, Pose2D, Velocity
from outrider.nodes.common import convert, qos
from outrider.nodes.go2.go2_condition import LOW_STATE_TOPIC, STATE_TOPIC
from outrider.nodes.go2.go2_state_node import Go2StateNode, sample_of

unitree_go = pytest.importorskip("unitree_go.msg")

from outrider.nodes.go2.simulated_go2 import state_message  # noqa: E402

pytestmark = pytest.mark.ros
Run = Callable[..., NodeThread]
ROBOT_S = 77.0


def state(number: int, pose: Pose2D, velocity: Velocity) -> Any:
    """Returns the state of a robot that was switched on ROBOT_S ago; later ones have a higher `number`."""
    return state_message(unitree_go.SportModeState, Odometry(pose, velocity, ROBOT_S + 0.05 * number))


@pytest.mark.parametrize("yaw_deg", [0.0, 30.0, -90.0, 170.0])
def test_the_quaternion_is_ordered_w_x_y_z(yaw_deg: float) -> None:
    message = unitree_go.SportModeState(position=array("f", (1.0, -2.0, 0.3)))
    half = math.radians(yaw_deg) / 2.0
    message.imu_state.quaternion = array("f", (math.cos(half), 0.0, 0.0, math.sin(half)))
    pose = sample_of(message).pose
    assert (pose.x, pose.y) == (1.0, -2.0) and math.degrees(pose.yaw) == pytest.approx(yaw_deg, abs=1e-3)


def test_a_leaning_robot_has_the_same_yaw() -> None:
    message = unitree_go.SportModeState()
    yaw, pitch = math.radians(40.0) / 2.0, math.radians(15.0) / 2.0
    parts = (
        math.cos(yaw) * math.cos(pitch),
        -math.sin(yaw) * math.sin(pitch),
        math.cos(yaw) * math.sin(pitch),
        math.sin(yaw) * math.cos(pitch),
    )
    message.imu_state.quaternion = array("f", parts)
    assert math.degrees(sample_of(message).pose.yaw) == pytest.approx(40.0, abs=1e-3)


def test_odometry_and_tf_are_stamped_by_the_clock_of_this_computer(run_node: Run, client: Client) -> None:
    odometries: list[OdometryMsg] = client.listen(OdometryMsg, "odom", qos.EVENTS)
    transforms: list[TFMessage] = client.listen(TFMessage, "/tf", qos.EVENTS)
    node = run_node(lambda: Go2StateNode({"odometry_source": "sportmodestate"})).node
    wait_until(lambda: node.count_subscribers("odom") and node.count_subscribers("/tf"), "subscriptions")
    pose = Pose2D(1.5, -0.5, math.radians(30.0))

    def heard() -> bool:
        heard.number += 1  # type: ignore[attr-defined]
        client.publish(state(heard.number, pose, Velocity()), STATE_TOPIC, qos.EVENTS)  # type: ignore[attr-defined]
        return bool(odometries and transforms)

    heard.number = 0  # type: ignore[attr-defined]
    wait_until(heard, "odometry")
    message = odometries[0]
    now_s = node.get_clock().now().nanoseconds * 1e-9
    assert 0.0 <= now_s - convert.seconds_of(message.header.stamp) < 30.0
    assert (message.header.frame_id, message.child_frame_id) == ("odom", "base_link")
    got = convert.pose_of(message.pose.pose)
    assert (got.x, got.y, got.yaw) == pytest.approx((pose.x, pose.y, pose.yaw), abs=1e-6)
    assert transforms[0].transforms[0].child_frame_id == "base_link"
    assert node.health()[1]["mode"] == "balance stand"


@pytest.mark.parametrize("fixed", [False, True])
def test_map_to_odom_is_left_to_slam_unless_asked_for(fixed: bool, run_node: Run, client: Client) -> None:
    transforms: list[TFMessage] = client.listen(TFMessage, "/tf_static", qos.LATCHED)
    settings = {"odometry_source": "sportmodestate", "map_to_odom": fixed, "frame_prefix": "go2/"}
    run_node(lambda: Go2StateNode(settings))
    wait_until(lambda: transforms, "the fixed transforms")
    edges = {(t.header.frame_id, t.child_frame_id) for t in transforms[0].transforms}
    camera = {("go2/base_link", "go2/camera_link"), ("go2/camera_link", "go2/camera_optical_frame")}
    assert edges == camera | ({("go2/map", "go2/odom")} if fixed else set())


def test_odometry_and_tf_agree_and_errors_are_stated() -> None:
    odometry = Odometry(Pose2D(1.0, -2.0, 0.5), Velocity(0.3), 0.0)
    message = convert.odometry_message(odometry, convert.time_of(7.0), "go2/")
    base = convert.base_transform(odometry.pose, convert.time_of(7.0), "go2/")
    assert (message.header, message.child_frame_id) == (base.header, base.child_frame_id)
    place, moved = message.pose.pose.position, base.transform.translation
    assert (place.x, place.y, place.z) == (moved.x, moved.y, moved.z) and moved.z > 0.0
    assert message.pose.pose.orientation == base.transform.rotation
    for covariance in (message.pose.covariance, message.twist.covariance):
        diagonal = [covariance[7 * i] for i in range(6)]
        assert all(0.0 < variance < 0.1 for variance in diagonal)
        assert sum(covariance) == pytest.approx(sum(diagonal)), "errors are independent"


def test_a_frozen_state_goes_no_further(run_node: Run, client: Client) -> None:
    odometries: list[OdometryMsg] = client.listen(OdometryMsg, "odom", qos.EVENTS)
    node = run_node(lambda: Go2StateNode({"odometry_source": "sportmodestate"})).node
    wait_until(lambda: node.count_subscribers("odom"), "the subscription")
    frozen = state(1, Pose2D(0.0, 0.0, 0.0), Velocity())

    def warned() -> bool:
        client.publish(frozen, STATE_TOPIC, qos.EVENTS)
        return bool(odometries) and STATE_TOPIC in node.health()[0]

    wait_until(warned, "the warning")
    assert len(odometries) == 1


def test_odometry_comes_less_often_while_the_robot_stands(run_node: Run, client: Client) -> None:
    odometries: list[OdometryMsg] = client.listen(OdometryMsg, "odom", qos.EVENTS)
    node = run_node(lambda: Go2StateNode({"odometry_source": "sportmodestate"})).node
    wait_until(lambda: node.count_subscribers("odom"), "the subscription")
    x = 0.0

    def rate_hz(speed_mps: float) -> float:
        nonlocal x
        began_s, before = time.monotonic(), len(odometries)
        while time.monotonic() - began_s < 2.0:
            time.sleep(0.005)
            stamp_s, moved_m = time.monotonic(), speed_mps * (time.monotonic() - began_s)
            odometry = Odometry(Pose2D(x + moved_m, 0.0, 0.0), Velocity(speed_mps), stamp_s)
            client.publish(state_message(unitree_go.SportModeState, odometry), STATE_TOPIC, qos.EVENTS)
        x += moved_m
        return (len(odometries) - before) / (time.monotonic() - began_s)

    standing_hz = rate_hz(0.0)
    assert 5.0 < standing_hz < 20.0
    assert rate_hz(0.5) > 1.5 * standing_hz


def test_a_state_that_is_no_pose_goes_no_further_and_says_why(run_node: Run, client: Client) -> None:
    """As from an IMU that is not ready, a state of zeros, and a position estimate that jumps."""
    odometries: list[OdometryMsg] = client.listen(OdometryMsg, "odom", qos.EVENTS)
    node = run_node(lambda: Go2StateNode({"odometry_source": "sportmodestate"})).node
    wait_until(lambda: node.count_subscribers("odom"), "the subscription")
    number = 0

    def publish(pose: Pose2D, quaternion: tuple[float, ...] = ()) -> None:
        nonlocal number
        number += 1
        message = state(number, pose, Velocity())
        if quaternion:
            message.imu_state.quaternion = array("f", quaternion)
        client.publish(message, STATE_TOPIC, qos.EVENTS)

    def warns(words: str, *of: Any) -> bool:
        publish(*of)
        return words in node.health()[0]

    here = Pose2D(0.0, 0.0, 0.0)
    for quaternion, words in (
        ((0.0, 0.0, 0.0, 0.0), "norm 0.00"),
        ((math.nan, 0.0, 0.0, 0.0), "not a number"),
        ((0.0, 0.0, 0.0, 1.2), "norm 1.20"),
        ((0.0, 0.0, 1.0, 0.0), "tilted"),
    ):
        wait_until(lambda: warns(words, here, quaternion), words)  # noqa: B023
        assert not odometries

    def heard() -> bool:
        publish(here)
        time.sleep(0.05)
        return bool(odometries)

    wait_until(heard, "odometry once the state is a pose")
    wait_until(lambda: warns("jumped", Pose2D(2.0 + number % 2, 0.0, 0.0)), "the jump to be named")
    count = len(odometries)
    for _ in range(10):
        publish(Pose2D(2.0, 0.0, 0.0))
    assert len(odometries) == count


def test_the_battery_and_another_source_of_odometry(run_node: Run, client: Client) -> None:
    batteries: list[BatteryState] = client.listen(BatteryState, "battery_state", qos.EVENTS)
    node = run_node(lambda: Go2StateNode({"odometry_source": "topic"})).node
    assert client.node.count_publishers("odom") == 0
    low = unitree_go.LowState(power_v=29.4)
    low.bms_state.soc, low.bms_state.current = 9, -2500

    def told() -> bool:
        client.publish(low, LOW_STATE_TOPIC, qos.EVENTS)
        return bool(batteries)

    wait_until(told, "the battery's state")
    assert batteries[0].percentage == pytest.approx(0.09) and batteries[0].current == pytest.approx(-2.5)
    unmeasured = (batteries[0].temperature, batteries[0].charge, batteries[0].capacity)
    assert all(map(math.isnan, (*unmeasured, batteries[0].design_capacity)))
    assert "9 percent" in node.health()[0] and node.health()[1]["mode"] == "unknown"
