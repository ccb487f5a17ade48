# SPDX-License-Identifier: Apache-2.0
"""The Go2's request/response services: topics, API ids, JSON parameters and error codes.

Source of ids and codes: unitree_sdk2 and unitree_ros2 (`rpc/internal`, `sport_api`, `obstacles_avoid_api`,
`video_api`).
"""

from __future__ import annotations

import json
import math
from array import array
from typing import Any

from unitree_api.msg import Request, Response

from outrider.core.errors import ConfigError
from outrider.core.values import Velocity

SPORT, OBSTACLES_AVOID, VIDEOHUB = "sport", "obstacles_avoid", "videohub"
MOTION_SWITCHER = "motion_switcher"
BALANCE_STAND, STOP_MOVE, STAND_UP, MOVE = 1002, 1003, 1004, 1008
AVOID_SWITCH_SET, AVOID_SWITCH_GET, AVOID_MOVE, AVOID_USE_API = 1001, 1002, 1003, 1004
GET_IMAGE_SAMPLE = 1001
SWITCHER_CHECK, SWITCHER_SELECT, SWITCHER_RELEASE, SWITCHER_GET_SILENT = 1001, 1002, 1003, 1005
# Ids up to this belong to the service framework: version and lease.
_LAST_INTERNAL = 102
# The calls of each service that only read.
_QUESTIONS = {
    SPORT: frozenset({1024, 1025, 1026, 1034, 2055}),
    OBSTACLES_AVOID: frozenset({AVOID_SWITCH_GET}),
    MOTION_SWITCHER: frozenset({SWITCHER_CHECK, SWITCHER_GET_SILENT}),
}

CODE_OK, CODE_INTERNAL, CODE_UNKNOWN_API, CODE_BAD_PARAMETER = 0, 3202, 3203, 3204
_WORDS = {
    -1: "it cannot do this in its present state; is it standing, unlocked, and free of other programs?",
    3001: "unknown error",
    3201: "the robot could not send its answer",
    CODE_INTERNAL: "the service failed on the robot; is the sport mode running?",
    CODE_UNKNOWN_API: "the robot's firmware does not know this call",
    CODE_BAD_PARAMETER: "the robot does not accept the parameter",
    3205: "another program holds the robot (lease denied): close the app or the other controller",
    3206: "the lease does not exist",
    3207: "another program holds the robot (lease exists): close the app or the other controller",
    4101: "wrong number of path points",
    4201: "the sport service ran out of time",
    4202: "the sport service is not initialised: let the robot stand up first",
    4205: "the sport service is not initialised: let the robot stand up first",
}
_NAMES = {
    (SPORT, BALANCE_STAND): "BalanceStand",
    (SPORT, STOP_MOVE): "StopMove",
    (SPORT, STAND_UP): "StandUp",
    (SPORT, MOVE): "Move",
    (OBSTACLES_AVOID, AVOID_SWITCH_SET): "SwitchSet",
    (OBSTACLES_AVOID, AVOID_SWITCH_GET): "SwitchGet",
    (OBSTACLES_AVOID, AVOID_MOVE): "Move",
    (OBSTACLES_AVOID, AVOID_USE_API): "UseRemoteCommandFromApi",
    (SPORT, 1001): "Damp",
    (SPORT, 1005): "StandDown",
    (SPORT, 1006): "RecoveryStand",
    (SPORT, 1009): "Sit",
    (MOTION_SWITCHER, SWITCHER_SELECT): "SelectMode",
    (MOTION_SWITCHER, SWITCHER_RELEASE): "ReleaseMode",
    (VIDEOHUB, GET_IMAGE_SAMPLE): "GetImageSample",
}


def request_topic(service: str) -> str:
    """Returns the topic of a service's requests."""
    return f"/api/{service}/request"


def response_topic(service: str) -> str:
    """Returns the topic of a service's responses."""
    return f"/api/{service}/response"


def name_of(service: str, api_id: int) -> str:
    """Returns a call's name as in the SDK, such as `sport Move`."""
    return f"{service} {_NAMES.get((service, api_id), api_id)}"


def is_question(service: str, api_id: int) -> bool:
    """Whether a call only reads, and does not change the robot's behaviour."""
    return api_id <= _LAST_INTERNAL or api_id in _QUESTIONS.get(service, ())


def explain(code: int) -> str:
    """Returns an error code in plain words."""
    return f"{_WORDS.get(code, 'an error that is not documented')} (code {code})"


def move_parameter(velocity: Velocity) -> str:
    """Returns the JSON of the sport service's Move: m/s ahead and to the left, rad/s to the left."""
    return json.dumps({"x": velocity.vx, "y": velocity.vy, "z": velocity.wz})


def avoid_move_parameter(velocity: Velocity) -> str:
    """Returns the JSON of obstacles_avoid's Move, with its name for the yaw rate; mode 0 is a velocity."""
    return json.dumps({"x": velocity.vx, "y": velocity.vy, "yaw": velocity.wz, "mode": 0})


def enable_parameter(enable: bool) -> str:
    """Returns the parameter of a request that switches something on or off, as JSON."""
    return json.dumps({"enable": enable})


def use_api_parameter(enable: bool) -> str:
    """Returns the parameter that lets obstacle avoidance take commands of this API, as JSON."""
    return json.dumps({"is_remote_commands_from_api": enable})


def request(request_id: int, api_id: int, parameter: str = "") -> Any:
    """Returns a request that wants an answer."""
    message = Request(parameter=parameter)
    message.header.identity.id = request_id
    message.header.identity.api_id = api_id
    return message


def response(message: Any, code: int, data: str = "", binary: bytes = b"") -> Any:
    """Returns the answer to a request, with its identity."""
    answer = Response(data=data)
    answer.header.identity = message.header.identity
    answer.header.status.code = code
    # unitree_ros2 declares int8 or uint8 by version. An array is stored as it is, bytes one by one.
    answer.binary = array(answer.binary.typecode, binary)
    return answer


def binary_of(answer: Any) -> bytes:
    """Returns the binary data of an answer."""
    return bytes(answer.binary.tobytes())


def enabled_of(text: str) -> bool:
    """Returns the flag of `{"enable": bool}`; ConfigError for anything else."""
    return _flag(text, "enable")


def use_api_of(text: str) -> bool:
    """Returns the flag of `use_api_parameter`; ConfigError for anything else."""
    return _flag(text, "is_remote_commands_from_api")


def velocity_of(text: str, yaw_name: str = "z") -> Velocity:
    """Returns the velocity in a Move's JSON; ConfigError unless it holds finite numbers."""
    content = _object(text)
    try:
        parts = [float(content[name]) for name in ("x", "y", yaw_name)]
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"Move wants {{x, y, {yaw_name}}} in JSON, not {text!r}") from error
    if not all(math.isfinite(part) for part in parts):
        raise ConfigError(f"Move wants finite numbers, not {text!r}")
    return Velocity(*parts)


def _flag(text: str, name: str) -> bool:
    value = _object(text).get(name)
    if not isinstance(value, bool):
        raise ConfigError(f"{{{name!r}: true or false}} in JSON is wanted, not {text!r}")
    return value


def _object(text: str) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"JSON is wanted, not {text!r}") from error
    if not isinstance(content, dict):
        raise ConfigError(f"a JSON object is wanted, not {text!r}")
    return content
