"""The doctor's look at a real graph."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from conftest import Client, NodeThread, wait_until
from nav_msgs.msg import Odometry
from rclpy.qos import QoSProfile, ReliabilityPolicy
from support_ros import FakeBase

from outrider.nodes.action_node import ActionNode
from outrider.nodes.graph_check import take_view
from outrider.runtime.graph_health import Grade, judge_graph

pytestmark = pytest.mark.ros


def test_nodes_topics_ages_and_mismatches_are_seen(
    run_node: Callable[..., NodeThread], client: Client
) -> None:
    import rclpy

    run_node(ActionNode)
    FakeBase(client)
    strict = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE)
    client.node.create_subscription(Odometry, "odom", lambda _: None, strict)
    looker = rclpy.create_node("looker")
    try:
        wait_until(lambda: looker.count_subscribers("odom") >= 2, "discovery")
        view = take_view(looker)
    finally:
        looker.destroy_node()
    assert "action" in view.nodes and "looker" not in view.nodes
    assert view.topics["/cmd_vel"].publishers == ("action",)
    age_s = view.ages_s["/odom"]
    assert age_s is not None and 0.0 <= age_s < 5.0
    assert view.ages_s["/camera/image_raw"] is None
    checks = {check.name: check for check in judge_graph(view)}
    assert checks["QoS on /odom"].grade is Grade.FAIL and "test_client" in checks["QoS on /odom"].detail
    assert checks["publishers of /camera/image_raw"].grade is Grade.FAIL
