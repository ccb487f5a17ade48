"""The action node over DDS: motion, deadman, odometry, lifecycle and parameters."""

from __future__ import annotations

import time

import pytest
from conftest import Client, wait_until
from geometry_msgs.msg import Twist
from nav_msgs.msg import Odometry as OdometryMsg
from outrider_interfaces.msg import MotionReport
from rclpy.lifecycle import TransitionCallbackReturn
from std_msgs.msg import Bool
from support_ros import ImpatientAction, Run, start_action

from outrider.core.errors import ConfigError, OutriderError
from outrider.core.values import Velocity
from outrider.navigation.motion.stopping import ASTRAY
from outrider.nodes.base.action_node import IDLE_PERIOD_S, ActionNode
from outrider.nodes.common import qos

pytestmark = pytest.mark.ros


def test_a_verified_action_is_driven_reported_and_ends_with_zeros(run_node: Run, client: Client) -> None:
    _, base, speaker = start_action(run_node, client)
    speaker.say(1, "move forward small")
    report = wait_until(lambda: base.reports, "a motion report")[0]
    assert (report.session_id, report.step, report.outcome) == ("s", 1, MotionReport.DONE), report.message
    assert base.pose.x == pytest.approx(0.25, abs=0.05)
    wait_until(lambda: [v for _, v in base.commands[-5:]] == [Velocity()] * 5, "a burst of zeros")


def test_a_silent_navigator_stops_the_robot_within_the_deadman(run_node: Run, client: Client) -> None:
    _, base, speaker = start_action(run_node, client, action=ActionNode)
    speaker.say(1, "move forward large")
    wait_until(base.is_moving, "motion")
    silent_s = speaker.silence()
    report = wait_until(lambda: base.reports, "a motion report")[0]
    assert report.outcome == MotionReport.FAILED and "sign of life" in report.message
    assert base.stands_after(silent_s, within_s=0.6)


@pytest.mark.parametrize("cause", ["odometry", "link", "withdrawal", "deactivation"])
def test_the_robot_stops_when(cause: str, run_node: Run, client: Client) -> None:
    node, base, speaker = start_action(run_node, client, action=ActionNode)
    speaker.say(1, "move forward large")
    wait_until(base.is_moving, "motion")
    moment_s = time.monotonic()
    if cause == "odometry":
        base.odometry_on = False
    elif cause == "link":
        speaker.say(1, "move forward large", link_state="lost")
    elif cause == "withdrawal":
        speaker.silence()
        speaker.say(2, "wander off")
    else:
        assert node.trigger_deactivate() is TransitionCallbackReturn.SUCCESS
    report = wait_until(lambda: base.reports, "a motion report")[0]
    assert report.outcome != MotionReport.DONE
    wait_until(lambda: not base.is_moving(), "a stop")
    assert base.stands_after(moment_s, within_s=0.8)


def test_a_node_at_rest_moves_stops_and_judges_odometry_at_once(run_node: Run, client: Client) -> None:
    node, base, speaker = start_action(run_node, client)
    wait_until(lambda: node._ticking[0].timer_period_ns == IDLE_PERIOD_S * 1e9, "rest")
    said_s = time.monotonic()
    speaker.say(1, "move forward large")
    wait_until(base.is_moving, "motion")
    assert time.monotonic() - said_s < 0.5
    client.publish(Bool(data=True), "e_stop", qos.EVENTS)
    stopped_s = time.monotonic()
    report = wait_until(lambda: base.reports, "a motion report")[0]
    assert report.outcome == MotionReport.EMERGENCY_STOP and base.stands_after(stopped_s, within_s=0.3)
    speaker.silence()
    wait_until(lambda: node._ticking[0].timer_period_ns == IDLE_PERIOD_S * 1e9, "rest again")
    base.alter = lambda message: setattr(message.pose.pose.orientation, "w", 0.0)
    altered_s = time.monotonic()
    wait_until(lambda: "quaternion" in node._odometry_fault, "the fault")
    assert time.monotonic() - altered_s < 1.0


def test_what_gazebos_bridge_says_is_no_other_name_of_odometry(run_node: Run, client: Client) -> None:
    """The node `gazebo` republishes it after its checks; at the launch it may only be late."""
    node = run_node(ActionNode).node
    client.node.create_publisher(OdometryMsg, "gazebo/odom", qos.EVENTS)
    wait_until(lambda: node.count_publishers("gazebo/odom"), "the bridge")
    assert node.why_silent("odom", OdometryMsg) == "nobody publishes /odom: start its source"
    client.node.create_publisher(OdometryMsg, "wheels/odom", qos.EVENTS)
    wait_until(lambda: "odom:=/wheels/odom" in node.why_silent("odom", OdometryMsg), "another name")


