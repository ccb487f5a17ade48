"""The doctor's checks of real graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import rclpy
from conftest import Client, NodeThread, wait_until
from nav_msgs.msg import Odometry
from rclpy.node import Node
from support_ros import FakeBase

from outrider.nodes.base.action_node import ActionNode
from outrider.nodes.bringup.graph_check import take_view
from outrider.nodes.common import qos
from outrider.runtime.diagnosis.graph_health import Check, Grade, judge_graph

pytestmark = pytest.mark.ros


@pytest.fixture
def looker(ros: None) -> Iterator[Node]:
    node = rclpy.create_node("looker")
    yield node
    node.destroy_node()


def checks_of(looker: Node) -> dict[str, Check]:
    return {check.name: check for check in judge_graph(take_view(looker, look_s=0.5))}


def test_nodes_topics_ages_and_mismatches_are_seen(
    run_node: Callable[..., NodeThread], client: Client, looker: Node
) -> None:
    run_node(ActionNode)
    FakeBase(client)
    client.node.create_subscription(Odometry, "odom", lambda _: None, qos.EVENTS)
    wait_until(lambda: looker.count_subscribers("odom") >= 2, "discovery")
    view = take_view(looker, look_s=0.5)
    assert [node.name for node in view.nodes] == ["action"]
    assert [end.node for end in view.topics["/cmd_vel"].publishers] == ["action"]
    age_s = view.ages_s["/odom"]
    assert age_s is not None and 0.0 <= age_s < 5.0
    checks = {check.name: check for check in judge_graph(view)}
    assert checks["QoS on /odom"].grade is Grade.WARN and "test_client" in checks["QoS on /odom"].detail
    assert checks["velocity commands"].grade is Grade.OK
    assert not [check for check in checks.values() if check.grade is Grade.FAIL]


def test_a_robot_of_another_name_and_namespace_with_remapped_topics_is_judged_by_them(
    run_node: Callable[..., NodeThread], client: Client, looker: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = ["__ns:=/robot1", "__node:=pilot", "odom:=/odom", "scan:=/scan", "cmd_vel:=/cmd_vel"]
    arguments = ["--ros-args"] + [word for rule in rules for word in ("-r", rule)]
    original = Node.__init__

    def remapped(self: Node, name: str, **more: object) -> None:
        given = {"cli_args": arguments} if name == "action" else {}
        original(self, name, **more, **given)  # type: ignore[arg-type]

    monkeypatch.setattr(Node, "__init__", remapped)
    run_node(ActionNode)
    FakeBase(client)
    checks = checks_of(looker)
    assert "robot1/pilot" in checks["ROS graph"].detail
    assert checks["publishers of /odom"].grade is checks["velocity commands"].grade is Grade.OK
    assert not [check for check in checks.values() if check.grade is Grade.FAIL]
