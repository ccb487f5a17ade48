"""The sport API: its messages, and the simulated robot's answers to them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from conftest import Client, NodeThread, wait_until
from outrider_interfaces.msg import SimulationState
from unitree_api.msg import Request, Response

from outrider.core.errors import ConfigError
from outrider.core.values import Velocity
from outrider.nodes import qos, sport
from outrider.nodes.simulation_node import SimulationNode

pytestmark = pytest.mark.ros


def test_a_move_carries_its_velocity() -> None:
    message = sport.request(7, sport.MOVE, Velocity(0.3, -0.1, 0.5))
    assert (message.header.identity.id, message.header.identity.api_id) == (7, 1008)
    assert sport.velocity_of(message) == Velocity(0.3, -0.1, 0.5)


@pytest.mark.parametrize(
    "parameter", ["", "{}", '{"x": 1}', '{"x": NaN, "y": 0, "z": 0}', "[1, 2, 3]", "null"]
)
def test_a_bad_move_is_refused(parameter: str) -> None:
    with pytest.raises(ConfigError):
        sport.velocity_of(Request(parameter=parameter))


def test_answers_are_matched_by_id_and_refusals_told() -> None:
    sent: list[Request] = []

    class Publisher:
        def publish(self, message: Request) -> None:
            sent.append(message)

    client = sport.SportClient(Publisher(), first_id=100)
    client.send(sport.STOP_MOVE)
    client.send(sport.MOVE, Velocity(0.1, 0.0, 0.0))
    assert [m.header.identity.id for m in sent] == [100, 101] and client.unanswered == 2
    assert client.on_response(sport.response(sent[0], sport.CODE_OK)) == ""
    assert "1008" in client.on_response(sport.response(sent[1], sport.CODE_BAD_PARAMETER))
    assert client.on_response(sport.response(sent[1], 9)) == "" and client.refused == 1


def test_the_simulated_robot_moves_answers_and_stops_by_itself(
    run_node: Callable[..., NodeThread], client: Client
) -> None:
    answers: list[Response] = client.listen(Response, sport.RESPONSE_TOPIC, qos.EVENTS)
    states: list[SimulationState] = client.listen(SimulationState, "simulation_state", qos.EVENTS)
    run_node(lambda: SimulationNode({"seed": 3, "placement": "in_view"}))
    spin = Velocity(0.0, 0.0, 1.0)
    for request_id in range(1, 6):
        client.publish(sport.request(request_id, sport.MOVE, spin), sport.REQUEST_TOPIC, qos.EVENTS)
    client.publish(sport.request(6, 9999), sport.REQUEST_TOPIC, qos.EVENTS)
    client.publish(Request(parameter="{}"), sport.REQUEST_TOPIC, qos.EVENTS)
    wait_until(lambda: len(answers) == 7, "all answers")
    codes = {answer.header.identity.id: answer.header.status.code for answer in answers}
    assert all(codes[request_id] == sport.CODE_OK for request_id in range(1, 6))
    assert codes[6] == sport.CODE_UNKNOWN_API and codes[0] == sport.CODE_UNKNOWN_API
    # Nobody re-sends the Move: the deadman on the robot must end it.
    count = len(states)
    wait_until(lambda: len(states) >= count + 12, "more than a second of simulation")
    last = [state.pose.orientation.z for state in states[-3:]]
    assert max(last) - min(last) < 1e-3
