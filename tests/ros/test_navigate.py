"""`Navigate` end to end: simulation, action node and navigator over DDS, with a scripted decoder."""

from __future__ import annotations

import math

import pytest
from conftest import Client, wait_until
from fakes import link_error
from graphs import Robot
from outrider_interfaces.action import Navigate
from outrider_interfaces.msg import PlanProgress, VerifiedText
from rcl_interfaces.msg import Log
from support_ros import result_of

from outrider.core.values import wrap_angle
from outrider.nodes.common import qos
from outrider.nodes.navigator.client_watch import NO_CLIENT

pytestmark = pytest.mark.ros


def test_a_goal_moves_step_by_step_and_succeeds_at_the_stop(robot: Robot) -> None:
    robot.decoder.script += ["turn left small\nlook: nothing", "turn right small\nlook: nothing"]
    before = robot.pose()
    result = robot.goals.result(robot.goals.send("find the red chair"))
    assert result.success and result.error_code == Navigate.Result.NONE, result.message
    assert result.steps == 3
    assert robot.pose().distance_to(before.x, before.y) < 0.1
    actions = [f.action for f in robot.goals.feedback if f.action]
    assert set(actions) == {"turn left small", "turn right small", "stop"}
    assert "turn left small" in robot.decoder.prompts[1] and "turned: 15" in robot.decoder.prompts[1]
    latencies = [f.latency_s for f in robot.goals.feedback if f.action]
    assert min(latencies) > 0.0 and max(latencies) < 5.0


def test_the_robot_moves_while_the_reason_is_still_being_verified(robot: Robot) -> None:
    robot.decoder.script += ["turn left large\nlook: a long reason"]
    robot.decoder.between_s = 60.0
    before = robot.pose()
    handle = robot.goals.send("find the red chair")
    wait_until(lambda: abs(robot.pose().yaw - before.yaw) > 0.2, "the turn")
    assert not any(text.state == VerifiedText.FINISHED for text in robot.texts)
    robot.decoder.between_s = 0.0
    assert robot.goals.result(handle).success


def test_a_plan_is_reported_step_by_step_and_a_turn_needs_no_model(robot: Robot, client: Client) -> None:
    told = client.listen(PlanProgress, "plan", qos.ALL_LATCHED)
    before = robot.pose()
    result = robot.goals.result(robot.goals.send("find the red chair, then turn left 45 degrees"))
    assert result.success, result.message
    assert "turned" in result.message and len(robot.decoder.prompts) == 1
    wait_until(robot.stands, "a standing robot")
    assert wrap_angle(robot.pose().yaw - before.yaw) == pytest.approx(math.radians(45.0), abs=0.2)
    wait_until(lambda: told and not told[-1].running, "the plan's end")
    assert list(told[-1].steps) == ["find the red chair", "turn left 45 degrees"]
    assert [plan.current for plan in told][-1] == 2 and {0, 1} <= {plan.current for plan in told}
    steps = [(one.plan_step, one.plan_steps, one.plan_words) for one in robot.goals.feedback]
    assert (1, 2, "step 1 of 2: find the red chair") in steps and steps[-1][:2] == (2, 2)
    assert [text.step for text in robot.texts if text.state == VerifiedText.FINISHED][-1] == result.steps


@pytest.mark.parametrize(
    ("instruction", "words"), [("", "empty"), ("   ", "empty"), ("find the red unicorn", "unicorn")]
)
def test_a_bad_instruction_is_aborted_with_the_reason_and_nothing_moves(
    robot: Robot, instruction: str, words: str
) -> None:
    before = robot.pose()
    result = robot.goals.result(robot.goals.send(instruction))
    assert not result.success and result.error_code == Navigate.Result.BAD_INSTRUCTION
    assert words in result.message
    assert robot.decoder.prompts == [] and robot.pose().distance_to(before.x, before.y) < 0.01


def test_a_lost_link_stands_still_and_the_run_goes_on_when_it_is_back(robot: Robot) -> None:
    robot.decoder.script += [link_error(), link_error(), "turn left small\nlook: x"]
    result = robot.goals.result(robot.goals.send("find the red chair"))
    assert result.success, result.message
    withdrawn = [text.text for text in robot.texts if text.state == VerifiedText.WITHDRAWN]
    assert withdrawn[0] == "the verifier does not answer"


def test_texts_that_are_no_actions_never_move_the_robot(robot: Robot) -> None:
    robot.decoder.script += ["rm -rf\nx: y", "move backward\nx: y", "move forward\nx: y"]
    before = robot.pose()
    result = robot.goals.result(robot.goals.send("find the red chair"))
    assert not result.success and "no action" in result.message
    assert robot.pose().distance_to(before.x, before.y) < 0.01


def test_a_second_goal_is_rejected_while_one_runs(robot: Robot) -> None:
    robot.decoder.script += ["turn left large\nlook: x"] * 10
    first = robot.goals.send("find the red chair")
    wait_until(lambda: robot.decoder.prompts, "the first prompt")
    assert not robot.goals.send("find the red chair").accepted
    robot.goals.cancel(first)
    robot.goals.result(first)


def test_a_goal_that_no_client_was_seen_for_goes_on(robot: Robot, client: Client) -> None:
    client.do(robot.goals._goals.destroy)
    service = client.node.create_client(Navigate.Impl.SendGoalService, "navigate/_action/send_goal")
    wait_until(service.service_is_ready, "the service")
    goal = Navigate.Impl.SendGoalService.Request(goal=Navigate.Goal(instruction="find the red chair"))
    robot.decoder.script += ["turn left small\nlook: x"] * 6
    log = client.listen(Log, "/rosout", qos.EVENTS)
    assert result_of(service.call_async(goal)).accepted
    wait_until(lambda: any(text.action == "stop" for text in robot.texts), "the end", timeout_s=60.0)
    assert NO_CLIENT not in [line.msg for line in log]
