"""The camera: an OpenCV device, a file, or another topic, as camera/image_raw with camera_info."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
from sensor_msgs.msg import CameraInfo, Image

from outrider.core.camera import GO2_FRONT_CAMERA, CameraModel
from outrider.core.errors import FrameError
from outrider.nodes import convert, qos
from outrider.nodes.base import OutriderNode, run_node


class CameraNode(OutriderNode):
    """Publishes with the sensor QoS; after a picture that cannot be read, the next one is tried."""

    spec_name = "camera"

    def configure(self) -> None:
        self._capture: Any = None
        self._active = False
        self._published = 0
        self._trouble = ""
        self._images = self.publisher(Image, "camera/image_raw", qos.SENSOR)
        self._infos = self.publisher(CameraInfo, "camera/camera_info", qos.SENSOR)
        source = self.value("source")
        if source == "topic":
            self.subscription(Image, self.value("topic"), self._on_image, qos.LATEST_SENSOR)
        else:
            self._capture = open_capture(source, self.value("device"), self.value("path"))

    def activate(self) -> None:
        self._active = True
        if self._capture is not None:
            self.active_timer(1.0 / self.value("rate_hz"), self._grab)

    def deactivate(self) -> None:
        self._active = False

    def cleanup(self) -> None:
        if getattr(self, "_capture", None) is not None:
            self._capture.release()
            self._capture = None

    def health(self) -> tuple[str, dict[str, object]]:
        if not getattr(self, "_active", False):
            return "inactive", {}
        return self._trouble, {"published": self._published, "source": self.value("source")}

    def _grab(self) -> None:
        read, picture = self._capture.read()
        if not read and self.value("source") == "file":
            # From the beginning again; a single picture cannot be rewound, only opened anew.
            self._capture.release()
            self._capture = open_capture("file", 0, self.value("path"))
            read, picture = self._capture.read()
        if not read:
            self._trouble = f"{self.value('source')} gives no picture"
            self.get_logger().warning(self._trouble, throttle_duration_sec=5.0)
            return
        self._trouble = ""
        self._publish(cv2.cvtColor(picture, cv2.COLOR_BGR2RGB), self.get_clock().now().to_msg())

    def _on_image(self, message: Image) -> None:
        if not self._active:
            return
        try:
            self._publish(convert.rgb_of(message), message.header.stamp)
            self._trouble = ""
        except FrameError as error:
            self._trouble = str(error)
            self.get_logger().warning(self._trouble, throttle_duration_sec=5.0)

    def _publish(self, rgb: np.ndarray[Any, Any], stamp: convert.Time) -> None:
        height, width, _ = rgb.shape
        reference = CameraModel(GO2_FRONT_CAMERA.width, GO2_FRONT_CAMERA.height, self.value("focal_px"))
        camera = reference.scaled_to(width, height)
        self._images.publish(convert.image_message(rgb, stamp, self.value("frame_id")))
        self._infos.publish(convert.camera_info_message(camera, stamp, self.value("frame_id")))
        self._published += 1


def open_capture(source: str, device: int, path: str) -> Any:
    """An opened OpenCV capture; FrameError where there is nothing to open."""
    if source == "file" and not Path(path).is_file():
        raise FrameError(f"there is no picture or video file {path!r}: set the parameter path")
    capture = cv2.VideoCapture(path if source == "file" else device)
    if not capture.isOpened():
        what = f"file {path}" if source == "file" else f"camera device {device}"
        raise FrameError(f"{what} cannot be opened: check the parameters source, device and path")
    return capture


def main() -> int:
    return run_node(CameraNode)


if __name__ == "__main__":
    raise SystemExit(main())
