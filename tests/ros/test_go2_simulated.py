"""The simulated robot answers like a Go2, and every backend turns it in the commanded direction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import pytest
from conftest import Client, NodeThread, wait_until
from fakes import FEW_PICTURES
from geometry_msgs.msg import Twist, TwistStamped
from outrider_interfaces.msg import MotionReport, SimulationState
from sensor_msgs.msg import CameraInfo
from support_ros import FakeBase, PatientAction, Speaker
from unitree_api.msg import Request, Response

from outrider.core.values import Velocity
from outrider.nodes.camera.camera_node import CameraNode
from outrider.nodes.common import convert, qos
from outrider.nodes.common.picture_encodings import decode_picture
from outrider.nodes.go2 import go2_api
from outrider.nodes.simulation.simulation_node import SimulationNode

pytestmark = pytest.mark.ros
Run = Callable[..., NodeThread]


def simulation(run_node: Run) -> Any:
    return run_node(lambda: SimulationNode({"seed": 3, "placement": "in_view", **FEW_PICTURES})).node


class Caller:
    """Calls a service and waits for each answer."""

    def __init__(self, client: Client, service: str) -> None:
        self._client, self._topic = client, go2_api.request_topic(service)
        self._answers = client.listen(Response, go2_api.response_topic(service), qos.EVENTS)
        wait_until(lambda: client.node.count_publishers(go2_api.response_topic(service)), "the service")
        self._id = 0

    def __call__(self, api_id: int, parameter: str = "") -> Response:
        self._id += 1
        self._client.publish(go2_api.request(self._id, api_id, parameter), self._topic, qos.EVENTS)
        return wait_until(self._mine, f"the answer of {self._topic} to {api_id}")

    def _mine(self) -> Response | None:
        return next((a for a in self._answers if a.header.identity.id == self._id), None)


def code_of(answer: Response) -> int:
    return answer.header.status.code


def test_the_sport_service_moves_answers_and_stops_by_itself(run_node: Run, client: Client) -> None:
    states: list[SimulationState] = client.listen(SimulationState, "simulation_state", qos.EVENTS)
    simulation(run_node)
    call = Caller(client, go2_api.SPORT)
    spin = go2_api.move_parameter(Velocity(0.0, 0.0, 1.0))
    assert [code_of(call(go2_api.MOVE, spin)) for _ in range(5)] == [0] * 5
    assert code_of(call(go2_api.MOVE, "{}")) == go2_api.CODE_BAD_PARAMETER
    assert code_of(call(9999)) == go2_api.CODE_UNKNOWN_API
    # The Move is not repeated: the robot's own deadman must end it.
    count = len(states)
    wait_until(lambda: len(states) >= count + 12, "more than a second of simulation")
    last = [state.pose.orientation.z for state in states[-3:]]
    assert max(last) - min(last) < 1e-3


def test_the_avoidance_service_keeps_its_switch_and_moves_only_when_handed_over(
    run_node: Run, client: Client
) -> None:
    simulation(run_node)
    call = Caller(client, go2_api.OBSTACLES_AVOID)
    move = go2_api.avoid_move_parameter(Velocity(0.1))
    assert call(go2_api.AVOID_SWITCH_GET).data == '{"enable": false}'
    assert code_of(call(go2_api.AVOID_MOVE, move)) == go2_api.CODE_INTERNAL
    assert code_of(call(go2_api.AVOID_SWITCH_SET, go2_api.enable_parameter(True))) == 0
    assert call(go2_api.AVOID_SWITCH_GET).data == '{"enable": true}'
    assert code_of(call(go2_api.AVOID_USE_API, go2_api.use_api_parameter(True))) == 0
    assert code_of(call(go2_api.AVOID_MOVE, move)) == 0


def test_the_camera_node_takes_pictures_from_the_videohub(run_node: Run, client: Client) -> None:
    infos = client.listen(CameraInfo, "camera/camera_info", qos.LATEST_SENSOR)
    simulation(run_node)
    node = run_node(lambda: CameraNode({"source": "videohub", "frame_id": "front"})).node
    # The simulation publishes pictures too; those of the camera node have its frame.
    wait_until(lambda: any(info.header.frame_id == "front" for info in infos), "a picture of the videohub")
    assert node.health()[0] == ""


def test_a_camera_without_a_robot_says_where_nobody_answers(run_node: Run, client: Client) -> None:
    node = run_node(lambda: CameraNode({"source": "videohub"})).node
    wait_until(lambda: "/api/videohub/request" in node.health()[0], "the warning")


def shift_px(before: np.ndarray, after: np.ndarray) -> int:
    """Returns how many pixels the middle of a picture has moved to the right."""
    left = before.shape[1] // 3
    strip = before[:, left : 2 * left]
    return int(cv2.minMaxLoc(cv2.matchTemplate(after, strip, cv2.TM_CCOEFF_NORMED))[3][0]) - left


@pytest.mark.parametrize(
    "backend",
    [
        {"command_interface": "twist"},
        {"command_interface": "sport"},
        {"command_interface": "sport", "robot_avoidance": True},
    ],
    ids=lambda options: "_".join(map(str, options.values())),
)
def test_left_is_left_in_pose_and_picture(backend: dict[str, Any], run_node: Run, client: Client) -> None:
    node = simulation(run_node)
    look = Caller(client, go2_api.VIDEOHUB)
    before = decode_picture(go2_api.binary_of(look(go2_api.GET_IMAGE_SAMPLE)), is_jpeg=True)
    reports = client.listen(MotionReport, "motion_report", qos.EVENTS)
    thread = run_node(lambda: PatientAction(backend))
    action, speaker = thread.node, Speaker(client)
    wait_until(lambda: action._odometry and action._scan, "odometry and scan")
    wait_until(lambda: getattr(action._base, "is_ready", True), "a robot that stands")
    start = node.simulator.truth()
    speaker.say(1, "turn left small")
    report = wait_until(lambda: reports, "a motion report")[0]
    assert report.outcome == MotionReport.DONE, report.message
    turned_rad = node.simulator.truth().yaw - start.yaw
    assert turned_rad == pytest.approx(np.deg2rad(15.0), abs=0.1)
    after = decode_picture(go2_api.binary_of(look(go2_api.GET_IMAGE_SAMPLE)), is_jpeg=True)
    assert shift_px(before, after) > 40
    assert shift_px(np.fliplr(before), np.fliplr(after)) < -40, "a mirrored camera is seen as one"
    assert action.health()[1]["refused"] == 0
    assert node._go2.avoidance_on == node._go2.moved_by_api == ("robot_avoidance" in backend)
    thread.stop()
    wait_until(lambda: not (node._go2.avoidance_on or node._go2.moved_by_api), "avoidance given back")


def test_left_is_left_in_a_stamped_twist(run_node: Run, client: Client) -> None:
    twists: list[TwistStamped] = client.listen(TwistStamped, "cmd_vel", qos.COMMAND)
    node = run_node(lambda: PatientAction({"command_interface": "twist_stamped"})).node
    FakeBase(client, listens=False)
    speaker = Speaker(client)
    wait_until(lambda: node._odometry and node._scan, "odometry and scan")
    speaker.say(1, "turn left large")
    wait_until(lambda: any(twist.twist.angular.z > 0.1 for twist in twists), "a turn to the left")
    assert min(twist.twist.angular.z for twist in twists) >= 0.0
    assert twists[-1].header.frame_id == "base_link"


def test_a_dry_run_sends_nothing(run_node: Run, client: Client) -> None:
    twists = client.listen(Twist, "cmd_vel", qos.COMMAND)
    requests = client.listen(Request, go2_api.request_topic(go2_api.SPORT), qos.EVENTS)
    node = run_node(lambda: PatientAction({"command_interface": "dry_run"})).node
    base, speaker = FakeBase(client), Speaker(client)
    wait_until(lambda: node._odometry and node._scan, "odometry and scan")
    speaker.say(1, "turn left large")
    wait_until(lambda: node._base._last is not None and node._base._last.wz > 0.0, "a turn to the left")
    assert twists == [] and requests == [] and base.commands == []
    assert client.node.count_publishers("cmd_vel") == 0 and "dry run" in node.health()[0]
    assert convert.twist_message(node._base._last).angular.z > 0.0
