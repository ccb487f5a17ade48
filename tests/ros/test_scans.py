"""Scans over DDS: the lidar's transform from tf, and an action node that moves only with a usable scan."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import Client, NodeThread, wait_until
from geometry_msgs.msg import Quaternion, TransformStamped
from outrider_interfaces.msg import MotionReport
from sensor_msgs.msg import LaserScan
from support_ros import FakeBase, PatientAction, Speaker
from tf2_msgs.msg import TFMessage

from outrider.core.values import Pose2D, RangeScan
from outrider.nodes.common import convert, qos

pytestmark = pytest.mark.ros
Run = Callable[..., NodeThread]
RAYS = 180
STEP = math.tau / RAYS
WALL_M = 0.95
LASER = "laser"


class LidarBase(FakeBase):
    """A base in front of a wall, with a lidar at `mount`; the scan's frame is `frame_id`."""

    frame_id = LASER
    mount = Pose2D(0.0, 0.0, 0.0)
    sees_rad = math.pi

    def _step(self) -> None:
        super()._step()
        self._publish_transform()

    def scan_message(self, stamp: Any) -> LaserScan:
        lidar = self.pose.compose(self.mount)
        bearings = -math.pi + STEP * np.arange(RAYS)
        cos = np.cos(lidar.yaw + bearings)
        with np.errstate(divide="ignore"):
            ranges = np.where(cos > 1e-3, (WALL_M - lidar.x) / cos, math.inf)
        ranges = np.where(ranges < 8.0, ranges, math.inf)
        ranges = np.where(np.abs(bearings) <= self.sees_rad, ranges, 0.0)
        scan = RangeScan(tuple(ranges.tolist()), -math.pi, STEP, 0.0)
        return convert.scan_message(scan, stamp, 8.0, self.frame_id)

    def _publish_transform(self) -> None:
        """Does nothing; subclasses may publish a transform."""


def transform_of(mount: Pose2D, prefix: str = "", stamp: Any = None) -> TransformStamped:
    stamp = stamp or convert.time_of(0.0)
    return convert.transform(f"{prefix}base_link", f"{prefix}{LASER}", stamp, mount, 0.1)


def start(
    run_node: Run, client: Client, base: LidarBase, **parameters: Any
) -> tuple[Any, LidarBase, Speaker]:
    node = run_node(lambda: PatientAction(parameters)).node
    speaker = Speaker(client)
    wait_until(lambda: node._odometry, "odometry")
    wait_until(lambda: client.node.count_publishers("motion_report"), "the reports' publisher")
    wait_until(lambda: node._reports.get_subscription_count(), "the reports' subscription")
    return node, base, speaker


def publish_static(client: Client, *transforms: TransformStamped) -> None:
    publisher = client.node.create_publisher(TFMessage, "/tf_static", qos.LATCHED)
    publisher.publish(TFMessage(transforms=list(transforms)))


def drive_at_the_wall(node: Any, base: LidarBase, speaker: Speaker) -> Any:
    wait_until(lambda: node._scan, "a scan that counts")
    speaker.say(1, "move forward large")
    return wait_until(lambda: base.reports, "a motion report")[0]


@pytest.mark.parametrize(
    ("mount", "prefix"),
    [
        (Pose2D(0.0, 0.0, math.pi), ""),
        (Pose2D(0.25, 0.0, 0.0), ""),
        (Pose2D(-0.2, 0.1, -math.pi / 2), "go2/"),
    ],
    ids=["turned round", "ahead of the middle", "sideways, with a prefix"],
)
def test_it_stops_before_a_wall_wherever_the_lidar_stands(
    run_node: Run, client: Client, mount: Pose2D, prefix: str
) -> None:
    base = LidarBase(client)
    base.mount, base.frame_id = mount, prefix + LASER
    publish_static(client, transform_of(mount, prefix))
    node, base, speaker = start(run_node, client, base, frame_prefix=prefix)
    report = drive_at_the_wall(node, base, speaker)
    assert report.outcome == MotionReport.BLOCKED, report.message
    assert 0.2 < base.pose.x < WALL_M - 0.35


def test_a_lidar_upside_down_and_turned_round_is_seen_as_it_hangs(run_node: Run, client: Client) -> None:
    base = LidarBase(client)
    base.mount = Pose2D(0.0, 0.0, math.pi)  # its mirrored scan of a wall across the way looks the same
    hung = transform_of(Pose2D(0.0, 0.0, 0.0))
    hung.transform.rotation = Quaternion(x=0.0, y=1.0, z=0.0, w=0.0)
    publish_static(client, hung)
    report = drive_at_the_wall(*start(run_node, client, base))
    assert report.outcome == MotionReport.BLOCKED and base.pose.x < WALL_M - 0.35


def test_without_a_transform_nothing_moves_and_diagnostics_say_what_to_start(
    run_node: Run, client: Client
) -> None:
    base = LidarBase(client)
    node, base, speaker = start(run_node, client, base)
    wait_until(lambda: node._scans.fault, "a reason")
    speaker.say(1, "move forward large")
    report = wait_until(lambda: base.reports, "a motion report")[0]
    assert report.outcome == MotionReport.FAILED and base.pose.x == 0.0
    for text in (report.message, node.health()[0]):
        assert "static_transform_publisher --frame-id base_link --child-frame-id laser" in text
    assert client.node.count_subscribers("/tf") == 1
    publish_static(client, transform_of(Pose2D(0.0, 0.0, 0.0)))
    wait_until(lambda: node._scan, "a scan that counts")
    wait_until(lambda: client.node.count_subscribers("/tf") == 0, "the end of the busy topic's subscription")


class SwivelBase(LidarBase):
    """Publishes its lidar's transform on /tf, like a joint's, unless it is `lost`."""

    lost = False

    def _publish_transform(self) -> None:
        if not hasattr(self, "_tf"):
            self._tf = self.client.node.create_publisher(TFMessage, "/tf", qos.EVENTS)
        if not self.lost:
            stamp = self.client.node.get_clock().now().to_msg()
            self._tf.publish(TFMessage(transforms=[transform_of(self.mount, stamp=stamp)]))


def test_a_moving_transform_is_followed_and_its_loss_ends_a_motion(run_node: Run, client: Client) -> None:
    base = SwivelBase(client)
    base.mount = Pose2D(0.0, 0.0, math.pi)
    node, base, speaker = start(run_node, client, base)
    wait_until(lambda: node._scan, "a scan that counts")
    speaker.say(1, "move forward large")
    wait_until(base.is_moving, "motion")
    base.lost = True
    report = wait_until(lambda: base.reports, "a motion report")[0]
    assert report.outcome == MotionReport.FAILED and "transform" in report.message


def test_a_lidar_that_looks_back_lets_nothing_move_ahead(run_node: Run, client: Client) -> None:
    base = LidarBase(client)
    base.mount, base.sees_rad = Pose2D(0.0, 0.0, math.pi), math.pi / 2
    publish_static(client, transform_of(base.mount))
    report = drive_at_the_wall(*start(run_node, client, base))
    assert report.outcome == MotionReport.FAILED and "says nothing about what is ahead" in report.message
    assert base.pose.x == 0.0
