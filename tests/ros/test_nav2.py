"""`command_interface: nav2` against a stand-in of nav2's action server, over DDS."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from action_msgs.srv import CancelGoal
from conftest import WAIT_S, Client, NodeThread, wait_until
from geometry_msgs.msg import Twist
from nav2_msgs.action import NavigateToPose
from nav_msgs.msg import Odometry as OdometryMsg
from outrider_interfaces.msg import MotionReport
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.task import Future
from support_ros import FakeBase, PatientAction, Speaker

from outrider.core.language.actions import Motion
from outrider.core.values import Pose2D, Velocity
from outrider.nodes.base.action_node import ActionNode
from outrider.nodes.base.nav2_command import REPEAT_S, _Goal, covered_share, target_of
from outrider.nodes.common import convert, qos
from outrider.nodes.common.node import OutriderNode

pytestmark = pytest.mark.ros
Run = Callable[..., NodeThread]


class FakeNav2(OutriderNode):
    """Accepts goals, records them, and ends them as the test says; it moves nothing by itself."""

    spec_name = "mission"  # any spec will do: it has no parameter of its own

    def __init__(self) -> None:
        super().__init__()
        self.goals: list[Any] = []
        self.accepts, self.cancelled = True, 0
        self.refused_cancels = 0
        self.is_asked, self.may_answer = threading.Event(), threading.Event()
        self.may_answer.set()
        self.ending = threading.Event()
        self.succeeds = True
        server = ActionServer(
            self,
            NavigateToPose,
            "navigate_to_pose",
            execute_callback=self._execute,
            goal_callback=self._on_goal,
            cancel_callback=self._on_cancel,
            callback_group=ReentrantCallbackGroup(),
        )
        # Otherwise the server would still exist in the next test.
        self.keep(server, lambda server: server.destroy())

    def start(self) -> None:
        """Does nothing: this node has no lifecycle."""

    def _on_goal(self, _: Any) -> GoalResponse:
        self.is_asked.set()
        self.may_answer.wait(WAIT_S)
        return GoalResponse.ACCEPT if self.accepts else GoalResponse.REJECT

    def _on_cancel(self, _: Any) -> CancelResponse:
        self.refused_cancels -= 1
        return CancelResponse.REJECT if self.refused_cancels >= 0 else CancelResponse.ACCEPT

    def _execute(self, goal: Any) -> Any:
        self.goals.append(goal.request.pose)
        while not self.ending.is_set() and not goal.is_cancel_requested:
            time.sleep(0.005)
        if goal.is_cancel_requested:
            self.cancelled += 1
            goal.canceled()
        elif self.succeeds:
            goal.succeed()
        else:
            goal.abort()
        return NavigateToPose.Result(error_code=0 if self.succeeds else 208)


def start(
    run_node: Run, client: Client, action: type[ActionNode] = PatientAction
) -> tuple[Any, FakeNav2, FakeBase, Speaker]:
    nav2 = run_node(FakeNav2, threads=3).node
    node = run_node(lambda: action({"command_interface": "nav2"})).node
    base, speaker = FakeBase(client), Speaker(client)
    wait_until(lambda: node._odometry and node._scan, "odometry and scan")
    wait_until(lambda: node._reports.get_subscription_count(), "the reports' subscription")
    wait_until(lambda: not node._base.warning(), "nav2")
    return node, nav2, base, speaker


def test_an_action_becomes_a_pose_and_its_success_a_report(run_node: Run, client: Client) -> None:
    node, nav2, base, speaker = start(run_node, client)
    base.pose = Pose2D(1.0, 2.0, math.pi / 2)
    wait_until(lambda: node._odometry and node._odometry.pose.y == 2.0, "odometry that has settled")
    speaker.say(1, "move forward medium")
    goal = wait_until(lambda: nav2.goals, "the goal")[0]
    assert goal.header.frame_id == "odom"
    pose = convert.pose_of(goal.pose)
    assert (pose.x, pose.y, pose.yaw) == pytest.approx((1.0, 2.5, math.pi / 2), abs=1e-6)
    assert all(velocity == Velocity() for _, velocity in base.commands), "velocities are nav2's alone"
    # Repeat the command: a zero from before the goal may arrive late.
    wait_until(lambda: base.drive(Velocity(0.5)) or base.pose.y >= 2.45, "the way")
    base.drive(Velocity())
    wait_until(lambda: node._odometry.pose.y == base.pose.y, "odometry")
    nav2.ending.set()
    report = wait_until(lambda: base.reports, "a report")[0]
    assert report.outcome == MotionReport.DONE
    assert report.distance_m == pytest.approx(base.pose.y - 2.0, abs=0.05)


def test_a_base_that_sways_as_it_stands_has_arrived_too(run_node: Run, client: Client) -> None:
    """As a legged base does. The node waits for it to settle, but not for a motion's whole time limit."""
    _, nav2, base, speaker = start(run_node, client)

    def sway(message: OdometryMsg) -> None:
        message.twist.twist.linear.y += 0.04

    base.alter = sway
    speaker.say(1, "turn left medium")
    wait_until(lambda: nav2.goals, "a goal")
    base.drive(Velocity(wz=1.0))
    wait_until(lambda: base.pose.yaw > math.radians(28.0), "the turn")
    base.drive(Velocity())
    nav2.ending.set()
    report = wait_until(lambda: base.reports, "a report", 5.0)[0]
    assert report.outcome == MotionReport.DONE, report.message


