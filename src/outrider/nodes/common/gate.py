# SPDX-License-Identifier: Apache-2.0
"""Subscriptions that wake no executor while nothing depends on the moment that a message comes.

A message that wakes rclpy's executor costs many times what reading it from the queue does: the executor
builds its whole wait set anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

from rclpy.callback_groups import CallbackGroup
from rclpy.exceptions import InvalidHandle

from outrider.nodes.common.node import OutriderNode

OnMessage = Callable[[Any, float], None]
"""Takes a message, and for how many seconds of the node's `now_s` it has waited."""


class Gate(CallbackGroup):
    """Subscriptions of a node, in its default group. The executor waits for them only while `is_open`.

    Call `read` from the default group's callbacks: often while the gate is closed, and when it opens.
    """

    def __init__(self, node: OutriderNode) -> None:
        super().__init__()
        self._node, self._inner = node, node.default_callback_group
        self._callbacks: dict[Any, OnMessage] = {}
        self._read_s = time.monotonic(), node.now_s()
        self.is_open = False

    def subscription(self, message: type, topic: str, callback: OnMessage, qos: Any, **more: Any) -> None:
        """Subscribe as the node does. Between two reads the queue keeps as many messages as its depth."""
        at_once = partial(_at_once, callback)
        entity = self._node.subscription(message, topic, at_once, qos, callback_group=self, **more)
        self._callbacks[entity] = callback

    def read(self) -> None:
        """Call back for every message that waits, topic by topic, the oldest first."""
        before_real_s, before_s = self._read_s
        real_s, now_s = self._read_s = time.monotonic(), self._node.now_s()
        # One second of real time in the node's seconds, which a simulation counts.
        pace = max(0.0, now_s - before_s) / max(1e-9, real_s - before_real_s)
        for entity, callback in list(self._callbacks.items()):
            taken = _taken(entity)
            waits = _waits_s([info for _, info in taken], real_s - before_real_s)
            for (message, _), waited_s in zip(taken, waits, strict=True):
                callback(message, waited_s * pace)

    def discard(self) -> None:
        """Drop what waits."""
        self._read_s = time.monotonic(), self._node.now_s()
        for entity in list(self._callbacks):
            _taken(entity)

    # What rclpy's executors ask of a group.

    def add_entity(self, entity: Any) -> None:
        """Adds a subscription to this group and to the node's."""
        super().add_entity(entity)
        self._inner.add_entity(entity)

    def can_execute(self, entity: Any) -> bool:
        """Whether the gate is open and the node's group permits it."""
        return self.is_open and bool(self._inner.can_execute(entity))

    def beginning_execution(self, entity: Any) -> bool:
        """Claims the node's group for a callback; False while the gate is closed."""
        return self.is_open and bool(self._inner.beginning_execution(entity))

    def ending_execution(self, entity: Any) -> None:
        """Releases the node's group."""
        self._inner.ending_execution(entity)


def _at_once(callback: OnMessage, message: Any) -> None:
    callback(message, 0.0)


def _taken(entity: Any) -> list[tuple[Any, dict[str, Any]]]:
    """What waits in a subscription's queue, and no more: one that fills faster does not hold the reader."""
    messages: list[tuple[Any, dict[str, Any]]] = []
    try:
        with entity.handle:
            while len(messages) < entity.qos_profile.depth:
                taken = entity.handle.take_message(entity.msg_type, entity.raw)
                if taken is None:
                    break
                messages.append(taken)
    except InvalidHandle:  # destroyed meanwhile
        pass
    return messages


def _waits_s(infos: Sequence[dict[str, Any]], span_s: float) -> list[float]:
    """Real seconds that each message of the last `span_s` has waited, as the middleware says.

    Where it does not say, or the system's clock was set, they count as having come evenly.
    """
    now_ns, number = time.time_ns(), len(infos)
    waits = [(now_ns - int(info.get("received_timestamp") or 0)) * 1e-9 for info in infos]
    in_order = all(longer >= shorter for longer, shorter in pairwise([span_s, *waits, 0.0]))
    return waits if in_order else [span_s * (number - 1 - i) / number for i in range(number)]
