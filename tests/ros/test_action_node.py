"""The action node over DDS: motion, deadman, stop, emergency stop, lifecycle."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from conftest import Client, NodeThread, wait_until
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import Twist
from nav_msgs.msg import Odometry as OdometryMsg
from outrider_interfaces.msg import MotionReport
from rclpy.lifecycle import TransitionCallbackReturn
from rclpy.parameter import Parameter
from rosgraph_msgs.msg import Clock
from std_msgs.msg import Bool
from std_srvs.srv import SetBool
from support_ros import FakeBase, ImpatientAction, PatientAction, Speaker, result_of
from unitree_api.msg import Request, Response

from outrider.core.errors import ConfigError, OutriderError
from outrider.core.values import Velocity
from outrider.navigation.motion.step_motions import Ending
from outrider.navigation.motion.stopping import ASTRAY
from outrider.nodes.base.action_node import IDLE_PERIOD_S, ActionNode
from outrider.nodes.common import convert, qos
from outrider.nodes.go2 import go2_api

pytestmark = pytest.mark.ros
Run = Callable[..., NodeThread]


def start(
    run_node: Run,
    client: Client,
    parameters: dict[str, Any] | None = None,
    action: type[ActionNode] = PatientAction,
) -> tuple[Any, FakeBase, Speaker]:
    """Starts the action node with a base and a navigator. Returns once all are connected."""
    node = run_node(lambda: action(parameters)).node
    base, speaker = FakeBase(client), Speaker(client)
    wait_until(lambda: node._odometry and node._scan, "odometry and scan")
    wait_until(lambda: client.node.count_publishers("motion_report"), "the reports' publisher")
    wait_until(lambda: node._reports.get_subscription_count(), "the reports' subscription")
    return node, base, speaker


def test_a_verified_action_is_driven_reported_and_ends_with_zeros(run_node: Run, client: Client) -> None:
    _, base, speaker = start(run_node, client)
    speaker.say(1, "move forward small")
    report = wait_until(lambda: base.reports, "a motion report")[0]
    assert (report.session_id, report.step, report.outcome) == ("s", 1, MotionReport.DONE), report.message
    assert base.pose.x == pytest.approx(0.25, abs=0.05)
    wait_until(lambda: [v for _, v in base.commands[-5:]] == [Velocity()] * 5, "a burst of zeros")


def test_what_gazebos_bridge_says_is_no_other_name_of_odometry(run_node: Run, client: Client) -> None:
    """The node `gazebo` republishes it after its checks; at the launch it may only be late."""
    node = run_node(ActionNode).node
    client.node.create_publisher(OdometryMsg, "gazebo/odom", qos.EVENTS)
    wait_until(lambda: node.count_publishers("gazebo/odom"), "the bridge")
    assert node.why_silent("odom", OdometryMsg) == "nobody publishes /odom: start its source"
    client.node.create_publisher(OdometryMsg, "wheels/odom", qos.EVENTS)
    wait_until(lambda: "odom:=/wheels/odom" in node.why_silent("odom", OdometryMsg), "another name")


def test_a_silent_navigator_stops_the_robot_within_the_deadman(run_node: Run, client: Client) -> None:
    _, base, speaker = start(run_node, client, action=ActionNode)
    speaker.say(1, "move forward large")
    wait_until(base.is_moving, "motion")
    silent_s = speaker.silence()
    report = wait_until(lambda: base.reports, "a motion report")[0]
    assert report.outcome == MotionReport.FAILED and "sign of life" in report.message
    assert base.stands_after(silent_s, within_s=0.6)


class SimulatedTime:
    """Publishes /clock at `pace` times real time. A pace of 0 pauses it."""

    def __init__(self, client: Client, pace: float = 1.0) -> None:
        self.time_s, self.pace = 40.0, pace
        self._publisher = client.node.create_publisher(Clock, "/clock", qos.COMMAND)
        client.node.create_timer(0.02, self._tick)

    def _tick(self) -> None:
        self.time_s += 0.02 * self.pace
        self._publisher.publish(Clock(clock=convert.time_of(self.time_s)))


def test_without_a_clock_simulated_time_is_named_and_moves_nothing(run_node: Run, client: Client) -> None:
    diagnostics = client.listen(DiagnosticArray, "/diagnostics", qos.EVENTS)
    _, base, speaker = start(run_node, client, {"use_sim_time": True}, ActionNode)
    speaker.say(1, "move forward large")
    report = wait_until(lambda: base.reports, "a motion report")[0]
    assert report.outcome == MotionReport.FAILED and "/clock" in report.message
    wait_until(lambda: diagnostics and "/clock" in diagnostics[-1].status[0].message, "the diagnosis")
    assert base.pose.x == 0.0


def test_a_simulated_clock_that_stands_still_ends_a_motion(run_node: Run, client: Client) -> None:
    """As with a simulator that hangs or is paused."""
    clock = SimulatedTime(client)
    node, base, speaker = start(run_node, client, {"use_sim_time": True}, ActionNode)
    wait_until(lambda: node.get_clock().now().nanoseconds, "the node's clock")
    speaker.stamp_s = lambda: clock.time_s
    speaker.say(1, "move forward large")
    wait_until(base.is_moving, "motion")
    clock.pace, paused_s = 0.0, time.monotonic()
    report = wait_until(lambda: base.reports, "a motion report")[0]
    assert report.outcome == MotionReport.FAILED and "stands still" in report.message
    assert base.stands_after(paused_s, within_s=1.3)


@pytest.mark.parametrize("driver", ["text", "hand"])
def test_a_clock_that_is_set_back_under_way_holds_up_no_stop(
    driver: str, run_node: Run, client: Client
) -> None:
    """As NTP may set the system clock; here the node changes to simulated time 0, the largest step back."""
    node, base, speaker = start(run_node, client, action=ActionNode)
    if driver == "text":
        speaker.say(1, "move forward large")
    ahead = convert.twist_message(Velocity(0.2))

    def is_driven() -> bool:
        if driver == "hand":
            client.publish(ahead, "cmd_vel_joy", qos.COMMAND)
        return base.is_moving()

    wait_until(is_driven, "motion")
    set_s = time.monotonic()
    assert node.set_parameters([Parameter("use_sim_time", value=True)])[0].successful
    wait_until(lambda: not base.is_moving(), "the base to stand")
    assert base.stands_after(set_s, within_s=1.3)


def test_a_node_at_rest_moves_stops_and_judges_odometry_at_once(run_node: Run, client: Client) -> None:
    node, base, speaker = start(run_node, client)
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


def test_two_publishers_of_odometry_are_named_and_move_nothing(run_node: Run, client: Client) -> None:
    node, base, speaker = start(run_node, client, action=ImpatientAction)
    other = client.node.create_publisher(OdometryMsg, "odom", qos.SENSOR)
    wait_until(lambda: "2 publishers of /odom (test_client)" in node.health()[0], "the two to be named")
    speaker.say(1, "move forward small")
    report = wait_until(lambda: base.reports, "a motion report")[0]
    assert report.outcome == MotionReport.FAILED and "publishers" in report.message and base.pose.x == 0.0
    client.node.destroy_publisher(other)
    wait_until(lambda: node.health()[0] == "", "one publisher again")


def test_odometry_that_is_no_pose_is_named_and_moves_nothing(run_node: Run, client: Client) -> None:
    node, base, speaker = start(run_node, client)
    base.alter = lambda message: setattr(message.pose.pose.orientation, "w", 0.0)
    wait_until(lambda: "quaternion" in node.health()[0], "the warning")
    speaker.say(1, "move forward small")
    report = wait_until(lambda: base.reports, "a motion report")[0]
    assert report.outcome == MotionReport.FAILED and "quaternion" in report.message and base.pose.x == 0.0


def test_texts_stamped_by_a_clock_that_is_off_are_named_and_move_nothing(
    run_node: Run, client: Client
) -> None:
    node, base, speaker = start(run_node, client)
    speaker.stamp_s = lambda: time.time() + 8.0
    speaker.say(1, "move forward small")
    report = wait_until(lambda: base.reports, "a motion report")[0]
    assert report.outcome == MotionReport.FAILED and "ahead of this clock" in report.message
    assert "ahead of this clock" in node.health()[0] and base.pose.x == 0.0


@pytest.mark.parametrize("cause", ["odometry", "link", "withdrawal", "deactivation"])
def test_the_robot_stops_when(cause: str, run_node: Run, client: Client) -> None:
    node, base, speaker = start(run_node, client, action=ActionNode)
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


def test_a_latched_emergency_stop_reaches_a_node_that_starts_later(run_node: Run, client: Client) -> None:
    client.publish(Bool(data=True), "e_stop", qos.LATCHED, wait=False)
    node, base, speaker = start(run_node, client)
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
    _, base, speaker = start(run_node, client)
    speaker.say(1, "move forward large")
    wait_until(base.is_moving, "motion")
    moment_s = time.monotonic()
    client.publish(Bool(data=True), "e_stop", qos.COMMAND)
    report = wait_until(lambda: base.reports, "a motion report")[0]
    assert report.outcome == MotionReport.EMERGENCY_STOP
    assert base.stands_after(moment_s, within_s=0.5)


def test_the_emergency_stop_is_a_service_too(run_node: Run, client: Client) -> None:
    node, base, speaker = start(run_node, client)
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


def test_the_joystick_overrides_a_motion_and_gives_the_robot_back(run_node: Run, client: Client) -> None:
    node, base, speaker = start(run_node, client)
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
    node, base, _ = start(run_node, client)
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


def test_a_base_that_moves_by_itself_is_named_until_it_stands(run_node: Run, client: Client) -> None:
    node, base, speaker = start(run_node, client)
    speaker.say(1, "turn left small")
    wait_until(lambda: base.reports, "a motion report")
    assert not node.health()[0]
    wait_until(lambda: base.drive(Velocity(0.3)) or node.health()[0] == ASTRAY, "the warning")
    wait_until(lambda: base.drive(Velocity()) or not node.health()[0], "its end")


def test_another_source_of_velocities_is_named(run_node: Run, client: Client) -> None:
    node, _, _ = start(run_node, client)
    wait_until(lambda: node.health()[0] == "", "a node that is content")
    client.node.create_publisher(Twist, "cmd_vel", qos.COMMAND)
    wait_until(lambda: "test_client publishes /cmd_vel as well" in node.health()[0], "the other to be named")


def test_the_sport_api_gets_moves_and_a_stop(run_node: Run, client: Client) -> None:
    requests = answer_everything(client)
    node, base, speaker = start(run_node, client, {"command_interface": "sport"})
    wait_until(lambda: node._base.is_ready, "a robot that stands")
    speaker.say(1, "move forward large")
    calls = lambda: [r.header.identity.api_id for r in requests]  # noqa: E731
    assert calls()[:2] == [go2_api.STAND_UP, go2_api.BALANCE_STAND]
    wait_until(lambda: calls().count(go2_api.MOVE) >= 5, "repeated Move requests")
    first = next(r for r in requests if r.header.identity.api_id == go2_api.MOVE)
    assert go2_api.velocity_of(first.parameter).vx >= 0.0
    speaker.silence()
    wait_until(lambda: calls()[-1] == go2_api.STOP_MOVE, "StopMove")
    ids = [r.header.identity.id for r in requests]
    assert len(set(ids)) == len(ids)
    assert base.commands == []


def test_a_go2_is_told_to_stand_up_once_the_emergency_stop_is_released(
    run_node: Run, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = answer_everything(client)
    node = run_node(lambda: PatientAction({"command_interface": "sport"}), start=False).node
    success = TransitionCallbackReturn.SUCCESS
    assert node.trigger_configure() is success
    node._set_e_stop(True)
    ticks, tick = [], node._base.tick

    def counted(held: bool = False) -> None:
        ticks.append(node._base._sport.is_connected())
        tick(held)

    monkeypatch.setattr(node._base, "tick", counted)
    assert node.trigger_activate() is success
    wait_until(lambda: sum(ticks) > 10, "ticks of a node that could ask")
    calls = lambda: [r.header.identity.api_id for r in requests]  # noqa: E731
    assert go2_api.STAND_UP not in calls()
    node._set_e_stop(False)
    wait_until(lambda: go2_api.STAND_UP in calls(), "the request to stand up")


def test_a_sport_service_that_falls_silent_ends_the_motion(run_node: Run, client: Client) -> None:
    silent = threading.Event()
    requests = answer_everything(client, silent)
    node, base, speaker = start(run_node, client, {"command_interface": "sport"})
    moves_by(client, base)
    wait_until(lambda: node._base.is_ready, "a robot that stands")
    speaker.say(1, "move forward large")
    wait_until(lambda: requests[-1].header.identity.api_id == go2_api.MOVE, "a Move")
    silent.set()
    report = wait_until(lambda: base.reports, "a motion report")[0]
    assert report.outcome == MotionReport.FAILED and "sport Move was not answered" in report.message
    wait_until(lambda: requests[-1].header.identity.api_id == go2_api.STOP_MOVE, "a stop after the last Move")
    count = len(requests)
    wait_until(lambda: len(requests) >= count + 3, "more requests")
    assert {r.header.identity.api_id for r in requests[count:]} == {go2_api.STOP_MOVE}
    assert "not answered" in node.health()[0] and node.health()[1]["unanswered"] > 0
    silent.clear()
    wait_until(lambda: node._base.is_ready, "trust again")


def moves_by(client: Client, base: FakeBase) -> None:
    """Makes the base obey Move requests."""

    def take(message: Request) -> None:
        if message.header.identity.api_id == go2_api.MOVE:
            base.drive(go2_api.velocity_of(message.parameter))

    client.node.create_subscription(Request, go2_api.request_topic(go2_api.SPORT), take, qos.EVENTS)


def answer_everything(client: Client, silent: threading.Event | None = None) -> list[Request]:
    """Serves sport requests with success unless `silent` is set. Returns the requests it gets."""
    topic = go2_api.response_topic(go2_api.SPORT)
    responses = client.node.create_publisher(Response, topic, qos.EVENTS)
    requests: list[Request] = []

    def take(message: Request) -> None:
        requests.append(message)
        if silent is None or not silent.is_set():
            responses.publish(go2_api.response(message, go2_api.CODE_OK))

    client.node.create_subscription(Request, go2_api.request_topic(go2_api.SPORT), take, qos.EVENTS)
    return requests


def test_the_lifecycle_can_be_walked_twice(run_node: Run, client: Client) -> None:
    node = run_node(lambda: ActionNode({"autostart": False})).node
    success = TransitionCallbackReturn.SUCCESS
    for _ in range(2):
        assert node.trigger_configure() is success and node.trigger_activate() is success
        assert node.health()[0] != "inactive"
        assert node.trigger_deactivate() is success and node.health()[0] == "inactive"
        assert node.trigger_cleanup() is success
    wait_until(lambda: not client.node.count_subscribers("verified_text"), "the end of the subscription")


def test_an_emergency_stop_outlives_a_cleanup(run_node: Run, client: Client) -> None:
    """Only a release ends it: the cause of the stop may well be the reason for the cleanup."""
    node = run_node(ActionNode).node
    node._set_e_stop(True)
    success = TransitionCallbackReturn.SUCCESS
    assert node.trigger_deactivate() is success and node.trigger_cleanup() is success
    assert node.trigger_configure() is success and node.trigger_activate() is success
    assert node.pilot.emergency and "emergency stop" in node.health()[0]


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
