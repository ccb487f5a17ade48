"""The node in front of Gazebo's base; the test plays the bridge's topics."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from conftest import Client, NodeThread, wait_until
from geometry_msgs.msg import Twist
from nav_msgs.msg import Odometry as OdometryMsg
from outrider_interfaces.msg import SimulationState
from rclpy.lifecycle import TransitionCallbackReturn
from sensor_msgs.msg import CameraInfo
from tf2_msgs.msg import TFMessage

from outrider.core.sensors.camera import SIM_CAMERA, CameraModel
from outrider.core.values import Odometry, Pose2D, Velocity
from outrider.nodes.common import convert, qos
from outrider.nodes.simulation.gazebo_node import GazeboNode
from outrider.nodes.simulation.gazebo_watchdog_node import GazeboWatchdogNode
from outrider.runtime.processes.ros_env import ros_environment
from outrider.simulation.homes.home import generate_home
from outrider.simulation.homes.vocabulary import ObjectSpec

pytestmark = pytest.mark.ros
Run = Callable[..., NodeThread]


def move_base(client: Client, told: list[Twist], command: Twist) -> None:
    """Plays the watchdog and commands a velocity until the base is told to move."""

    def moves() -> bool:
        client.publish(Twist(), "gazebo/cmd_vel", qos.COMMAND)
        client.publish(command, "cmd_vel", qos.COMMAND)
        time.sleep(0.02)
        return any(twist.linear.x for twist in told)

    wait_until(moves, "motion")


def test_velocities_pass_clamped_and_end_with_silence(run_node: Run, client: Client) -> None:
    told = client.listen(Twist, "gazebo/cmd_vel", qos.COMMAND)
    run_node(lambda: GazeboNode({"seed": 3}))
    command = convert.twist_message(Velocity(0.3, 0.0, 99.0))
    move_base(client, told, command)
    assert next(t for t in told if t.linear.x).angular.z == pytest.approx(1.5)
    wait_until(lambda: told[-1].linear.x == told[-1].angular.z == 0.0, "the deadman")


def test_gazebos_odometry_becomes_transform_and_truth(run_node: Run, client: Client) -> None:
    transforms = client.listen(TFMessage, "/tf", qos.EVENTS)
    odometries = client.listen(OdometryMsg, "odom", qos.EVENTS)
    states = client.listen(SimulationState, "simulation_state", qos.EVENTS)
    node = run_node(lambda: GazeboNode({"seed": 3, "placement": "in_view", "holds": "red chair"})).node
    assert "bridge" in node.health()[0]
    for x in (1.0, 1.5):
        odometry = Odometry(Pose2D(x, 2.0, 0.5), Velocity(), 0.0)
        client.publish(convert.odometry_message(odometry, convert.time_of(x)), "gazebo/odom", qos.EVENTS)
    state = wait_until(lambda: next((s for s in states if s.path_m > 0.4), None), "the truth")
    home = generate_home(3, ObjectSpec("chair", "red"), "in_view")
    assert (state.seed, state.placement, state.target) == (3, "in_view", "red chair")
    assert (state.target_x, state.target_y) == pytest.approx((home.target.x, home.target.y))
    assert convert.pose_of(state.pose) == Pose2D(1.5, 2.0, pytest.approx(0.5))
    assert state.path_m == pytest.approx(0.5) and "gazebo_watchdog" in node.health()[0]
    run_node(GazeboWatchdogNode)
    wait_until(lambda: node.health()[0] == "", "the watchdog")
    wait_until(lambda: len(odometries) >= 2 and len(transforms) >= 2, "odometry and transforms")
    moved = transforms[-1].transforms[0]
    assert (moved.header.frame_id, moved.child_frame_id) == ("odom", "base_link")
    place = odometries[-1].pose.pose.position
    assert (place.x, place.z) == (moved.transform.translation.x, moved.transform.translation.z)
    assert place.x == pytest.approx(1.5)


def test_what_touches_a_wall_in_gazebo_is_a_collision(run_node: Run, client: Client) -> None:
    states = client.listen(SimulationState, "simulation_state", qos.EVENTS)
    run_node(lambda: GazeboNode({"seed": 3}))
    home = generate_home(3, None)
    wall = min(home.walls, key=lambda rect: rect.x1)
    free, touching = Pose2D(home.start.x, home.start.y, 0.0), Pose2D(wall.x1, home.start.y, 0.0)
    for number, pose in enumerate((free, touching)):
        message = convert.odometry_message(Odometry(pose, Velocity(), 0.0), convert.time_of(1.0 + number))
        client.publish(message, "gazebo/odom", qos.EVENTS)
    wait_until(lambda: states and states[-1].collisions == 1, "the collision")


def test_camera_info_is_our_own_with_the_stamp_of_gazebos(run_node: Run, client: Client) -> None:
    infos = client.listen(CameraInfo, "camera/camera_info", qos.SENSOR)
    run_node(lambda: GazeboNode({"seed": 3}))
    lying = convert.camera_info_message(CameraModel(504, 280, 277.0), convert.time_of(7.25), "camera")

    def heard() -> bool:
        client.publish(lying, "gazebo/camera_info", qos.SENSOR)
        time.sleep(0.02)
        return bool(infos)

    wait_until(heard, "a description of the camera")
    expected = convert.camera_info_message(SIM_CAMERA, convert.time_of(7.25), "camera")
    assert infos[0] == expected and infos[0].k[0] != lying.k[0]


def test_a_node_that_ends_leaves_the_base_standing(run_node: Run, client: Client) -> None:
    told = client.listen(Twist, "gazebo/cmd_vel", qos.COMMAND)
    thread = run_node(lambda: GazeboNode({"seed": 3}))
    move_base(client, told, convert.twist_message(Velocity(0.3)))
    thread.stop()
    wait_until(lambda: told[-1].linear.x == 0.0, "the last word")


def test_a_node_that_was_cleaned_up_can_still_be_shut_down(run_node: Run, client: Client) -> None:
    node = run_node(lambda: GazeboNode({"seed": 3}), start=False).node
    done = TransitionCallbackReturn.SUCCESS
    for trigger in (node.trigger_configure, node.trigger_cleanup, node.trigger_shutdown):
        assert trigger() is done, node.failure


def test_the_base_is_told_to_stand_when_the_deadman_s_process_is_killed(
    run_node: Run, client: Client
) -> None:
    told: list[tuple[float, float]] = []
    client.node.create_subscription(
        Twist, "gazebo/cmd_vel", lambda m: told.append((time.monotonic(), m.linear.x)), qos.COMMAND
    )
    run_node(GazeboWatchdogNode)
    command = [sys.executable, "-m", "outrider.nodes.simulation.gazebo_node"]
    with subprocess.Popen(command, env=ros_environment()) as deadman:
        try:
            forward = convert.twist_message(Velocity(0.3))

            def moves() -> bool:
                client.publish(forward, "cmd_vel", qos.COMMAND)
                time.sleep(0.02)
                return bool(told) and [x for _, x in told[-8:]] == [pytest.approx(0.3)] * 8

            wait_until(moves, "a base that moves, with no stop in between", timeout_s=60.0)
        finally:
            deadman.kill()
        killed_s = time.monotonic()
    wait_until(lambda: told[-1][1] == 0.0, "a base that stands")
    # The bound allows for the load of this machine; the watchdog's own is a third of it.
    assert [s for s, x in told if x][-1] - killed_s < 0.5


def test_a_watchdog_that_ends_leaves_the_deadman_its_base(run_node: Run, client: Client) -> None:
    told = client.listen(Twist, "gazebo/cmd_vel", qos.COMMAND)
    watchdog = run_node(GazeboWatchdogNode)
    deadman = run_node(lambda: GazeboNode({"seed": 3})).node
    wait_until(lambda: deadman._is_watched and told, "a deadman that heard it")
    watchdog.stop()
    seen = len(told)
    wait_until(lambda: len(told) > seen + 5, "the deadman's own")


def test_the_base_is_told_nothing_before_its_watchdog_works(run_node: Run, client: Client) -> None:
    told = client.listen(Twist, "gazebo/cmd_vel", qos.COMMAND)
    thread = run_node(lambda: GazeboNode({"seed": 3}))
    odometry = Odometry(Pose2D(1.0, 2.0, 0.5), Velocity(), 0.0)
    message = convert.odometry_message(odometry, convert.time_of(1.0))

    def is_named() -> bool:
        client.publish(message, "gazebo/odom", qos.EVENTS)
        client.publish(convert.twist_message(Velocity(0.3)), "cmd_vel", qos.COMMAND)
        time.sleep(0.02)
        return "gazebo_watchdog" in thread.node.health()[0]

    wait_until(is_named, "the missing watchdog is named")
    thread.stop()
    assert told == []
    run_node(lambda: GazeboNode({"seed": 3}))
    run_node(GazeboWatchdogNode)

    def moves() -> bool:
        client.publish(convert.twist_message(Velocity(0.3)), "cmd_vel", qos.COMMAND)
        time.sleep(0.02)
        return any(twist.linear.x for twist in told)

    wait_until(moves, "a base that moves once it is watched")
