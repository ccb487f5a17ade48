# SPDX-License-Identifier: Apache-2.0
"""A snapshot of a running ROS graph, without ROS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from outrider.runtime.diagnosis.topic_health import Endpoint


@dataclass(frozen=True)
class Mismatch:
    """A publisher and a reader of one topic whose QoS does not fit, by their nodes, and why not."""

    publisher: str
    reader: str
    reason: str


@dataclass(frozen=True)
class TopicView:
    """Who is at a topic, with which types, and which pairs do not fit."""

    publishers: tuple[Endpoint, ...] = ()
    readers: tuple[Endpoint, ...] = ()
    mismatches: tuple[Mismatch, ...] = ()


@dataclass(frozen=True)
class NodeView:
    """A node of ours, under whatever name and namespace, with its own diagnosis (empty: it is well)."""

    name: str
    spec: str
    warning: str = ""
    values: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class GraphView:
    """Our nodes, topics by full name, and what came while the graph was watched.

    `ages_s` is of the newest message of each topic with a stamp (None: none came), `frames` the frame of the
    newest message, and `transforms` the pairs (parent, child) of tf.
    """

    domain: str
    nodes: tuple[NodeView, ...] = ()
    topics: Mapping[str, TopicView] = field(default_factory=dict)
    ages_s: Mapping[str, float | None] = field(default_factory=dict)
    frames: Mapping[str, str] = field(default_factory=dict)
    transforms: frozenset[tuple[str, str]] = frozenset()

    def topic(self, name: str) -> TopicView:
        """Who is at a topic; nobody where it is not there."""
        return self.topics.get(name, TopicView())

    def read_by(self, node: NodeView, message: str) -> list[str]:
        """The topics of a type that a node reads, under the names that they have been remapped to."""
        return self._with(node, message, "readers")

    def published_by(self, node: NodeView, message: str) -> list[str]:
        """The topics of a type that a node publishes."""
        return self._with(node, message, "publishers")

    def _with(self, node: NodeView, message: str, side: str) -> list[str]:
        end = Endpoint(node.name, message)
        return [name for name, topic in sorted(self.topics.items()) if end in getattr(topic, side)]
