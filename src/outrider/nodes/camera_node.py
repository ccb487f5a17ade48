"""The camera: an OpenCV device, a file, or another topic, as camera/image_raw with camera_info."""

from __future__ import annotations

from collections.abc import Callable

from sensor_msgs.msg import CameraInfo, Image

from outrider.core.camera import GO2_FRONT_CAMERA, CameraModel
from outrider.core.errors import FrameError
from outrider.nodes import convert, qos
from outrider.nodes.base import OutriderNode, run_node
from outrider.nodes.picture_source import Picture, PictureSource, open_source


class CameraNode(OutriderNode):
    """Publishes with the sensor QoS; after a picture that cannot be read, the next one is tried."""

    spec_name = "camera"

    def configure(self) -> None:
        self._source: PictureSource | None = None
        self._active = False
        self._published = 0
        self._trouble = ""
        self._images = self.publisher(Image, "camera/image_raw", qos.SENSOR)
        self._infos = self.publisher(CameraInfo, "camera/camera_info", qos.SENSOR)
        source = self.value("source")
        if source == "topic":
            self.subscription(Image, self.value("topic"), self._on_image, qos.LATEST_SENSOR)
        else:
            self._source = open_source(source, self.value("device"), self.value("path"))

    def activate(self) -> None:
        self._active = True
        if self._source is not None:
            self.active_timer(1.0 / self.value("rate_hz"), self._grab)

    def deactivate(self) -> None:
        self._active = False

    def cleanup(self) -> None:
        source = getattr(self, "_source", None)
        if source is not None:
            source.close()
            self._source = None

    def health(self) -> tuple[str, dict[str, object]]:
        if not getattr(self, "_active", False):
            return "inactive", {}
        return self._trouble, {"published": self._published, "source": self.value("source")}

    def _grab(self) -> None:
        assert self._source is not None
        self._relay(self._source.read)

    def _on_image(self, message: Image) -> None:
        if self._active:
            self._relay(lambda: convert.rgb_of(message), message.header.stamp)

    def _relay(self, read: Callable[[], Picture], stamp: convert.Time | None = None) -> None:
        """Publish what `read` gives, stamped now by default; one that cannot be read is only warned of."""
        try:
            picture = read()
            self._publish(picture, stamp or self.get_clock().now().to_msg())
            self._trouble = ""
        except FrameError as error:
            self._trouble = str(error)
            self.get_logger().warning(self._trouble, throttle_duration_sec=5.0)

    def _publish(self, rgb: Picture, stamp: convert.Time) -> None:
        height, width, _ = rgb.shape
        reference = CameraModel(GO2_FRONT_CAMERA.width, GO2_FRONT_CAMERA.height, self.value("focal_px"))
        camera = reference.scaled_to(width, height)
        self._images.publish(convert.image_message(rgb, stamp, self.value("frame_id")))
        self._infos.publish(convert.camera_info_message(camera, stamp, self.value("frame_id")))
        self._published += 1


def main() -> int:
    return run_node(CameraNode)


if __name__ == "__main__":
    raise SystemExit(main())
