"""What ends a goal of `Navigate`: a cancel, a stop, the emergency stop, and a client or node that is gone."""

from __future__ import annotations

import time

import pytest
from action_msgs.msg import GoalStatus
from conftest import Client, wait_until
from fakes import SLOW_CAMERA, ScriptedDecoder
from graphs import Robot
from outrider_interfaces.action import Navigate
from rcl_interfaces.msg import Log
from std_msgs.msg import Bool
from std_srvs.srv import SetBool
from support_ros import EdgeNavigator, FakeBase, Goals, PatientAction, Run, StillCamera, result_of

from outrider.core.values import wrap_angle
from outrider.nodes.common import qos
from outrider.nodes.navigator.client_watch import LOOKS, NO_CLIENT
from outrider.nodes.navigator.navigator_node import E_STOPPED, STOP_REQUESTED
from outrider.nodes.simulation.simulation_node import SimulationNode
from outrider.runtime.mission.sender_heartbeats import POLL_PERIOD_S
from outrider.runtime.plans.errand import STANDS
from outrider.runtime.wiring.robot_pair import Edge

pytestmark = pytest.mark.ros


def test_cancelling_stops_the_robot_and_the_next_goal_runs(robot: Robot) -> None:
    robot.decoder.script += ["turn left large\nlook: x"] * 30
    handle = robot.goals.send("find the red chair")
    before = robot.pose()
    wait_until(lambda: abs(robot.pose().yaw - before.yaw) > 0.05, "motion")
    robot.goals.cancel(handle)
    assert robot.goals.result(handle).error_code == Navigate.Result.CANCELLED
    assert robot.goals.outcome(handle).status == GoalStatus.STATUS_CANCELED
    yaw = robot.pose().yaw
    wait_until(robot.stands, "a standing robot")
    assert abs(robot.pose().yaw - yaw) < 0.35
    robot.decoder.script.clear()
    assert robot.goals.result(robot.goals.send("find the red chair")).success


@pytest.mark.parametrize("sentence", ["stop", "halt sofort!", "please stop, then find the red chair"])
def test_a_stop_is_always_accepted_and_ends_the_goal_that_runs(robot: Robot, sentence: str) -> None:
    robot.decoder.script += ["turn left large\nlook: x"] * 30
    running = robot.goals.send("find the red chair")
    before = robot.pose()
    wait_until(lambda: abs(robot.pose().yaw - before.yaw) > 0.05, "motion")
    stopped = robot.goals.result(robot.goals.send(sentence))
    assert stopped.success and stopped.message.partition("; ")[0] == STANDS
    assert ("say the rest anew" in stopped.message) == ("chair" in sentence)
    result = robot.goals.result(running)
    assert result.error_code == Navigate.Result.CANCELLED and result.message == STOP_REQUESTED
    wait_until(robot.stands, "a standing robot")
    robot.decoder.script.clear()
    assert robot.goals.result(robot.goals.send("find the red chair")).success, "the next goal runs"


@pytest.mark.parametrize("sentence", ["stop at the baby", "wait!"])
def test_what_begins_with_a_stop_ends_the_goal_that_runs_though_it_is_another_goal(
    robot: Robot, sentence: str
) -> None:
    robot.decoder.script += ["turn left large\nlook: x"] * 30
    running = robot.goals.send("find the red chair")
    before = robot.pose()
    wait_until(lambda: abs(robot.pose().yaw - before.yaw) > 0.05, "motion")
    assert not robot.goals.send(sentence).accepted
    result = robot.goals.result(running)
    assert result.error_code == Navigate.Result.CANCELLED and result.message == STOP_REQUESTED
    wait_until(robot.stands, "a standing robot")


@pytest.mark.parametrize("way", ["topic", "service"])
@pytest.mark.parametrize("first", ["wait 60 seconds", "describe what you see"])
def test_an_emergency_stop_ends_a_plan_that_does_not_move_yet(
    robot: Robot, client: Client, way: str, first: str
) -> None:
    e_stop = client.node.create_publisher(Bool, "e_stop", qos.LATCHED)
    service = client.node.create_client(SetBool, "set_e_stop")
    wait_until(lambda: e_stop.get_subscription_count() >= 2, "action node and navigator")
    wait_until(service.service_is_ready, "the service")
    wait_until(lambda: client.node.count_subscribers("e_stopped"), "the navigator")
    before, robot.decoder.between_s = robot.pose(), 60.0
    running = robot.goals.send(f"{first}, then turn left 90 degrees")
    wait_until(lambda: robot.decoder.prompts or ("wait" in first and robot.goals.feedback), "the first step")
    if way == "topic":
        e_stop.publish(Bool(data=True))
    else:
        assert result_of(service.call_async(SetBool.Request(data=True))).success
    result = robot.goals.result(running)
    assert result.error_code == Navigate.Result.EMERGENCY_STOP and result.message == E_STOPPED
    assert robot.goals.feedback[-1].plan_step == 1
    e_stop.publish(Bool(data=False))
    assert wrap_angle(robot.pose().yaw - before.yaw) == pytest.approx(0.0, abs=0.01)


def test_a_goal_without_any_client_left_stops_the_robot(robot: Robot, client: Client) -> None:
    robot.decoder.script += ["turn left large\nlook: x"] * 100
    before, another = robot.pose(), Goals(client)
    log = client.listen(Log, "/rosout", qos.EVENTS)
    assert robot.goals.send("find the red chair").accepted
    wait_until(lambda: abs(robot.pose().yaw - before.yaw) > 0.05, "motion")
    client.do(robot.goals._goals.destroy)
    time.sleep(LOOKS * POLL_PERIOD_S + 1.0)
    yaw = robot.pose().yaw
    wait_until(lambda: abs(robot.pose().yaw - yaw) > 0.05, "motion, that another client can cancel")
    client.do(another._goals.destroy)
    wait_until(lambda: NO_CLIENT in [line.msg for line in log], "the goal's end")
    wait_until(robot.stands, "a standing robot")
    assert Goals(client).send("find the red chair").accepted


def test_a_dead_action_node_ends_the_goal_with_a_reason(run_node: Run, client: Client) -> None:
    decoder = ScriptedDecoder(["turn left small\nlook: x"])
    run_node(lambda: SimulationNode({"seed": 3, "odometry_noise": 0.0}))
    run_node(lambda: EdgeNavigator(None, Edge(decoder, None), motion_patience_s=0.5), threads=4)
    goals, started_s = Goals(client), time.monotonic()
    result = goals.result(goals.send("find the red chair"))
    assert result.error_code == Navigate.Result.MOTION_FAILED and "action node" in result.message
    assert time.monotonic() - started_s < 20.0


def test_a_goal_ends_with_the_activation_it_was_given_in(run_node: Run, client: Client) -> None:
    """A lifecycle manager may be faster than the goal's worker, which polls."""
    decoder = ScriptedDecoder(["turn left large\nlook: x"] * 10, between_s=0.2)
    StillCamera(client)
    base = FakeBase(client)
    run_node(PatientAction)
    navigator = run_node(
        lambda: EdgeNavigator({"use_memory": False, **SLOW_CAMERA}, Edge(decoder, None)), threads=4
    ).node
    goals = Goals(client)
    wait_until(lambda: client.node.count_subscribers("verified_text"), "the action node")
    handle = goals.send("find the red chair")
    wait_until(base.is_moving, "motion")
    navigator.trigger_deactivate()
    navigator.trigger_activate()
    result = goals.result(handle)
    assert result.error_code == Navigate.Result.CANCELLED, result.message
    assert len(decoder.prompts) == 1
