# SPDX-License-Identifier: Apache-2.0
"""Finds faults of the publishers and subscribers of one topic. Needs no ROS."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

TWIST = "geometry_msgs/msg/Twist"
TWIST_STAMPED = "geometry_msgs/msg/TwistStamped"
VELOCITIES = {TWIST: "twist", TWIST_STAMPED: "twist_stamped"}
"""The types of velocity commands, and the `command_interface` that publishes each."""


@dataclass(frozen=True)
class Endpoint:
    """One publisher or subscription of a topic: its node, by name and namespace, and its type."""

    node: str
    type: str


def node_name(name: str, namespace: str) -> str:
    """Returns a node's usual name: with its namespace, without the leading slash."""
    return f"{namespace.strip('/')}/{name}".strip("/")


def wrong_publishers(topic: str, expected: str, publishers: Iterable[Endpoint], role: str = "read") -> str:
    """Returns which nodes publish a topic with another type than `expected`; empty if none does.

    `role` is what this side does with the topic: "read" or "published".
    """
    wrong = [publisher for publisher in publishers if publisher.type != expected]
    if not wrong:
        return ""
    return (
        f"{topic} is published as {_types(wrong)} by {_nodes(wrong)} and {role} as {expected}: "
        "publish that type, or remap one of the two"
    )


def wrong_subscribers(topic: str, published: str, subscribers: Iterable[Endpoint]) -> str:
    """Returns which nodes read a topic with another type than is published; empty if none does."""
    wrong = [subscriber for subscriber in subscribers if subscriber.type != published]
    if not wrong:
        return ""
    interface = VELOCITIES.get(wrong[0].type) if published in VELOCITIES else None
    remedy = f"set command_interface:={interface}" if interface else "let it read that type"
    return (
        f"{topic} is read as {_types(wrong)} by {_nodes(wrong)} and published as {published}: "
        f"{remedy}, or remap one of the two"
    )


def several_publishers(topic: str, publishers: Sequence[Endpoint]) -> str:
    """Returns the publishers of a topic that may have only one; empty if there is at most one."""
    if len(publishers) < 2:
        return ""
    return (
        f"{len(publishers)} publishers of {topic} ({_nodes(publishers)}): let one alone publish it, or remap "
        "the others; one that died counts for some seconds more"
    )


def _types(endpoints: Iterable[Endpoint]) -> str:
    return " and ".join(sorted({endpoint.type for endpoint in endpoints}))


def _nodes(endpoints: Iterable[Endpoint]) -> str:
    return ", ".join(sorted({endpoint.node for endpoint in endpoints}))
