"""The nodes against a robot on another DDS implementation, the Go2's: types, topics and bytes match."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import cv2
import numpy as np
import pytest
from conftest import Client, NodeThread, wait_until
from nav_msgs.msg import Odometry as OdometryMsg
from sensor_msgs.msg import Image
from support_ros import FakeBase, PatientAction, Speaker

from outrider.nodes.camera.camera_node import CameraNode
from outrider.nodes.common import convert, qos
from outrider.nodes.go2 import go2_api
from outrider.nodes.go2.go2_state_node import Go2StateNode

pytest.importorskip("cyclonedds", reason="needs the extra go2_wire")
pytest.importorskip("unitree_go")

from cyclone_go2 import LOOPBACK, YAW, CycloneGo2

pytestmark = pytest.mark.ros
Run = Callable[..., NodeThread]
PICTURE = np.full((36, 64, 3), (200, 40, 40), np.uint8)


@pytest.fixture
def robot(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("CYCLONEDDS_URI", LOOPBACK)
    jpeg = bytes(cv2.imencode(".jpg", cv2.cvtColor(PICTURE, cv2.COLOR_RGB2BGR))[1])
    made = CycloneGo2(int(os.environ["ROS_DOMAIN_ID"]), jpeg)
    yield made
    made.close()


def test_a_turn_to_the_left_reaches_the_sport_service(robot: Any, run_node: Run, client: Client) -> None:
    node = run_node(lambda: PatientAction({"command_interface": "sport"})).node
    FakeBase(client, listens=False)
    speaker = Speaker(client)
    wait_until(lambda: node._odometry and node._scan, "odometry and scan")
    wait_until(lambda: node._base.is_ready, "a robot that stands")
    speaker.say(1, "turn left large")
    apis = lambda: [request.header.identity.api_id for _, request in robot.requests]  # noqa: E731
    wait_until(lambda: apis().count(go2_api.MOVE) >= 5, "Moves")
    assert apis()[:2] == [go2_api.STAND_UP, go2_api.BALANCE_STAND]
    velocities = [
        go2_api.velocity_of(request.parameter)
        for _, request in robot.requests
        if request.header.identity.api_id == go2_api.MOVE
    ]
    assert all(velocity.wz > 0.0 and velocity.vx == 0.0 for velocity in velocities)
    speaker.silence()
    wait_until(lambda: apis()[-1] == go2_api.STOP_MOVE, "StopMove")
    assert node.health()[1]["refused"] == 0


def test_its_state_becomes_odometry(robot: Any, run_node: Run, client: Client) -> None:
    odometries: list[OdometryMsg] = client.listen(OdometryMsg, "odom", qos.EVENTS)
    run_node(lambda: Go2StateNode({"odometry_source": "sportmodestate"}))
    pose = convert.pose_of(wait_until(lambda: odometries, "odometry")[0].pose.pose)
    assert (pose.x, pose.y, pose.yaw) == pytest.approx((1.5, -0.5, YAW), abs=1e-6)


def test_its_camera_s_pictures_are_published(robot: Any, run_node: Run, client: Client) -> None:
    images: list[Image] = client.listen(Image, "camera/image_raw", qos.LATEST_SENSOR)
    run_node(lambda: CameraNode({"source": "videohub"}))
    picture = convert.rgb_of(wait_until(lambda: images, "a picture")[0])
    assert np.abs(picture.astype(int) - PICTURE).max() < 8
