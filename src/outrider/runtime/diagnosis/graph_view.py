# SPDX-License-Identifier: Apache-2.0
"""A snapshot of a running ROS graph, without ROS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from outrider.runtime.diagnosis.topic_health import Endpoint


@dataclass(frozen=True)
class Mismatch:
    """A publisher and a reader of one topic with incompatible QoS: their nodes, and the reason."""

    publisher: str
    reader: str
    reason: str


@dataclass(frozen=True)
class TopicView:
    """The publishers and readers of a topic with their types, and the incompatible pairs."""

    publishers: tuple[Endpoint, ...] = ()
    readers: tuple[Endpoint, ...] = ()
    mismatches: tuple[Mismatch, ...] = ()


@dataclass(frozen=True)
class NodeView:
    """A node of Outrider, under any name and namespace, with its own warning, empty for none."""

    name: str
    spec: str
    warning: str = ""
    values: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class GraphView:
    """Outrider's nodes, all topics by full name, and data of the messages received during the watch.

    `ages_s` is the age of each stamped topic's newest message (None: none came), `frames` that message's
    frame, and `transforms` the pairs (parent, child) of tf.
    """

    domain: str
    nodes: tuple[NodeView, ...] = ()
    topics: Mapping[str, TopicView] = field(default_factory=dict)
    ages_s: Mapping[str, float | None] = field(default_factory=dict)
    frames: Mapping[str, str] = field(default_factory=dict)
    transforms: frozenset[tuple[str, str]] = frozenset()

    def topic(self, name: str) -> TopicView:
        """Returns the publishers and readers of a topic; none if there is no such topic."""
        return self.topics.get(name, TopicView())

    def read_by(self, node: NodeView, message: str) -> list[str]:
        """Returns the topics of a type that a node reads, by their names after remappings."""
        return self._with(node, message, "readers")

    def published_by(self, node: NodeView, message: str) -> list[str]:
        """Returns the topics of a type that a node publishes."""
        return self._with(node, message, "publishers")

    def _with(self, node: NodeView, message: str, side: str) -> list[str]:
        end = Endpoint(node.name, message)
        return [name for name, topic in sorted(self.topics.items()) if end in getattr(topic, side)]
