"""Prints a judgement of the running ROS graph as JSON: the part of `outrider doctor` that needs ROS."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict
from typing import Any

import rclpy
from nav_msgs.msg import Odometry
from rclpy.node import Node
from rclpy.qos import QoSCompatibility, qos_check_compatible
from sensor_msgs.msg import Image

from outrider.nodes import qos
from outrider.nodes.convert import seconds_of
from outrider.runtime.graph_health import GraphView, TopicView, judge_graph

LOOK_S = 3.0
NAME = "outrider_doctor"
WATCHED = {"/camera/image_raw": Image, "/odom": Odometry}


def take_view(node: Node, look_s: float = LOOK_S) -> GraphView:
    """Watch the graph for a while."""
    ages_s: dict[str, float | None] = dict.fromkeys(WATCHED)

    def note(topic: str, message: Any) -> None:
        ages_s[topic] = node.get_clock().now().nanoseconds * 1e-9 - seconds_of(message.header.stamp)

    for topic, kind in WATCHED.items():
        node.create_subscription(kind, topic, lambda m, topic=topic: note(topic, m), qos.LATEST_SENSOR)
    deadline_s = time.monotonic() + look_s
    while time.monotonic() < deadline_s:
        rclpy.spin_once(node, timeout_sec=0.1)
    topics = {name: _topic_view(node, name, types[0]) for name, types in node.get_topic_names_and_types()}
    nodes = tuple(name for name in node.get_node_names() if name != node.get_name())
    return GraphView(os.environ.get("ROS_DOMAIN_ID", "0"), nodes, topics, ages_s)


def _topic_view(node: Node, topic: str, kind: str) -> TopicView:
    publishers = node.get_publishers_info_by_topic(topic)
    subscribers = [s for s in node.get_subscriptions_info_by_topic(topic) if s.node_name != node.get_name()]
    mismatches = []
    for publisher in publishers:
        for subscriber in subscribers:
            fits, reason = qos_check_compatible(publisher.qos_profile, subscriber.qos_profile)
            if fits == QoSCompatibility.ERROR:
                mismatches.append(f"{publisher.node_name} -> {subscriber.node_name}: {reason}")
    return TopicView(
        kind,
        tuple(p.node_name for p in publishers if p.node_name != node.get_name()),
        tuple(sorted({s.node_name for s in subscribers})),
        tuple(mismatches),
    )


def main() -> int:
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