def test_the_pose_is_in_the_frame_of_the_odometry(run_node: Run, client: Client) -> None:
    node, nav2, base, speaker = start(run_node, client)
    base.alter = lambda message: setattr(message.header, "frame_id", "/robot1/odom")
    wait_until(lambda: node._odometry and node._odometry.frame_id == "robot1/odom", "the frame")
    speaker.say(1, "move forward small")
    goal = wait_until(lambda: nav2.goals, "the goal")[0]
    assert goal.header.frame_id == "robot1/odom"


@pytest.mark.parametrize("astray", [Velocity(0.8), Velocity(-0.8), Velocity(wz=1.5)])
def test_nav2_that_goes_far_beyond_a_motion_is_cancelled(
    run_node: Run, client: Client, astray: Velocity
) -> None:
    _, nav2, base, speaker = start(run_node, client)
    speaker.say(1, "turn left small" if astray.wz else "move forward small")
    wait_until(lambda: nav2.goals, "the goal")
    # Repeat the command: a zero from before the goal may arrive late.
    wait_until(lambda: base.drive(astray) or nav2.cancelled, "the cancellation")
    report = wait_until(lambda: base.reports, "a report")[0]
    assert report.outcome == MotionReport.FAILED and "asked for" in report.message


@pytest.mark.parametrize("cause", ["silence", "withdrawal", "odometry", "e_stop", "joystick"])
def test_whatever_stops_the_robot_cancels_the_goal_at_once(run_node: Run, client: Client, cause: str) -> None:
    node, nav2, base, speaker = start(run_node, client, ActionNode)
    speaker.say(1, "turn left large")
    wait_until(lambda: nav2.goals, "the goal")
    if cause == "silence":
        speaker.silence()
    elif cause == "withdrawal":
        node.pilot.stop("withdrawn", node._now())
    elif cause == "odometry":
        base.odometry_on = False
    elif cause == "e_stop":
        node._set_e_stop(True)
    else:
        client.publish(Twist(), "cmd_vel_joy", qos.COMMAND)
    wait_until(lambda: nav2.cancelled, "the cancellation")
    report = wait_until(lambda: base.reports, "a report")[0]
    assert report.outcome != MotionReport.DONE
    wait_until(lambda: base.commands and base.commands[-1][1] == Velocity(), "zeros beside it")


def test_a_goal_that_is_not_given_up_is_cancelled_again_and_the_base_held(
    run_node: Run, client: Client
) -> None:
    node, nav2, base, speaker = start(run_node, client)
    speaker.say(1, "turn left large")
    wait_until(lambda: nav2.goals, "the goal")
    nav2.refused_cancels = 10**6
    node._set_e_stop(True)
    wait_until(lambda: nav2.refused_cancels < 10**6 - 2, "more cancellations")
    assert nav2.cancelled == 0 and "not ended" in node._base.warning()
    held = len(base.commands)
    wait_until(lambda: len(base.commands) > held + 3, "zeros meanwhile")
    assert all(velocity == Velocity() for _, velocity in base.commands)
    nav2.refused_cancels = 0
    wait_until(lambda: nav2.cancelled, "the cancellation")
    wait_until(lambda: not node._base.warning(), "the end of it")


def test_a_goal_that_nav2_accepts_long_after_a_stop_is_cancelled(run_node: Run, client: Client) -> None:
    """Until then a person may drive: a goal that nav2 has not accepted does not hold the base for ever."""
    node, nav2, base, speaker = start(run_node, client)
    nav2.may_answer.clear()
    speaker.say(1, "turn left large")
    assert nav2.is_asked.wait(WAIT_S)
    node._set_e_stop(True)
    assert "not ended" in node._base.warning()
    wait_until(lambda: not node._base.warning(), "a base that is held no more")
    node._set_e_stop(False)
    wait_until(lambda: client.publish(drive(0.2), "cmd_vel_joy", qos.COMMAND) or base.is_moving(), "a hand")
    nav2.may_answer.set()
    try:
        wait_until(lambda: nav2.cancelled, "the cancellation")
    finally:
        nav2.ending.set()


