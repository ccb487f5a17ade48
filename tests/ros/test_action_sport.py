"""The action node with a Go2's sport service."""

from __future__ import annotations

import threading

import pytest
from conftest import Client, wait_until
from outrider_interfaces.msg import MotionReport
from rclpy.lifecycle import TransitionCallbackReturn
from support_ros import FakeBase, PatientAction, Run, start_action
from unitree_api.msg import Request, Response

from outrider.nodes.common import qos
from outrider.nodes.go2 import go2_api

pytestmark = pytest.mark.ros


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


def test_the_sport_api_gets_moves_and_a_stop(run_node: Run, client: Client) -> None:
    requests = answer_everything(client)
    node, base, speaker = start_action(run_node, client, {"command_interface": "sport"})
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
    node, base, speaker = start_action(run_node, client, {"command_interface": "sport"})
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
