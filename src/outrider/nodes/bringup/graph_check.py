# SPDX-License-Identifier: Apache-2.0
"""Prints checks of the running ROS graph as JSON: the part of `outrider doctor` that needs ROS."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from nav_msgs.msg import Odometry
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.node import Node
from rclpy.qos import QoSCompatibility, qos_check_compatible
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import Image, LaserScan
from tf2_msgs.msg import TFMessage

from outrider.nodes.common import qos
from outrider.nodes.common.convert import seconds_of
from outrider.nodes.common.topic_watch import endpoint_of, type_of
from outrider.runtime.diagnosis.graph_health import CLOCK, judge_graph
from outrider.runtime.diagnosis.graph_view import GraphView, Mismatch, NodeView, TopicView
from outrider.runtime.diagnosis.topic_health import node_name
from outrider.runtime.node_graph.namespaces import spec_of_status

MEET_S, LOOK_S = 2.5, 3.0
SPIN_S = 0.05
NAME = "outrider_doctor"
STAMPED = {type_of(message): message for message in (Image, Odometry, LaserScan)}


class Looker:
    """Collects a snapshot of the graph through a node of its own."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._name = node_name(node.get_name(), node.get_namespace())
        self._nodes: dict[str, NodeView] = {}
        self._ages_s: dict[str, float | None] = {}
        self._frames: dict[str, str] = {}
        self._transforms: set[tuple[str, str]] = set()
        self._clock_s: float | None = None
        self._read: set[str] = set()

    def meet(self) -> None:
        """Read diagnostics and tf under any topic name, and the simulated clock."""
        for topic, types in self._node.get_topic_names_and_types():
            if type_of(DiagnosticArray) in types:
                self._listen(DiagnosticArray, topic, self._on_diagnostics)
            elif type_of(TFMessage) in types:
                self._listen(TFMessage, topic, self._on_transforms)
            elif topic == CLOCK and type_of(Clock) in types:
                self._listen(Clock, topic, self._on_clock)

    def watch_inputs(self) -> None:
        """Read the stamped topics that Outrider's nodes read."""
        view = self.view()
        for node in view.nodes:
            for type_name, message in STAMPED.items():
                for topic in view.read_by(node, type_name):
                    self._ages_s.setdefault(topic, None)
                    self._listen(message, topic, lambda m, topic=topic: self._on_stamped(topic, m))

    def view(self) -> GraphView:
        """Returns the snapshot of nodes, topics, ages and transforms."""
        topics = {name: self._topic(name) for name, _ in self._node.get_topic_names_and_types()}
        nodes = tuple(self._nodes[name] for name in sorted(self._nodes))
        domain = os.environ.get("ROS_DOMAIN_ID", "0")
        return GraphView(domain, nodes, topics, self._ages_s, self._frames, frozenset(self._transforms))

    def _listen(self, message: type, topic: str, callback: Any) -> None:
        if topic in self._read:
            return
        self._read.add(topic)
        # Static transforms are latched; a best-effort subscription would miss them.
        profiles = [qos.ALL_LATCHED, qos.FROM_ANY] if message is TFMessage else [qos.FROM_ANY]
        with contextlib.suppress(rclpy_implementation.RCLError):  # of another type, which the checks report
            for profile in profiles:
                self._node.create_subscription(
                    message, topic, callback, profile, event_callbacks=qos.without_events()
                )

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            spec = spec_of_status(status.name)
            if spec:
                values = {item.key: item.value for item in status.values}
                name, warning = values.get("node", spec), "" if status.message == "ok" else status.message
                self._nodes[name] = NodeView(name, spec, warning, values)

    def _on_transforms(self, message: TFMessage) -> None:
        self._transforms |= {(t.header.frame_id, t.child_frame_id) for t in message.transforms}

    def _on_clock(self, message: Clock) -> None:
        self._clock_s = seconds_of(message.clock)

    def _on_stamped(self, topic: str, message: Any) -> None:
        self._ages_s[topic] = self._now_s() - seconds_of(message.header.stamp)
        self._frames[topic] = message.header.frame_id

    def _now_s(self) -> float:
        """Returns the time on the clock that Outrider's nodes use."""
        simulated = any(node.values.get("use_sim_time") == "True" for node in self._nodes.values())
        if simulated and self._clock_s is not None:
            return self._clock_s
        return float(self._node.get_clock().now().nanoseconds * 1e-9)

    def _topic(self, topic: str) -> TopicView:
        publishers = self._foreign(self._node.get_publishers_info_by_topic(topic))
        readers = self._foreign(self._node.get_subscriptions_info_by_topic(topic))
        return TopicView(
            tuple(endpoint_of(end) for end in publishers),
            tuple(endpoint_of(end) for end in readers),
            tuple(_mismatches(publishers, readers)),
        )

    def _foreign(self, ends: Iterable[Any]) -> list[Any]:
        return [end for end in ends if endpoint_of(end).node != self._name]


def _mismatches(publishers: Iterable[Any], readers: Iterable[Any]) -> Iterable[Mismatch]:
    """Yields pairs whose QoS does not match.

    A node with several subscriptions to a topic is reported only if none of them matches.
    """
    publishers, readers = list(publishers), list(readers)
    for publisher in publishers:
        verdicts: dict[str, list[str]] = {}
        for reader in readers:
            fits, reason = qos_check_compatible(publisher.qos_profile, reader.qos_profile)
            mismatch = reason.strip(" ;") if fits == QoSCompatibility.ERROR else ""
            verdicts.setdefault(endpoint_of(reader).node, []).append(mismatch)
        for reader_node, reasons in verdicts.items():
            if all(reasons):
                yield Mismatch(endpoint_of(publisher).node, reader_node, reasons[0])


def take_view(node: Node, look_s: float = LOOK_S, meet_s: float = MEET_S) -> GraphView:
    """Returns a view of the graph: finds nodes for `meet_s`, then watches their topics for `look_s`."""
    looker = Looker(node)
    _spin(node, meet_s, looker.meet)
    looker.watch_inputs()
    _spin(node, look_s, looker.meet)
    return looker.view()


def _spin(node: Node, duration_s: float, each_time: Any) -> None:
    deadline_s = time.monotonic() + duration_s
    while time.monotonic() < deadline_s:
        each_time()
        rclpy.spin_once(node, timeout_sec=SPIN_S)


def main() -> int:
    """Prints the checks of the running ROS graph as JSON; returns 0."""
    rclpy.init()
    node = rclpy.create_node(NAME)
    try:
        checks = judge_graph(take_view(node))
    finally:
        node.destroy_node()
        rclpy.shutdown()
    json.dump([asdict(check) for check in checks], sys.stdout)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
