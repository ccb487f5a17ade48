"""Ends of a goal that come before it starts, as it starts, or while its worker is busy."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from conftest import Client, NodeThread, wait_until
from fakes import SLOW_CAMERA, ScriptedDecoder
from outrider_interfaces.action import Navigate
from rclpy.action import GoalResponse
from support_ros import EdgeNavigator, FakeBase, Goals, PatientAction, StillCamera

from outrider.core.errors import Cancelled
from outrider.core.values import Decoded, DecodeRequest, Verified
from outrider.nodes.navigator.goal_slot import GoalSlot
from outrider.nodes.navigator.navigator_node import STOP_REQUESTED, NavigatorNode
from outrider.runtime.mission.robot_side import GoalError
from outrider.runtime.wiring.robot_pair import Edge

pytestmark = pytest.mark.ros


@pytest.fixture
def scripted(
    run_node: Callable[..., NodeThread], client: Client
) -> Iterator[tuple[NavigatorNode, ScriptedDecoder, FakeBase]]:
    """Yields an active navigator, its decoder, and the base that it moves."""
    decoder = ScriptedDecoder(["turn left large\nlook: x"])
    StillCamera(client)
    base = FakeBase(client)
    run_node(PatientAction)
    navigator = run_node(
        lambda: EdgeNavigator({"use_memory": False, **SLOW_CAMERA}, Edge(decoder, None)), threads=4
    ).node
    wait_until(lambda: client.node.count_subscribers("verified_text"), "the action node")
    yield navigator, decoder, base


def test_a_goal_that_waits_for_its_start_ends_with_the_activation_too(scripted: Any, client: Client) -> None:
    navigator, decoder, base = scripted
    goals = Goals(client)
    with navigator._decoding:
        handle = goals.send("find the red chair")
        navigator.trigger_deactivate()
        navigator.trigger_activate()
    result = goals.result(handle)
    assert result.error_code == Navigate.Result.CANCELLED and "deactivated" in result.message
    assert not decoder.prompts and not base.is_moving()


def test_a_stop_that_comes_just_as_a_goal_is_accepted_ends_it(scripted: Any, client: Client) -> None:
    """Requests are answered by several threads. Here the stop comes once the goal has taken the slot."""
    navigator, decoder, base = scripted

    class Interrupted(GoalSlot):
        def take(self, num_stops: int) -> bool:
            is_taken = super().take(num_stops)
            assert navigator._on_goal(Navigate.Goal(instruction="stop")) is GoalResponse.ACCEPT
            return is_taken

    navigator._slot = Interrupted()
    goals = Goals(client)
    result = goals.result(goals.send("find the red chair"))
    assert (result.error_code, result.message) == (Navigate.Result.CANCELLED, STOP_REQUESTED)
    assert not decoder.prompts and not base.is_moving()


def test_a_stop_that_comes_while_a_goal_is_being_read_ends_it() -> None:
    slot = GoalSlot()
    num_stops = slot.num_stops
    slot.stop(GoalError.CANCELLED, STOP_REQUESTED)
    assert slot.take(num_stops) and slot.stopped == (GoalError.CANCELLED, STOP_REQUESTED)
    slot.release()
    assert slot.take(slot.num_stops) and slot.stopped is None


def test_a_cancellation_stops_the_robot_though_the_goal_s_worker_is_busy(
    scripted: Any, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, decoder, base = scripted
    is_busy = threading.Event()

    def decode_on(request: DecodeRequest, on_verified: Callable[[Verified], None], _: object) -> Decoded:
        on_verified(Verified((1, 2), "turn left large\n", 0.01))
        assert is_busy.wait(60.0)
        raise Cancelled("cancelled")

    monkeypatch.setattr(decoder, "decode", decode_on)
    goals = Goals(client)
    handle = goals.send("find the red chair")
    wait_until(base.is_moving, "motion")
    goals.cancel(handle)
    wait_until(lambda: not base.is_moving(), "a robot that stands")
    stood_after_deg = math.degrees(base.pose.yaw)
    is_busy.set()
    assert goals.result(handle).error_code == Navigate.Result.CANCELLED
    assert stood_after_deg < 40.0, "the motion was not carried out to its end"