class ForgetfulNav2:
    """A client of a nav2 that restarted before it answered, and no longer has the goal."""

    def __init__(self) -> None:
        self.answer, self.num_cancels = Future(), 0

    def server_is_ready(self) -> bool:
        return True

    def send_goal_async(self, *_: Any, **__: Any) -> Any:
        return self.answer

    def _cancel_goal_async(self, _: Any) -> Any:
        self.num_cancels += 1
        answer = Future()
        answer.set_result(CancelGoal.Response(return_code=CancelGoal.Response.ERROR_UNKNOWN_GOAL_ID))
        return answer

    def _get_result_async(self, _: Any) -> Any:
        return Future()


def test_a_goal_whose_answer_is_lost_is_cancelled_once_a_second_in_the_end_until_it_is_answered() -> None:
    nav2 = ForgetfulNav2()
    goal = _Goal(nav2, NavigateToPose.Goal())

    def cancels(first_s: float, last_s: float) -> int:
        before = nav2.num_cancels
        for tick in range(round(first_s / REPEAT_S), round(last_s / REPEAT_S)):
            goal.cancel(tick * REPEAT_S * 1.0001)
        return nav2.num_cancels - before

    assert cancels(0.0, 3.0) == 30
    assert 3500 <= cancels(3.0, 3600.0) <= 3700 and not goal.has_ended(3600.0)
    response = NavigateToPose.Impl.SendGoalService.Response(accepted=True)
    nav2.answer.set_result(response)
    assert cancels(3600.0, 3601.0) == 10


def drive(forward_mps: float) -> Twist:
    return convert.twist_message(Velocity(forward_mps))


def test_a_node_that_ends_before_nav2_took_its_goal_cancels_it(run_node: Run, client: Client) -> None:
    threads: list[NodeThread] = []

    def run(*arguments: Any, **more: Any) -> NodeThread:
        threads.append(run_node(*arguments, **more))
        return threads[-1]

    node, nav2, _, speaker = start(run, client)
    nav2.may_answer.clear()
    speaker.say(1, "turn left large")
    assert nav2.is_asked.wait(WAIT_S)
    ending = threading.Thread(target=threads[-1].stop)
    ending.start()
    wait_until(lambda: not node._active, "the deactivation")
    nav2.may_answer.set()
    wait_until(lambda: nav2.cancelled, "the cancellation")
    ending.join(WAIT_S)
    assert not ending.is_alive()


def test_a_goal_that_nav2_refuses_or_gives_up_ends_the_motion_with_its_reason(
    run_node: Run, client: Client
) -> None:
    _, nav2, base, speaker = start(run_node, client)
    nav2.accepts = False
    speaker.say(1, "turn left large")
    first = wait_until(lambda: base.reports, "a report")[0]
    assert first.outcome == MotionReport.BLOCKED and "rejected" in first.message
    nav2.accepts, nav2.succeeds = True, False
    nav2.ending.set()
    speaker.say(2, "turn left large")
    second = wait_until(lambda: base.reports[1:], "a second report")[0]
    assert second.outcome == MotionReport.BLOCKED and "error code 208" in second.message
    nav2.succeeds = True
    speaker.say(3, "turn left large")
    third = wait_until(lambda: base.reports[2:], "a third report")[0]
    assert third.outcome == MotionReport.BLOCKED and "goal checker" in third.message


def test_without_nav2_nothing_moves_and_the_reason_is_said(run_node: Run, client: Client) -> None:
    node = run_node(lambda: PatientAction({"command_interface": "nav2"})).node
    base, speaker = FakeBase(client), Speaker(client)
    wait_until(lambda: node._odometry and node._scan, "odometry and scan")
    wait_until(lambda: node._reports.get_subscription_count(), "the reports' subscription")
    assert "start nav2" in node.health()[0]
    speaker.say(1, "move forward small")
    report = wait_until(lambda: base.reports, "a report")[0]
    assert report.outcome == MotionReport.FAILED and "start nav2" in report.message


@pytest.mark.parametrize(
    ("motion", "end"),
    [
        (Motion(forward_m=0.5), Pose2D(1.0, 1.5, math.pi / 2)),
        (Motion(turn_rad=math.radians(45.0)), Pose2D(1.0, 1.0, math.radians(135.0))),
        (Motion(turn_rad=-math.pi / 2), Pose2D(1.0, 1.0, 0.0)),
    ],
)
def test_a_motion_ends_where_its_pose_is(motion: Motion, end: Pose2D) -> None:
    start_pose = Pose2D(1.0, 1.0, math.pi / 2)
    target = target_of(start_pose, motion)
    assert (target.x, target.y, target.yaw) == pytest.approx((end.x, end.y, end.yaw))
    assert covered_share(start_pose, target, motion) == pytest.approx(1.0)
    assert covered_share(start_pose, start_pose, motion) == pytest.approx(0.0)
