"""Publishers and readers of other types and QoS at the action node's topics; people may use any QoS."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import rclpy
from conftest import Client, NodeThread, spin_once, wait_until
from geometry_msgs.msg import Twist, TwistStamped
from outrider_interfaces.msg import MotionReport, VerifiedText
from rclpy.executors import SingleThreadedExecutor
from rclpy.lifecycle import LifecycleNode
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import Image, LaserScan, PointCloud2
from std_msgs.msg import Bool, Empty, String
from support_ros import FakeBase, ImpatientAction, PatientAction, Speaker

from outrider.core.values import Velocity
from outrider.nodes.base.action_node import ActionNode
from outrider.nodes.common import convert, qos

pytestmark = pytest.mark.ros
Run = Callable[..., NodeThread]
EVERY_QOS = [
    QoSProfile(depth=1, reliability=reliability, durability=durability)
    for reliability in (ReliabilityPolicy.RELIABLE, ReliabilityPolicy.BEST_EFFORT)
    for durability in (DurabilityPolicy.VOLATILE, DurabilityPolicy.TRANSIENT_LOCAL)
]


class Stranger:
    """A node in a DDS participant of its own: a participant has only one type for each topic."""

    def __init__(self) -> None:
        self._context = rclpy.Context()
        rclpy.init(context=self._context)
        self.node = rclpy.create_node("stranger", context=self._context)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self.node)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._spin, daemon=True)
        self._thread.start()

    def _spin(self) -> None:
        while not self._stopping.is_set():
            spin_once(self._executor, 0.02)

    def repeat(self, message: Any, topic: str, profile: QoSProfile, period_s: float = 0.02) -> Any:
        """Returns a publisher that repeats a message."""
        publisher = self.node.create_publisher(type(message), topic, profile)
        self.node.create_timer(period_s, lambda: publisher.publish(message))
        return publisher

    def close(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._executor.shutdown()
        self.node.destroy_node()
        rclpy.shutdown(context=self._context)


@pytest.fixture
def stranger(ros: None) -> Iterator[Stranger]:
    made = Stranger()
    yield made
    made.close()


def start(
    run_node: Run,
    client: Client,
    listens: bool = True,
    action: type[ActionNode] = PatientAction,
    **parameters: float,
) -> tuple[Any, FakeBase, Speaker]:
    node = run_node(lambda: action(parameters)).node
    base, speaker = FakeBase(client, listens), Speaker(client)
    wait_until(lambda: node._odometry and node._scan and node.health()[0] == "", "a robot that is well")
    return node, base, speaker


@pytest.mark.parametrize(
    ("topic", "wrong"),
    [
        ("e_stop", Empty),
        ("odom", String),
        ("scan", PointCloud2),
        ("verified_text", String),
        ("cmd_vel_joy", Bool),
        ("cmd_vel_console", String),
        ("cmd_vel", TwistStamped),
        ("motion_report", String),
    ],
)
def test_a_publisher_of_another_type_is_named_and_the_robot_stands(
    topic: str, wrong: type, run_node: Run, client: Client, stranger: Stranger
) -> None:
    node, base, speaker = start(run_node, client, max_forward_mps=0.1)  # so slow that the motion lasts
    speaker.say(1, "move forward large")
    wait_until(base.is_moving, "motion")
    publisher = stranger.node.create_publisher(wrong, topic, qos.EVENTS)
    report = wait_until(lambda: base.reports, "a motion report")[0]
    assert report.outcome == MotionReport.FAILED
    assert all(word in report.message for word in (f"/{topic}", wrong.__name__, "stranger"))
    assert wrong.__name__ in node.health()[0]
    stranger.node.destroy_publisher(publisher)
    wait_until(lambda: node.health()[0] == "", "its end")


def test_nobody_drives_where_a_stop_may_not_be_received(
    run_node: Run, client: Client, stranger: Stranger
) -> None:
    node, base, _ = start(run_node, client)
    stranger.node.create_publisher(Empty, "e_stop", qos.EVENTS)
    wait_until(lambda: "Empty" in node.health()[0], "the type to be named")
    joystick = Stranger()
    try:
        publisher = joystick.repeat(convert.twist_message(Velocity(0.2)), "cmd_vel_joy", qos.COMMAND)
        wait_until(publisher.get_subscription_count, "the joystick's subscriber")
        silent_s = time.monotonic() + 0.5
        wait_until(lambda: time.monotonic() > silent_s, "some messages")
        assert not base.is_moving()
    finally:
        joystick.close()


def test_a_base_that_reads_another_type_is_named_and_the_robot_stands(
    run_node: Run, client: Client, stranger: Stranger
) -> None:
    node, base, speaker = start(run_node, client, action=ImpatientAction)
    stranger.node.create_subscription(TwistStamped, "cmd_vel", lambda _: None, qos.COMMAND)
    wait_until(lambda: "command_interface:=twist_stamped" in node.health()[0], "the base to be named")
    speaker.say(1, "move forward small")
    report = wait_until(lambda: base.reports, "a motion report")[0]
    assert report.outcome == MotionReport.FAILED and "TwistStamped" in report.message and base.pose.x == 0.0


def test_a_base_whose_qos_does_not_fit_is_named_and_one_that_looks_on_is_not(
    run_node: Run, client: Client, stranger: Stranger
) -> None:
    node, _, _ = start(run_node, client, listens=False)
    stranger.node.create_subscription(Twist, "cmd_vel", lambda _: None, qos.LATCHED)
    wait_until(lambda: "QoS of /cmd_vel" in node.health()[0], "the QoS to be named")
    assert "stranger" in node.health()[0]
    client.node.create_subscription(Twist, "cmd_vel", lambda _: None, qos.COMMAND)
    wait_until(lambda: node.health()[0] == "", "a base that receives")


def test_a_tool_that_looks_on_as_it_likes_keeps_nothing_from_moving(
    run_node: Run, client: Client, stranger: Stranger
) -> None:
    node, base, speaker = start(run_node, client)
    stranger.node.create_subscription(Twist, "cmd_vel", lambda _: None, qos.LATCHED)
    stranger.node.create_subscription(String, "motion_report", lambda _: None, qos.LATCHED)
    wait_until(lambda: node.count_subscribers("motion_report") >= 2, "the tool")
    speaker.say(1, "move forward small")
    report = wait_until(lambda: base.reports, "a motion report")[0]
    assert report.outcome == MotionReport.DONE and node.health()[0] == "", report.message


@pytest.mark.parametrize("topic", ["verified_text", "scan"])
def test_a_second_publisher_is_named_and_the_robot_stands(
    topic: str, run_node: Run, client: Client, stranger: Stranger
) -> None:
    node, base, speaker = start(run_node, client, action=ImpatientAction)
    kind = {"verified_text": VerifiedText, "scan": LaserScan}[topic]
    stranger.node.create_publisher(kind, topic, qos.EVENTS)
    wait_until(lambda: f"2 publishers of /{topic}" in node.health()[0], "the second to be named")
    assert "stranger" in node.health()[0] and "test_client" in node.health()[0]
    speaker.say(1, "move forward small")
    report = wait_until(lambda: base.reports, "a motion report")[0]
    assert report.outcome == MotionReport.FAILED and "publishers" in report.message and base.pose.x == 0.0


@pytest.mark.parametrize("topic", ["cmd_vel_joy", "cmd_vel_console"])
@pytest.mark.parametrize("profile", EVERY_QOS)
@pytest.mark.parametrize("stamped", [False, True])
def test_a_person_drives_with_every_qos_and_both_types(
    topic: str, profile: QoSProfile, stamped: bool, run_node: Run, client: Client, stranger: Stranger
) -> None:
    node, base, _ = start(run_node, client)
    twist = convert.twist_message(Velocity(0.2))
    stranger.repeat(TwistStamped(twist=twist) if stamped else twist, topic, profile)
    wait_until(lambda: base.commands and base.commands[-1][1] == Velocity(0.2), "the person's velocity")
    assert f"by hand on {topic}" in node.health()[0]


def test_a_joystick_of_each_type_at_once_is_named_and_the_robot_stands(
    run_node: Run, client: Client, stranger: Stranger
) -> None:
    node, base, _ = start(run_node, client)
    twist = convert.twist_message(Velocity(0.2))
    stranger.repeat(twist, "cmd_vel_joy", qos.COMMAND)
    wait_until(base.is_moving, "the first to drive")
    other = Stranger()
    try:
        other.node.create_publisher(TwistStamped, "cmd_vel_joy", qos.COMMAND)
        wait_until(lambda: "TwistStamped" in node.health()[0], "the other to be named")
        wait_until(lambda: not base.is_moving(), "a robot that stands")
    finally:
        other.close()


def test_a_publisher_that_is_there_and_silent_is_no_second_driver(run_node: Run, client: Client) -> None:
    """As the publisher of a dead process is, until the lease of its participant has ended."""
    node, base, _ = start(run_node, client)
    client.node.create_publisher(Twist, "cmd_vel_joy", qos.COMMAND)
    wait_until(lambda: node.count_publishers("/cmd_vel_joy") == 1, "the silent one")

    def drives() -> bool:
        client.publish(convert.twist_message(Velocity(0.2)), "cmd_vel_joy", qos.COMMAND)
        return bool(base.commands) and base.commands[-1][1] == Velocity(0.2)

    other = client.node.create_publisher(Twist, "cmd_vel_joy", qos.COMMAND)
    wait_until(drives, "the one that publishes to drive")
    assert node.count_publishers("/cmd_vel_joy") >= 2 and "two drivers" not in node.health()[0]
    client.node.destroy_publisher(other)


@pytest.mark.parametrize("profile", EVERY_QOS)
def test_a_stop_of_every_qos_engages_and_its_live_release_releases(
    profile: QoSProfile, run_node: Run, client: Client
) -> None:
    node, base, speaker = start(run_node, client)
    client.publish(Bool(data=True), "e_stop", profile)
    wait_until(lambda: node.pilot.emergency, "the emergency stop")
    client.publish(Bool(data=False), "e_stop", profile)
    wait_until(lambda: not node.pilot.emergency, "the release")
    speaker.say(1, "move forward small")
    report = wait_until(lambda: base.reports, "a motion report")[0]
    assert report.outcome == MotionReport.DONE, report.message


def test_a_stop_that_comes_by_several_subscriptions_engages_once(run_node: Run, client: Client) -> None:
    node = run_node(lambda: PatientAction({"autostart": True})).node
    info = {"source_timestamp": 7_000, "publication_sequence_number": 3}
    node._on_e_stop(Bool(data=True), info)
    node._on_e_stop(Bool(data=False), info | {"source_timestamp": 8_000, "publication_sequence_number": 4})
    node._on_sure_e_stop(Bool(data=True), info)
    assert not node.pilot.emergency, "the same stop, come late by another way"
    node._on_sure_e_stop(Bool(data=True), info | {"source_timestamp": 9_000})
    assert node.pilot.emergency


def test_a_latched_stop_among_latched_releases_engages(
    run_node: Run, client: Client, stranger: Stranger
) -> None:
    client.publish(Bool(data=True), "e_stop", qos.LATCHED, wait=False)
    stranger.node.create_publisher(Bool, "e_stop", qos.LATCHED).publish(Bool(data=False))
    node = run_node(PatientAction).node
    wait_until(lambda: node.pilot.emergency, "the latched emergency stop")


def test_types_are_watched_where_nothing_is_read_too(ros: None) -> None:
    """A topic is looked up by the node's own name for it, before remappings."""
    from outrider.nodes.common.topic_watch import TopicWatch

    node = rclpy.create_node("reader", cli_args=["--ros-args", "-r", "camera/image_raw:=/cam/image"])
    watch = TopicWatch(node)
    subscription = node.create_subscription(Image, "camera/image_raw", lambda _: None, qos.SENSOR)
    watch.add(subscription, "camera/image_raw", alone=True)
    publishers = [node.create_publisher(Image, "/cam/image", qos.SENSOR) for _ in range(2)]
    wait_until(lambda: (watch.look(), watch.fault())[1], "the two publishers")
    assert "2 publishers of /cam/image (reader)" in watch.fault("camera/image_raw")
    assert watch.fault("odom") == ""
    node.destroy_publisher(publishers[0])
    wait_until(lambda: (watch.look(), not watch.fault())[1], "one publisher")
    node.destroy_node()


@pytest.mark.parametrize("hand", ["cmd_vel_joy", "cmd_vel_console"])
def test_a_node_that_would_drive_by_its_own_velocities_names_them_and_stands(
    hand: str, run_node: Run, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a hand would never let go: the node would follow its own commands."""
    init = LifecycleNode.__init__

    def remapped(self: LifecycleNode, name: str, **more: Any) -> None:
        init(self, name, cli_args=["--ros-args", "-r", f"{hand}:=cmd_vel"], **more)

    monkeypatch.setattr(LifecycleNode, "__init__", remapped)
    node = run_node(ImpatientAction).node
    assert f"cmd_vel is read for {hand} and published by this node itself" in node.watch.fault(hand)
    base, speaker = FakeBase(client), Speaker(client)
    wait_until(lambda: node._odometry and node._scan, "the robot")
    speaker.say(1, "move forward medium")
    report = wait_until(lambda: base.reports, "a report")[0]
    assert report.outcome == MotionReport.FAILED and "by this node itself" in report.message
    base.client.publish(Twist(), "cmd_vel", qos.COMMAND)
    wait_until(lambda: (node.watch.look(), "by this node itself" in node.health()[0])[1], "the reason")
    assert node.pilot.drivers == () and base.pose.x == 0.0
