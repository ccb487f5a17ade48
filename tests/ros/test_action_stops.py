"""The action node's emergency stop, and persons who drive by hand."""

from __future__ import annotations

import time

import pytest
from conftest import Client, wait_until
from geometry_msgs.msg import Twist
from outrider_interfaces.msg import MotionReport
from rclpy.lifecycle import TransitionCallbackReturn
from std_msgs.msg import Bool
from std_srvs.srv import SetBool
from support_ros import Run, result_of, start_action

from outrider.core.values import Velocity
from outrider.navigation.motion.step_motions import Ending
from outrider.nodes.base.action_node import ActionNode
from outrider.nodes.common import convert, qos

pytestmark = pytest.mark.ros


def test_a_latched_emergency_stop_reaches_a_node_that_starts_later(run_node: Run, client: Client) -> None:
    client.publish(Bool(data=True), "e_stop", qos.LATCHED, wait=False)
    node, base, speaker = start_action(run_node, client)
    wait_until(lambda: node.pilot.emergency, "the latched emergency stop")
    speaker.say(1, "move forward small")
    report = wait_until(lambda: base.reports, "a motion report")[0]
    assert report.outcome == MotionReport.EMERGENCY_STOP and base.pose.x == 0.0


def test_a_latched_release_undoes_no_stop_and_a_live_one_does(run_node: Run, client: Client) -> None:
    node = run_node(ActionNode).node
    client.publish(Bool(data=True), "e_stop", qos.COMMAND)
    wait_until(lambda: node.pilot.emergency, "the emergency stop")
    node._on_sure_e_stop(Bool(data=False), {})
    assert node.pilot.emergency
    client.publish(Bool(data=False), "e_stop", qos.COMMAND)
    wait_until(lambda: not node.pilot.emergency, "the release")


def test_a_plain_emergency_stop_ends_a_motion(run_node: Run, client: Client) -> None:
    _, base, speaker = start_action(run_node, client)
    speaker.say(1, "move forward large")
    wait_until(base.is_moving, "motion")
    moment_s = time.monotonic()
    client.publish(Bool(data=True), "e_stop", qos.COMMAND)
    report = wait_until(lambda: base.reports, "a motion report")[0]
    assert report.outcome == MotionReport.EMERGENCY_STOP
    assert base.stands_after(moment_s, within_s=0.5)


def test_the_emergency_stop_is_a_service_too(run_node: Run, client: Client) -> None:
    node, base, speaker = start_action(run_node, client)
    service = client.node.create_client(SetBool, "set_e_stop")
    wait_until(service.service_is_ready, "the service")
    speaker.say(1, "move forward large")
    wait_until(base.is_moving, "motion")
    answer = result_of(service.call_async(SetBool.Request(data=True)))
    assert answer.success and "engaged" in answer.message and node.pilot.emergency
    report = wait_until(lambda: base.reports, "a motion report")[0]
    assert report.outcome == MotionReport.EMERGENCY_STOP
    assert "released" in result_of(service.call_async(SetBool.Request(data=False))).message
    speaker.say(2, "turn left small")
    wait_until(base.is_moving, "a motion after the release")


def test_an_emergency_stop_outlives_a_cleanup(run_node: Run, client: Client) -> None:
    """Only a release ends it: the cause of the stop may well be the reason for the cleanup."""
    node = run_node(ActionNode).node
    node._set_e_stop(True)
    success = TransitionCallbackReturn.SUCCESS
    assert node.trigger_deactivate() is success and node.trigger_cleanup() is success
    assert node.trigger_configure() is success and node.trigger_activate() is success
    assert node.pilot.emergency and "emergency stop" in node.health()[0]


def test_the_joystick_overrides_a_motion_and_gives_the_robot_back(run_node: Run, client: Client) -> None:
    node, base, speaker = start_action(run_node, client)
    speaker.say(1, "move forward large")
    wait_until(base.is_moving, "motion")
    back = convert.twist_message(Velocity(-0.2))

    def drive_back() -> bool:
        client.publish(back, "cmd_vel_joy", qos.COMMAND)
        is_told = bool(base.reports) and "by hand on cmd_vel_joy" in node.health()[0]
        return is_told and base.commands[-1][1] == Velocity(-0.2)

    wait_until(drive_back, "the joystick's velocity")
    assert base.reports[0].outcome == Ending.OVERRIDDEN.value
    wait_until(lambda: not base.is_moving(), "a stop once the joystick is silent")
    speaker.say(2, "turn left small")
    report = wait_until(lambda: base.reports[1:], "another report")[0]
    assert (report.step, report.outcome) == (2, MotionReport.DONE), report.message


@pytest.mark.parametrize("other_topic", ["cmd_vel_console", "cmd_vel_joy"])
def test_two_drivers_at_once_are_noticed_and_the_robot_stands(
    run_node: Run, client: Client, other_topic: str
) -> None:
    node, base, _ = start_action(run_node, client)
    other = client.node.create_publisher(Twist, other_topic, qos.COMMAND)

    def drive(by_both: bool) -> None:
        client.publish(convert.twist_message(Velocity(0.2)), "cmd_vel_joy", qos.COMMAND)
        if by_both:
            other.publish(convert.twist_message(Velocity(-0.2)))

    def stands_for_two() -> bool:
        drive(by_both=True)
        return "two drivers" in node.health()[0] and "cmd_vel_joy" in node.health()[0]

    wait_until(stands_for_two, "the second driver to be noticed")
    from_here = len(base.commands)

    def only_zeros() -> bool:
        latest = base.commands[from_here:][-5:]
        return stands_for_two() and len(latest) == 5 and {velocity for _, velocity in latest} == {Velocity()}

    wait_until(only_zeros, "a robot that stands for two drivers")
    client.node.destroy_publisher(other)

    def moves_for_one() -> bool:
        drive(by_both=False)
        return bool(base.commands[-1][1] == Velocity(0.2))

    wait_until(moves_for_one, "the one that is left to drive")