def test_two_publishers_of_odometry_are_named_and_move_nothing(run_node: Run, client: Client) -> None:
    node, base, speaker = start_action(run_node, client, action=ImpatientAction)
    other = client.node.create_publisher(OdometryMsg, "odom", qos.SENSOR)
    wait_until(lambda: "2 publishers of /odom (test_client)" in node.health()[0], "the two to be named")
    speaker.say(1, "move forward small")
    report = wait_until(lambda: base.reports, "a motion report")[0]
    assert report.outcome == MotionReport.FAILED and "publishers" in report.message and base.pose.x == 0.0
    client.node.destroy_publisher(other)
    wait_until(lambda: node.health()[0] == "", "one publisher again")


def test_odometry_that_is_no_pose_is_named_and_moves_nothing(run_node: Run, client: Client) -> None:
    node, base, speaker = start_action(run_node, client)
    base.alter = lambda message: setattr(message.pose.pose.orientation, "w", 0.0)
    wait_until(lambda: "quaternion" in node.health()[0], "the warning")
    speaker.say(1, "move forward small")
    report = wait_until(lambda: base.reports, "a motion report")[0]
    assert report.outcome == MotionReport.FAILED and "quaternion" in report.message and base.pose.x == 0.0


def test_a_base_that_moves_by_itself_is_named_until_it_stands(run_node: Run, client: Client) -> None:
    node, base, speaker = start_action(run_node, client)
    speaker.say(1, "turn left small")
    wait_until(lambda: base.reports, "a motion report")
    assert not node.health()[0]
    wait_until(lambda: base.drive(Velocity(0.3)) or node.health()[0] == ASTRAY, "the warning")
    wait_until(lambda: base.drive(Velocity()) or not node.health()[0], "its end")


def test_another_source_of_velocities_is_named(run_node: Run, client: Client) -> None:
    node, _, _ = start_action(run_node, client)
    wait_until(lambda: node.health()[0] == "", "a node that is content")
    client.node.create_publisher(Twist, "cmd_vel", qos.COMMAND)
    wait_until(lambda: "test_client publishes /cmd_vel as well" in node.health()[0], "the other to be named")


def test_the_lifecycle_can_be_walked_twice(run_node: Run, client: Client) -> None:
    node = run_node(lambda: ActionNode({"autostart": False})).node
    success = TransitionCallbackReturn.SUCCESS
    for _ in range(2):
        assert node.trigger_configure() is success and node.trigger_activate() is success
        assert node.health()[0] != "inactive"
        assert node.trigger_deactivate() is success and node.health()[0] == "inactive"
        assert node.trigger_cleanup() is success
    wait_until(lambda: not client.node.count_subscribers("verified_text"), "the end of the subscription")


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"speed": 3.0}, ("unknown parameter speed", "rate_hz")),
        ({"rate_hz": 500.0}, ("rate_hz=500.0", "20.0", "50.0")),
        ({"use_scan": "yes"}, ("use_scan='yes'", "bool")),
        ({"command_interface": "telepathy"}, ("telepathy", "twist")),
    ],
)
def test_wrong_parameters_are_named(parameters: dict[str, object], words: tuple[str, ...], ros: None) -> None:
    with pytest.raises(ConfigError) as raised:
        ActionNode(parameters)  # type: ignore[arg-type]
    assert all(word in str(raised.value) for word in words)


def test_the_robot_s_avoidance_needs_the_sport_interface(ros: None) -> None:
    node = ActionNode({"robot_avoidance": True})
    with pytest.raises(OutriderError, match="robot_avoidance=true needs command_interface=sport"):
        node.start()
    node.destroy_node()


def test_declared_parameters_carry_descriptions_and_ranges(run_node: Run) -> None:
    node = run_node(ActionNode).node
    for parameter in node.spec.parameters:
        descriptor = node.describe_parameter(parameter.name)
        assert descriptor.description
    assert node.describe_parameter("rate_hz").floating_point_range[0].to_value == 50.0
    assert node.describe_parameter("max_forward_mps").read_only
