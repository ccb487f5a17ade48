# SPDX-License-Identifier: Apache-2.0
"""Calls one Go2 service: sends requests with its own ids, matches responses, and keeps deadlines."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from outrider.nodes.common import qos
from outrider.nodes.common.node import OutriderNode
from outrider.nodes.go2 import go2_api

POLL_S = 0.005


@dataclass(frozen=True)
class Answer:
    """The result of a call. Its code is 0 for success, and None if the deadline passed without an answer."""

    api_id: int
    code: int | None
    data: str = ""
    binary: bytes = b""
    took_s: float = 0.0

    @property
    def is_ok(self) -> bool:
        """Whether the robot reported success."""
        return self.code == go2_api.CODE_OK


@dataclass(frozen=True)
class _Open:
    api_id: int
    sent_s: float
    due_s: float
    then: Callable[[Answer], None]
    must_answer: bool


class ServiceClient:
    """A client of one service. Not thread-safe.

    The robot keeps only one unread request. So an answer also settles every older call, except those with
    `must_answer`.
    """

    def __init__(
        self,
        service: str,
        publish: Callable[[Any], None],
        is_connected: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
        first_id: int = 1,
        poll: Callable[[], Any | None] = lambda: None,
        topic: str = "",
    ) -> None:
        self.service, self.topic = service, topic or go2_api.request_topic(service)
        self.clock = clock
        self._publish, self._is_connected, self._poll = publish, is_connected, poll
        self._first_id = self._next_id = first_id
        self._open: dict[int, _Open] = {}

    def is_connected(self) -> bool:
        """Whether there is a subscriber for requests and a publisher of responses."""
        return self._is_connected()

    def call(
        self,
        api_id: int,
        parameter: str,
        deadline_s: float,
        then: Callable[[Answer], None],
        must_answer: bool = False,
    ) -> None:
        """Send now. `then` is called at most once: with the answer, or by `expire` after the deadline."""
        request_id, now_s = self._next_id, self.clock()
        self._next_id += 1
        self._open[request_id] = _Open(api_id, now_s, now_s + deadline_s, then, must_answer)
        self._publish(go2_api.request(request_id, api_id, parameter))

    def on_response(self, message: Any) -> None:
        """Take a response; responses to other programs' requests are ignored."""
        identity = message.header.identity
        call = self._open.get(identity.id)
        if call is None or call.api_id != identity.api_id:
            return
        self._open = {
            number: open_
            for number, open_ in self._open.items()
            if number > identity.id or (open_.must_answer and number != identity.id)
        }
        code = message.header.status.code
        took_s = self.clock() - call.sent_s
        call.then(Answer(call.api_id, code, message.data, go2_api.binary_of(message), took_s))

    def is_own(self, request: Any) -> bool:
        """Whether a request on this service's topic was sent by this client."""
        return bool(self._first_id <= request.header.identity.id < self._next_id)

    def expire(self) -> None:
        """End the calls whose deadline has passed."""
        now_s = self.clock()
        overdue = [number for number, call in self._open.items() if now_s > call.due_s]
        for number in overdue:
            call = self._open.pop(number, None)
            if call is not None:
                call.then(Answer(call.api_id, None))

    def settle(self, timeout_s: float) -> None:
        """Block until no call is open. It is for use when no executor takes the responses any more."""
        deadline_s = self.clock() + timeout_s
        while self._open and self.clock() < deadline_s:
            message = self._poll()
            if message is None:
                time.sleep(POLL_S)
            else:
                self.on_response(message)

    @property
    def unanswered(self) -> int:
        """Returns the number of open calls."""
        return len(self._open)


def open_service(
    node: OutriderNode, service: str, clock: Callable[[], float] = time.monotonic
) -> ServiceClient:
    """Returns a client of a service, with its topics on a node."""
    answers = node.go2_topic(go2_api.response_topic(service))
    requests = node.go2_topic(go2_api.request_topic(service))
    publisher = node.publisher(go2_api.Request, requests, qos.EVENTS)

    def is_connected() -> bool:
        answering = node.count_publishers(answers)
        return bool(publisher.get_subscription_count() and answering)

    def poll() -> Any | None:
        taken = subscription.handle.take_message(go2_api.Response, False)
        return taken and taken[0]

    client = ServiceClient(
        service,
        publisher.publish,
        is_connected,
        clock,
        # Ids must not repeat those of an earlier run, whose answers may still arrive.
        first_id=time.monotonic_ns(),
        poll=poll,
        topic=requests,
    )
    subscription = node.subscription(go2_api.Response, answers, client.on_response, qos.EVENTS)
    return client
