# SPDX-License-Identifier: Apache-2.0
"""Reads a topic of velocities as Twist or TwistStamped, whichever is published."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from geometry_msgs.msg import Twist, TwistStamped
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.qos import QoSProfile

from outrider.nodes.common.node import OutriderNode
from outrider.nodes.common.qos import without_events
from outrider.nodes.common.topic_watch import type_of

OnTwist = Callable[[Twist, dict[str, Any]], None]
TYPES = {type_of(message): message for message in (Twist, TwistStamped)}


class TwistInput:
    """Calls back with (twist, message info). It lives until the node's cleanup.

    A DDS participant has one type for each topic, so there is a single subscription. It changes its type
    when only the other type is published. If both are, it stays, and the node's watch reports the other.
    """

    def __init__(
        self,
        node: OutriderNode,
        topic: str,
        callback: OnTwist,
        qos: QoSProfile,
    ) -> None:
        self._node, self._topic, self._callback, self._qos = node, topic, callback, qos
        self._name = node.resolve_topic_name(topic)
        self._type: type = Twist
        self._subscription: Any = None
        self._subscribe()
        node.keep(node.watch.also(self._look), lambda end: end())
        node.keep(self, lambda _: self._unsubscribe())

    def _subscribe(self) -> None:
        self._subscription = self._node.create_subscription(
            self._type, self._topic, self._take, self._qos, event_callbacks=without_events()
        )
        self._node.watch.add(self._subscription, self._topic, exclude_own=True)

    def _unsubscribe(self) -> None:
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            self._node.watch.remove(subscription)
            self._node.destroy_subscription(subscription)

    def _take(self, message: Any, info: dict[str, Any]) -> None:
        self._callback(message.twist if isinstance(message, TwistStamped) else message, info)

    def _look(self) -> None:
        published = {end.topic_type for end in self._node.get_publishers_info_by_topic(self._name)}
        usable = published & set(TYPES)
        if usable and type_of(self._type) not in usable:
            self._type = TYPES[usable.pop()]
            self._unsubscribe()
        if self._subscription is None:
            # The executor may hold the old subscription, and its type, a little longer.
            with contextlib.suppress(rclpy_implementation.RCLError):
                self._subscribe()
