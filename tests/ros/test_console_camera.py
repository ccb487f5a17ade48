"""The pictures of a console's camera, and the lens that measures them."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import Client, wait_until
from graphs import Teleop
from support_ros import Run

from outrider.core.sensors.camera import SIM_CAMERA, CameraModel
from outrider.nodes.common import convert, qos
from outrider.nodes.observers.console_camera import ConsoleCamera
from outrider.nodes.observers.console_messages import picture_of
from outrider.nodes.observers.console_node import ConsoleNode

pytestmark = pytest.mark.ros


def test_a_simulated_clock_that_is_set_back_blinds_no_viewer(run_node: Run) -> None:
    console = run_node(lambda: ConsoleNode({"port": 0})).node
    console.now_s = lambda: 1000.0
    while console._is_due("picture", 0.1):
        pass
    console.now_s = lambda: 1.0
    wait_until(lambda: console._is_due("picture", 0.1), "another picture", 2.0)


def test_the_camera_is_listened_to_while_somebody_looks(teleop: Teleop, client: Client) -> None:
    count = client.node.count_subscribers("camera/image_raw")
    page = teleop.open_page().seated()
    wait_until(lambda: client.node.count_subscribers("camera/image_raw") == count + 1, "a look")
    page.socket.close()
    wait_until(lambda: client.node.count_subscribers("camera/image_raw") == count, "nobody looking")


class Lenses:
    """Records the camera models and counts the pictures that a console gets."""

    def __init__(self) -> None:
        self.seen_by: list[CameraModel | None] = []
        self.pictures = 0

    def set_camera_model(self, lens: CameraModel | None) -> None:
        self.seen_by.append(lens)

    def show_picture(self, _: bytes) -> None:
        self.pictures += 1


@pytest.mark.parametrize(
    ("other", "takes"),
    [
        (CameraModel(640, 480, 500.0), False),
        (CameraModel(720, 1280, 864.4), False),
        (CameraModel(0, 0, 0.0), False),
        (CameraModel(252, 140, 300.0), True),
        (CameraModel(1921, 1080, 900.0), True),
    ],
)
def test_a_lens_measures_pictures_of_its_shape_alone(
    run_node: Run, client: Client, other: CameraModel, takes: bool
) -> None:
    console, lenses = run_node(lambda: ConsoleNode({"port": 0})).node, Lenses()
    camera = ConsoleCamera(console, lenses, lambda: True)  # type: ignore[arg-type]
    camera.watch(True)
    stamp = convert.time_of(1.0)

    def look_by(lens: CameraModel, size: tuple[int, int]) -> None:
        before, picture = lenses.pictures, np.full((*size, 3), 99, np.uint8)
        for message, name in (
            (convert.camera_info_message(lens, stamp, "lens"), "camera_info"),
            (convert.image_message(picture, stamp, "camera"), "image_raw"),
        ):
            client.publish(message, f"camera/{name}", qos.SENSOR)
        wait_until(lambda: lenses.pictures > before, "a picture")

    look_by(SIM_CAMERA, (280, 504))
    wait_until(lambda: lenses.seen_by == [SIM_CAMERA], "a lens")
    look_by(other, (280, 504))
    look_by(other, (280, 504))
    assert lenses.seen_by == [SIM_CAMERA, other][: 1 + takes]
    look_by(SIM_CAMERA, (480, 640))
    assert lenses.seen_by[-1] is None
    camera.watch(False)


def test_large_pictures_are_scaled_down() -> None:
    import cv2
    import numpy as np

    jpeg = picture_of(np.full((2160, 3840, 3), (200, 10, 10), np.uint8), 640, 75)
    picture = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR)
    assert picture is not None and picture.shape == (360, 640, 3)
    assert picture[0, 0, 2] > 150 > picture[0, 0, 0], "red is red"
