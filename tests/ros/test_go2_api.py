"""The Go2's services follow unitree_sdk2: topics, ids, JSON and codes."""

from __future__ import annotations

import pytest
from unitree_api.msg import Request, Response

from outrider.core.errors import ConfigError
from outrider.core.values import Velocity
from outrider.nodes.go2 import go2_api

pytestmark = pytest.mark.ros
VELOCITY = Velocity(0.3, -0.1, 0.5)


def test_topics_and_ids() -> None:
    assert go2_api.request_topic(go2_api.SPORT) == "/api/sport/request"
    assert go2_api.response_topic(go2_api.SPORT) == "/api/sport/response"
    assert go2_api.request_topic(go2_api.VIDEOHUB) == "/api/videohub/request"
    assert go2_api.request_topic(go2_api.OBSTACLES_AVOID) == "/api/obstacles_avoid/request"
    sport = (go2_api.BALANCE_STAND, go2_api.STOP_MOVE, go2_api.STAND_UP, go2_api.MOVE)
    assert sport == (1002, 1003, 1004, 1008)
    avoidance = (
        go2_api.AVOID_SWITCH_SET,
        go2_api.AVOID_SWITCH_GET,
        go2_api.AVOID_MOVE,
        go2_api.AVOID_USE_API,
    )
    assert avoidance == (1001, 1002, 1003, 1004)
    assert go2_api.GET_IMAGE_SAMPLE == 1001


def test_the_exact_json_of_every_parameter() -> None:
    assert go2_api.move_parameter(VELOCITY) == '{"x": 0.3, "y": -0.1, "z": 0.5}'
    assert go2_api.avoid_move_parameter(VELOCITY) == '{"x": 0.3, "y": -0.1, "yaw": 0.5, "mode": 0}'
    assert go2_api.enable_parameter(True) == '{"enable": true}'
    assert go2_api.use_api_parameter(False) == '{"is_remote_commands_from_api": false}'


def test_a_request_asks_for_an_answer_and_holds_no_lease() -> None:
    message = go2_api.request(7, go2_api.MOVE, go2_api.move_parameter(VELOCITY))
    header = message.header
    assert (header.identity.id, header.identity.api_id, header.lease.id) == (7, 1008, 0)
    assert (header.policy.priority, header.policy.noreply, list(message.binary)) == (0, False, [])
    assert go2_api.velocity_of(message.parameter) == VELOCITY


def test_the_fields_on_the_wire() -> None:
    fields = Request.get_fields_and_field_types()
    assert fields == {
        "header": "unitree_api/RequestHeader",
        "parameter": "string",
        "binary": "sequence<uint8>",
    }
    assert list(Response.get_fields_and_field_types()) == ["header", "data", "binary"]


def test_every_byte_of_an_answer_survives() -> None:
    answer = go2_api.response(go2_api.request(1, 2), 0, binary=bytes(range(256)))
    assert go2_api.binary_of(answer) == bytes(range(256))


@pytest.mark.parametrize(
    "parameter", ["", "{}", '{"x": 1}', '{"x": NaN, "y": 0, "z": 0}', "[1, 2, 3]", "null"]
)
def test_a_bad_move_is_refused(parameter: str) -> None:
    with pytest.raises(ConfigError):
        go2_api.velocity_of(parameter)


@pytest.mark.parametrize("parameter", ["", "{}", '{"enable": 1}', '{"enable": "on"}', "true"])
def test_a_bad_switch_is_refused(parameter: str) -> None:
    with pytest.raises(ConfigError):
        go2_api.enabled_of(parameter)


@pytest.mark.parametrize(
    ("code", "words"),
    [(3203, "firmware"), (3204, "parameter"), (3205, "lease denied"), (77, "not documented")],
)
def test_codes_are_named_in_plain_words(code: int, words: str) -> None:
    assert words in go2_api.explain(code) and str(code) in go2_api.explain(code)
