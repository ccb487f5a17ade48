"""The action node and clocks: simulated ones that fail, one that is set back, and one that is ahead."""

from __future__ import annotations

import time

import pytest
from conftest import Client, wait_until
from diagnostic_msgs.msg import DiagnosticArray
from outrider_interfaces.msg import MotionReport
from rclpy.parameter import Parameter
from rosgraph_msgs.msg import Clock
from support_ros import Run, start_action

from outrider.core.values import Velocity
from outrider.nodes.base.action_node import ActionNode
from outrider.nodes.common import convert, qos

pytestmark = pytest.mark.ros


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
    _, base, speaker = start_action(run_node, client, {"use_sim_time": True}, ActionNode)
    speaker.say(1, "move forward large")
    report = wait_until(lambda: base.reports, "a motion report")[0]
    assert report.outcome == MotionReport.FAILED and "/clock" in report.message
    wait_until(lambda: diagnostics and "/clock" in diagnostics[-1].status[0].message, "the diagnosis")
    assert base.pose.x == 0.0


def test_a_simulated_clock_that_stands_still_ends_a_motion(run_node: Run, client: Client) -> None:
    """As with a simulator that hangs or is paused."""
    clock = SimulatedTime(client)
    node, base, speaker = start_action(run_node, client, {"use_sim_time": True}, ActionNode)
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
    node, base, speaker = start_action(run_node, client, action=ActionNode)
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


def test_texts_stamped_by_a_clock_that_is_off_are_named_and_move_nothing(
    run_node: Run, client: Client
) -> None:
    node, base, speaker = start_action(run_node, client)
    speaker.stamp_s = lambda: time.time() + 8.0
    speaker.say(1, "move forward small")
    report = wait_until(lambda: base.reports, "a motion report")[0]
    assert report.outcome == MotionReport.FAILED and "ahead of this clock" in report.message
    assert "ahead of this clock" in node.health()[0] and base.pose.x == 0.0
