"""What keeps a Go2 from moving: the reason is named, and no request but a stop is sent meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from conftest import Client, NodeThread, wait_until
from diagnostic_msgs.msg import DiagnosticArray
from outrider_interfaces.msg import MotionReport
from std_msgs.msg import Bool
from support_ros import FakeBase, ImpatientAction, PatientAction, Speaker
from test_go2_command import AHEAD, PERIOD_S, Robot, standing
from unitree_api.msg import Request, Response

from outrider.core.values import Velocity
from outrider.nodes.common import qos
from outrider.nodes.go2 import go2_api
from outrider.nodes.go2.go2_condition import (
    LOW_STATE_TOPIC,
    OTHER_PROGRAM_S,
    SLOW_STATE_TOPIC,
    STATE_TOPIC,
    Go2Condition,
    battery_warning,
    mode_name,
    posture_fault,
)

unitree_go = pytest.importorskip("unitree_go.msg")

pytestmark = pytest.mark.ros
Run = Callable[..., NodeThread]
IDLE, LOCKED, DAMPED = 0, 6, 7


@pytest.mark.parametrize(
    ("mode", "error_code", "word"),
    [
        *((2, 0, "poses"), (5, 0, "lying"), (6, 0, "locked"), (7, 0, "damped"), (8, 0, "standing up")),
        *((10, 0, "sitting"), (11, 0, "trick"), (12, 0, "trick"), (13, 0, "trick"), (7, 1001, "damped")),
        *((0, 1001, "damped"), (0, 1002, "locked"), (0, 1004, "lying"), (0, 2006, "lying")),
        *((0, 1007, "sitting"), (0, 1091, "poses"), (0, 1006, "trick"), (0, 2004, "trick")),
        *((0, 2011, "trick"), (0, 2012, "trick"), (0, 2013, "trick"), (0, 2014, "trick"), (0, 2017, "trick")),
    ],
)
def test_a_posture_that_does_not_walk_is_named(mode: int, error_code: int, word: str) -> None:
    assert word in posture_fault(mode, error_code) and ":" in posture_fault(mode, error_code)


@pytest.mark.parametrize(
    ("mode", "error_code"),
    [(0, 0), (1, 0), (3, 0), (4, 0), (9, 0), (99, 0), (0, 100), (1, 1013), (3, 1015), (3, 2010)],
)
def test_one_that_walks_or_is_not_known_keeps_nothing_from_moving(mode: int, error_code: int) -> None:
    assert posture_fault(mode, error_code) == "" and mode_name(mode)


def test_a_battery_is_warned_of_first_and_then_no_text_moves_the_robot() -> None:
    condition = Go2Condition(min_battery_percent=8)
    assert condition.fault() == condition.warning() == ""
    condition.on_battery(15)
    assert condition.fault() == condition.warning() == ""
    condition.on_battery(14)
    assert "14 percent" in condition.warning() == battery_warning(14) and condition.fault() == ""
    condition.on_battery(7)
    assert "7 percent" in condition.battery_fault() == condition.warning() and condition.fault() == ""
    assert "min_battery_percent" in condition.battery_fault()
    unlooked = Go2Condition(min_battery_percent=0)
    unlooked.on_battery(0)
    assert unlooked.battery_fault() == ""


def test_a_fault_under_way_stops_the_robot_at_once_and_is_over_when_it_is() -> None:
    robot = standing()
    robot.run(0.3, AHEAD)
    robot.condition.on_state(DAMPED, 0)
    robot.taken.clear()
    robot.run(PERIOD_S)
    assert robot.apis() == [go2_api.STOP_MOVE]
    robot.run(0.5, AHEAD)
    assert robot.apis() == [go2_api.STOP_MOVE] and not robot.command.is_ready
    assert "damped" in robot.command.warning()
    robot.run(PERIOD_S, Velocity())
    assert robot.apis()[-1] == go2_api.STOP_MOVE, "a stop is sent all the same"
    robot.condition.on_state(IDLE, 0)
    robot.run(0.3, AHEAD)
    assert robot.apis()[-1] == go2_api.MOVE and robot.command.warning() == ""


def test_the_start_waits_while_another_program_has_the_robot() -> None:
    robot = Robot()
    robot.command.start()
    for _ in range(20):
        robot.condition.on_other_program("sport Move")
        robot.run(0.1, AHEAD)
    assert robot.apis() == [] and "another program commands the robot (sport Move)" in robot.command.warning()
    robot.command.stop()
    robot.run(PERIOD_S)
    assert robot.apis() == [go2_api.STOP_MOVE]
    robot.run(OTHER_PROGRAM_S + 2.5, AHEAD)
    assert robot.apis()[-1] == go2_api.MOVE


def test_an_obstacle_avoidance_that_another_took_is_taken_anew_once_that_is_quiet() -> None:
    robot = standing(avoidance=True)
    robot.condition.on_other_program("obstacles_avoid SwitchSet")
    robot.run(0.9, AHEAD)
    assert go2_api.AVOID_MOVE not in robot.apis(go2_api.OBSTACLES_AVOID)
    robot.run(1.0, AHEAD)
    apis = robot.apis(go2_api.OBSTACLES_AVOID)
    assert apis[:3] == [go2_api.AVOID_SWITCH_GET, go2_api.AVOID_SWITCH_SET, go2_api.AVOID_USE_API]
    assert apis[-1] == go2_api.AVOID_MOVE


def test_a_move_answered_with_minus_one_is_explained() -> None:
    robot = standing()
    robot.codes[go2_api.SPORT, go2_api.MOVE] = -1
    robot.run(0.1, AHEAD)
    assert "is it standing" in robot.command.warning() and "code -1" in robot.command.warning()


class AnsweringGo2:
    """Answers every sport request with 0."""

    def __init__(self, client: Client) -> None:
        self.asked: list[int] = []
        topics = go2_api.request_topic(go2_api.SPORT), go2_api.response_topic(go2_api.SPORT)
        self._answers = client.node.create_publisher(Response, topics[1], qos.EVENTS)
        client.node.create_subscription(Request, topics[0], self._answer, qos.EVENTS)

    def _answer(self, message: Any) -> None:
        self.asked.append(message.header.identity.api_id)
        self._answers.publish(go2_api.response(message, 0))


def action_of(run_node: Run, client: Client) -> Any:
    """Starts an action node with odometry, a scan and a Go2 that stands. Returns the node."""
    AnsweringGo2(client)
    FakeBase(client, listens=False)
    node = run_node(lambda: ImpatientAction({"command_interface": "sport"})).node
    wait_until(lambda: node._base.is_ready and node._odometry and node._scan, "a robot that stands")
    return node


def test_the_action_node_takes_posture_and_battery_from_the_robot_itself(
    run_node: Run, client: Client
) -> None:
    node = action_of(run_node, client)
    reports = client.listen(MotionReport, "motion_report", qos.EVENTS)

    def publish(message: Any, topic: str) -> None:
        client.publish(message, topic, qos.EVENTS)

    publish(unitree_go.SportModeState(mode=LOCKED), STATE_TOPIC)
    wait_until(lambda: "locked" in node.health()[0], "the locked joints")
    speaker = Speaker(client)
    speaker.say(1, "move forward medium")
    report = wait_until(lambda: reports, "a report")[0]
    assert report.outcome == MotionReport.FAILED and "locked" in report.message
    publish(unitree_go.SportModeState(mode=1), SLOW_STATE_TOPIC)
    wait_until(lambda: node._base.is_ready, "the unlocked joints")
    wait_until(lambda: client.node.count_subscribers(STATE_TOPIC) == 0, "the fast states to be left")
    low = unitree_go.LowState()
    low.bms_state.soc = 5
    publish(low, LOW_STATE_TOPIC)
    wait_until(lambda: "5 percent" in node.health()[0], "the battery")
    assert node._base.is_ready, "a person may still drive it to its charger"
    reports.clear()
    speaker.say(2, "move forward medium")
    report = wait_until(lambda: reports, "a report")[0]
    assert report.outcome == MotionReport.FAILED and "by hand" in report.message


def test_the_request_of_another_program_is_named_and_a_question_is_none(
    run_node: Run, client: Client
) -> None:
    node = action_of(run_node, client)
    topic = go2_api.request_topic(go2_api.SPORT)
    client.publish(go2_api.request(7, 1034), topic, qos.EVENTS)
    client.publish(go2_api.request(8, 1), topic, qos.EVENTS)

    def named() -> bool:
        client.publish(go2_api.request(9, go2_api.MOVE), topic, qos.EVENTS)
        return "another program commands the robot (sport Move)" in node.health()[0]

    wait_until(named, "the other program")
    assert not node._base.is_ready
    wait_until(lambda: node._base.is_ready, "quiet")
    client.publish(
        go2_api.request(10, go2_api.SWITCHER_RELEASE),
        go2_api.request_topic(go2_api.MOTION_SWITCHER),
        qos.LATEST_SENSOR,
    )
    wait_until(lambda: "motion_switcher ReleaseMode" in node.health()[0], "the switch")


def test_a_robot_lies_on_while_the_emergency_stop_is_engaged(run_node: Run, client: Client) -> None:
    """A node that starts or restarts does not make the robot stand up before the release."""
    node = run_node(lambda: PatientAction({"command_interface": "sport"})).node
    client.publish(Bool(data=True), "e_stop", qos.EVENTS)
    wait_until(lambda: node.pilot.emergency, "the emergency stop")
    robot = AnsweringGo2(client)
    wait_until(node._base._sport.is_connected, "the robot")
    diagnoses = client.listen(DiagnosticArray, "/diagnostics", qos.EVENTS)
    wait_until(lambda: len(diagnoses) == 3, "three diagnoses, a second apart")
    assert set(robot.asked) <= {go2_api.STOP_MOVE}
    client.publish(Bool(data=False), "e_stop", qos.EVENTS)
    wait_until(lambda: node._base.is_ready, "a robot that stands")
