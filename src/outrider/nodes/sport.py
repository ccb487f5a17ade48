"""The Go2's sport API: requests with unique ids out, responses matched to them in."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

from unitree_api.msg import Request, Response

from outrider.core.errors import ConfigError
from outrider.core.values import Velocity

REQUEST_TOPIC = "/api/sport/request"
RESPONSE_TOPIC = "/api/sport/response"
BALANCE_STAND, STOP_MOVE, STAND_UP, MOVE = 1002, 1003, 1004, 1008
CODE_OK, CODE_UNKNOWN_API, CODE_BAD_PARAMETER = 0, 3203, 3205
MAX_OPEN_REQUESTS = 256


def request(request_id: int, api_id: int, velocity: Velocity | None = None) -> Any:
    """A request; only Move carries a velocity."""
    message = Request()
    message.header.identity.id = request_id
    message.header.identity.api_id = api_id
    if velocity is not None:
        message.parameter = json.dumps({"x": velocity.vx, "y": velocity.vy, "z": velocity.wz})
    return message


def response(message: Any, code: int) -> Any:
    """The answer to a request, carrying its identity."""
    answer = Response()
    answer.header.identity = message.header.identity
    answer.header.status.code = code
    return answer


def velocity_of(message: Any) -> Velocity:
    """The velocity of a Move request; ConfigError unless it is `{"x", "y", "z"}` of finite numbers."""
    try:
        content = json.loads(message.parameter)
        velocity = Velocity(float(content["x"]), float(content["y"]), float(content["z"]))
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"Move wants {{x, y, z}} in JSON, not {message.parameter!r}") from error
    if not all(math.isfinite(part) for part in (velocity.vx, velocity.vy, velocity.wz)):
        raise ConfigError(f"Move wants finite numbers, not {message.parameter!r}")
    return velocity


class SportClient:
    """Sends requests and remembers which are unanswered. Not thread-safe."""

    def __init__(self, publisher: Any, first_id: int) -> None:
        self._publisher = publisher
        self._ids = itertools.count(first_id)
        self._open: dict[int, int] = {}
        self.refused = 0

    def send(self, api_id: int, velocity: Velocity | None = None) -> None:
        request_id = next(self._ids)
        self._open[request_id] = api_id
        if len(self._open) > MAX_OPEN_REQUESTS:
            self._open.pop(next(iter(self._open)))
        self._publisher.publish(request(request_id, api_id, velocity))

    def on_response(self, message: Any) -> str:
        """Why the robot refused one of our requests, or an empty text; answers to others are not ours."""
        identity, code = message.header.identity, message.header.status.code
        if self._open.pop(identity.id, None) is None or code == CODE_OK:
            return ""
        self.refused += 1
        return f"the robot refused sport API call {identity.api_id} with code {code}"

    @property
    def unanswered(self) -> int:
        return len(self._open)
