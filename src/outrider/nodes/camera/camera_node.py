# SPDX-License-Identifier: Apache-2.0
"""The camera node: publishes a device, a file, a stream, another topic or the Go2's camera."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sensor_msgs.msg import CameraInfo, CompressedImage, Image

from outrider.core.errors import ConfigError, FrameError
from outrider.core.sensors.camera import GO2_FRONT_CAMERA, CameraModel
from outrider.nodes.camera.live_source import open_device, open_rtp
from outrider.nodes.camera.picture_source import PictureSource, open_file
from outrider.nodes.camera.picture_topic import PictureTopic
from outrider.nodes.common import convert, qos
from outrider.nodes.common.declared_parameters import topic_name
from outrider.nodes.common.node import OutriderNode
from outrider.nodes.common.picture_encodings import Picture
from outrider.nodes.common.running import run_node

if TYPE_CHECKING:
    from outrider.nodes.camera.videohub import Videohub


LOOK_PERIOD_S = 0.5
PICTURES = "camera/image_raw"


class CameraNode(OutriderNode):
    """Publishes camera/image_raw with the sensor QoS. If a picture cannot be read, it tries the next one."""

    spec_name = "camera"
    look_period_s = 0.5

    def configure(self) -> None:
        self._source: PictureSource | None = None
        self._active = False
        self._published = 0
        self._trouble = ""
        self._images = self.publisher(Image, PICTURES, qos.SENSOR)
        self._infos = self.publisher(CameraInfo, "camera/camera_info", qos.SENSOR)
        self._videohub: Videohub | None = None
        self._topic: PictureTopic | None = None
        source = self.value("source")
        if source == "topic":
            topic = topic_name(self.value("topic"), "topic")
            self._topic = PictureTopic(self, topic, PICTURES, self._on_image)
        elif source == "videohub":
            self._videohub = _open_videohub(self, self._relay, self._warn)
        elif source == "rtp":
            self._source = open_rtp(self.value("interface"))
        elif source == "device":
            self._source = open_device(self.value("device"))
        else:
            self._source = open_file(self.value("path"))

    def activate(self) -> None:
        self._active = True
        if self._source is not None:
            self.active_timer(1.0 / self.value("rate_hz"), self._grab)
        if self._videohub is not None:
            self.active_timer(1.0 / self.value("rate_hz"), self._videohub.ask)
        if self._topic is not None:
            self._topic.look()
            self.active_timer(LOOK_PERIOD_S, self._topic.look)

    def deactivate(self) -> None:
        self._active = False

    def cleanup(self) -> None:
        source = getattr(self, "_source", None)
        if source is not None:
            source.close()
            self._source = None
        topic = getattr(self, "_topic", None)
        if topic is not None:
            topic.close()
            self._topic = None

    def health(self) -> tuple[str, dict[str, object]]:
        if not getattr(self, "_active", False):
            return "inactive", {}
        trouble = self._trouble
        if self._topic is not None and not self._published:
            trouble = trouble or f"no picture: {self._topic.why_silent()}"
        return trouble, {"published": self._published, "source": self.value("source")}

    def _grab(self) -> None:
        assert self._source is not None
        self._relay(self._source.read)

    def _on_image(self, message: Image | CompressedImage) -> None:
        if self._active:
            self._relay(lambda: convert.rgb_of(message), message.header.stamp)

    def _relay(self, read: Callable[[], Picture], stamp: convert.Time | None = None) -> None:
        """Publish the picture from `read`, stamped now by default.

        A picture that cannot be read gives a warning.
        """
        try:
            picture, self._trouble = read(), ""
            self._publish(picture, stamp or self.get_clock().now().to_msg())
        except FrameError as error:
            self._warn(str(error))

    def _warn(self, trouble: str) -> None:
        self._trouble = trouble
        self.get_logger().warning(trouble, throttle_duration_sec=5.0)

    def _publish(self, rgb: Picture, stamp: convert.Time) -> None:
        height, width, _ = rgb.shape
        reference = CameraModel(GO2_FRONT_CAMERA.width, GO2_FRONT_CAMERA.height, self.value("focal_px"))
        camera = reference.scaled_to(width, height)
        frame = self.frame(self.value("frame_id"))
        self._published += 1  # first: a subscriber that has the picture finds it counted
        self._images.publish(convert.image_message(rgb, stamp, frame))
        self._infos.publish(convert.camera_info_message(camera, stamp, frame))


def _open_videohub(
    node: CameraNode,
    relay: Callable[[Callable[[], Picture], convert.Time], None],
    warn: Callable[[str], None],
) -> Videohub:
    try:
        from outrider.nodes.camera.videohub import Videohub
        from outrider.nodes.go2 import go2_api
        from outrider.nodes.go2.go2_client import open_service
    except ImportError as error:
        raise ConfigError(
            "source=videohub needs unitree_api: build unitree_ros2 or ros2_ws/stand_ins"
        ) from error
    stamp = lambda: node.get_clock().now().to_msg()  # noqa: E731
    return Videohub(open_service(node, go2_api.VIDEOHUB), relay, warn, stamp)


def main() -> int:
    """Runs the node; returns the exit status."""
    return run_node(CameraNode)


if __name__ == "__main__":
    raise SystemExit(main())
