# SPDX-License-Identifier: Apache-2.0
"""A DDS domain of one process, without threads and time: what is published is heard at the next `carry`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from typing import Any

from rclpy.qos import QoSProfile


class _Silence:
    """A logger that nobody reads."""

    def info(self, text: str, **_: Any) -> None: ...

    warning = error = info


@dataclass(eq=False)
class _Subscription:
    topic: str
    callback: Callable[[Any], None]
    unread: deque[Any]


@dataclass(eq=False)
class _Publisher:
    domain: VirtualDomain
    topic: str

    def publish(self, message: Any) -> None:
        for subscription in self.domain.subscriptions(self.topic):
            subscription.unread.append(message)

    def get_subscription_count(self) -> int:
        return len(self.domain.subscriptions(self.topic))


@dataclass(eq=False)
class VirtualNode:
    """What the base's commands use of an `OutriderNode` while they move; topics by their full names."""

    domain: VirtualDomain
    publishers: list[_Publisher] = field(default_factory=list)
    subscriptions: list[_Subscription] = field(default_factory=list)

    def publisher(self, message: type, topic: str, qos: QoSProfile) -> _Publisher:
        """Returns a new publisher to a topic of the domain."""
        self.publishers.append(_Publisher(self.domain, topic))
        return self.publishers[-1]

    def subscription(
        self, message: type, topic: str, callback: Callable[[Any], None], qos: QoSProfile
    ) -> _Subscription:
        """Keeps the newest `qos.depth` messages until they are heard."""
        self.subscriptions.append(_Subscription(topic, callback, deque(maxlen=qos.depth)))
        return self.subscriptions[-1]

    def go2_topic(self, name: str) -> str:
        """Returns the name unchanged."""
        return name

    def count_publishers(self, topic: str) -> int:
        """Returns the number of publishers to a topic in the domain."""
        return sum(p.topic == topic for node in self.domain.nodes for p in node.publishers)

    def get_logger(self) -> _Silence:
        """Returns a logger that drops everything."""
        return _Silence()


class VirtualDomain:
    """The nodes that are there, and what is on its way between them."""

    def __init__(self) -> None:
        self.nodes: list[VirtualNode] = []

    def join(self) -> VirtualNode:
        """A new node."""
        self.nodes.append(VirtualNode(self))
        return self.nodes[-1]

    def leave(self, node: VirtualNode) -> None:
        """A node whose process has ended."""
        self.nodes.remove(node)

    def subscriptions(self, topic: str) -> list[_Subscription]:
        """Returns the subscriptions to a topic in the domain."""
        return [s for node in self.nodes for s in node.subscriptions if s.topic == topic]

    def carry(self, dead: Container[VirtualNode] = ()) -> None:
        """Let everybody hear what was published since the last time; `dead` nodes hear nothing, ever."""
        heard: list[tuple[Callable[[Any], None], Any]] = []
        for node in self.nodes:
            for subscription in node.subscriptions:
                if node not in dead:
                    heard += [(subscription.callback, message) for message in subscription.unread]
                subscription.unread.clear()
        for callback, message in heard:
            callback(message)
