# SPDX-License-Identifier: Apache-2.0
"""Subscriptions that do not wake the executor while the time of arrival does not matter.

A message that wakes rclpy's executor costs many times as much as reading it from the queue: the executor
builds its whole wait set anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from rclpy.callback_groups import CallbackGroup
from rclpy.exceptions import InvalidHandle

from outrider.navigation.clocks import Arrivals, Moment
from outrider.nodes.common.node import OutriderNode

OnMessage = Callable[[Any, float], None]
"""Takes a message and its arrival in seconds of the node's `now_s`, never before the topic's last one."""
Received = tuple[Any, dict[str, Any]]
"""A message, and the middleware's information about it."""


class Gate(CallbackGroup):
    """Subscriptions of a node, in its default group. The executor waits for them only while `is_open`.

    Call `read` from callbacks of the default group: often while the gate is closed, and when it opens.
    """

    def __init__(self, node: OutriderNode) -> None:
        super().__init__()
        self._node, self._inner = node, node.default_callback_group
        self._deliveries: dict[Any, Callable[[list[Received], Moment], None]] = {}
        self._read_at = self._now()
        self.is_open = False

    def subscription(self, message: type, topic: str, callback: OnMessage, qos: Any, **more: Any) -> None:
        """Subscribe as the node does. Between two reads the queue keeps as many messages as its depth."""
        deliver = partial(self._deliver, callback, Arrivals())

        def deliver_now(received: Any, info: dict[str, Any]) -> None:
            deliver([(received, info)], self._read_at)

        entity = self._node.subscription(message, topic, deliver_now, qos, callback_group=self, **more)
        self._deliveries[entity] = deliver

    def read(self) -> None:
        """Call back for every waiting message, topic by topic, oldest first."""
        since, self._read_at = self._read_at, self._now()
        for entity, deliver in list(self._deliveries.items()):
            deliver(_take_waiting(entity), since)

    def discard(self) -> None:
        """Drop all waiting messages."""
        self._read_at = self._now()
        for entity in list(self._deliveries):
            _take_waiting(entity)

    def _deliver(
        self, callback: OnMessage, arrivals: Arrivals, received: list[Received], since: Moment
    ) -> None:
        """Call back for messages that came after `since`, each with its time of arrival."""
        now, system_ns = self._now(), time.time_ns()
        waits_s = [(system_ns - int(info.get("received_timestamp") or 0)) * 1e-9 for _, info in received]
        for (message, _), came_s in zip(received, arrivals.take(waits_s, since, now), strict=True):
            callback(message, came_s)

    def _now(self) -> Moment:
        return Moment(self._node.now_s(), time.monotonic())

    # The interface that rclpy's executors need from a group.

    def add_entity(self, entity: Any) -> None:
        """Add a subscription to this group and to the node's."""
        super().add_entity(entity)
        self._inner.add_entity(entity)

    def can_execute(self, entity: Any) -> bool:
        """Whether the gate is open and the node's group permits it."""
        return self.is_open and bool(self._inner.can_execute(entity))

    def beginning_execution(self, entity: Any) -> bool:
        """Claim the node's group for a callback; False while the gate is closed."""
        return self.is_open and bool(self._inner.beginning_execution(entity))

    def ending_execution(self, entity: Any) -> None:
        """Release the node's group."""
        self._inner.ending_execution(entity)


def _take_waiting(entity: Any) -> list[Received]:
    """Returns a subscription's waiting messages, at most its depth, so that a fast one does not block."""
    messages: list[Received] = []
    try:
        with entity.handle:
            while len(messages) < entity.qos_profile.depth:
                received = entity.handle.take_message(entity.msg_type, entity.raw)
                if received is None:
                    break
                messages.append(received)
    except InvalidHandle:  # destroyed meanwhile
        pass
    return messages
