# SPDX-License-Identifier: Apache-2.0
"""Watches the other ends of a node's topics: wrong types, several publishers, incompatible QoS."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from rclpy.duration import Infinite
from rclpy.node import Node
from rclpy.qos import LivelinessPolicy, QoSCompatibility, QoSProfile, qos_check_compatible

from outrider.runtime.diagnosis.topic_health import (
    VELOCITIES,
    Endpoint,
    node_name,
    several_publishers,
    wrong_publishers,
    wrong_subscribers,
)

LOOK_PERIOD_S = 0.25
"""How often a node checks its topics."""


@dataclass(frozen=True)
class _Watched:
    topic: str
    name: str
    type: str
    qos: Any
    is_publisher: bool
    alone: bool
    exclude_own: bool


class TopicWatch:
    """Checks the other ends of a node's publishers and subscriptions.

    `add` each of them, call `look` periodically, and read `fault`. Faults are publishers of another type
    than the node reads or publishes, and bases that read velocities of another type. QoS is a fault only if
    no other end is compatible, since an observing tool with its own QoS does no harm.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._watched: dict[Any, _Watched] = {}
        self._faults: dict[str, str] = {}
        self._also: list[Callable[[], None]] = []

    def add(self, entity: Any, topic: str, alone: bool = False, exclude_own: bool = False) -> None:
        """Watch a publisher or subscription.

        `topic` is its name before remappings, which `fault` uses. With `alone` a subscription may have one
        publisher only. With `exclude_own` no publisher may be in this node, which is checked at once.
        """
        is_publisher = hasattr(entity, "publish")
        type_name = type_of(entity.msg_type)
        name, profile = entity.topic_name, _explicit(entity.qos_profile)
        watched = _Watched(topic, name, type_name, profile, is_publisher, alone, exclude_own)
        self._watched[entity] = watched
        if own_fault := self._own_publisher_fault(watched):
            self._faults[topic] = own_fault

    def remove(self, entity: Any) -> None:
        """Stop watching it; safe for one that was never added."""
        watched = self._watched.pop(entity, None)
        if watched is not None:
            self._faults = {topic: text for topic, text in self._faults.items() if topic != watched.topic}

    def also(self, look: Callable[[], None]) -> Callable[[], None]:
        """Call `look` at every check too. Returns a function that ends this."""
        self._also.append(look)
        return lambda: self._also.remove(look)

    def look(self) -> None:
        """Check all topics again."""
        faults: dict[str, str] = {}
        for watched in list(self._watched.values()):
            fault = self._fault_of(watched)
            if fault:
                faults.setdefault(watched.topic, fault)
        self._faults = faults
        for look in list(self._also):
            look()

    def fault(self, *topics: str) -> str:
        """Returns the first fault of these topics at the last check; empty if none.

        Without topics it covers all.
        """
        faults = self._faults
        return next((faults[topic] for topic in topics or faults if topic in faults), "")

    def _own_publisher_fault(self, watched: _Watched) -> str:
        """Returns a fault if the node would read what it publishes itself, or an empty text."""
        own = any(known.is_publisher and known.name == watched.name for known in self._watched.values())
        if not (watched.exclude_own and own):
            return ""
        return (
            f"{watched.name} is read for {watched.topic} and published by this node itself: remap one of them"
        )

    def _fault_of(self, watched: _Watched) -> str:
        publishers = self._node.get_publishers_info_by_topic(watched.name)
        role = "published" if watched.is_publisher else "read"
        fault = self._own_publisher_fault(watched)
        fault = fault or wrong_publishers(watched.name, watched.type, _endpoints(publishers), role)
        if not watched.is_publisher:
            several = several_publishers(watched.name, _endpoints(publishers)) if watched.alone else ""
            return fault or several or _qos_fault(watched, publishers)
        if fault or watched.type not in VELOCITIES:
            return fault
        readers = self._node.get_subscriptions_info_by_topic(watched.name)
        fault = wrong_subscribers(watched.name, watched.type, _endpoints(readers))
        return fault or _qos_fault(watched, readers)


def endpoint_of(info: Any) -> Endpoint:
    """Returns an rclpy `TopicEndpointInfo` as a type without ROS."""
    return Endpoint(node_name(info.node_name, info.node_namespace), info.topic_type)


def type_of(message: type) -> str:
    """Returns a message type's name as in the graph: `geometry_msgs/msg/Twist`."""
    return f"{message.__module__.partition('.')[0]}/msg/{message.__name__}"


def _endpoints(infos: Iterable[Any]) -> list[Endpoint]:
    return [endpoint_of(info) for info in infos]


def _explicit(profile: QoSProfile) -> QoSProfile:
    """Returns a profile as the graph shows it: unset values mean no limit."""
    return QoSProfile(
        depth=profile.depth,
        reliability=profile.reliability,
        durability=profile.durability,
        deadline=Infinite,
        liveliness_lease_duration=Infinite,
        liveliness=LivelinessPolicy.AUTOMATIC,
    )


def _qos_fault(watched: _Watched, other_ends: list[Any]) -> str:
    """Returns why no other end's QoS is compatible; empty if one is, or if there is none."""
    reasons = []
    for other in other_ends:
        offered, requested = (watched.qos, other.qos_profile)[:: 1 if watched.is_publisher else -1]
        fits, reason = qos_check_compatible(offered, requested)
        if fits != QoSCompatibility.ERROR:
            return ""
        reasons.append(f"{endpoint_of(other).node}: {reason.strip(' ;')}")
    if not reasons:
        return ""
    role = "readers" if watched.is_publisher else "publishers"
    return f"the QoS of {watched.name} does not fit that of its {role} ({', '.join(reasons)}): change theirs"
