# SPDX-License-Identifier: Apache-2.0
"""The camera for a console: its pictures and lens, received only while there is a viewer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sensor_msgs.msg import CameraInfo, Image

from outrider.console.server import ConsoleServer
from outrider.core.errors import FrameError
from outrider.core.sensors.camera import CameraModel
from outrider.nodes.common import convert, qos
from outrider.nodes.common.node import OutriderNode
from outrider.nodes.observers.console_messages import picture_of


class ConsoleCamera:
    """Shows pictures on a console when `is_due`. For the node's thread.

    A lens whose size does not fit the pictures is ignored. It may come from a driver on the same topic.
    """

    def __init__(self, node: OutriderNode, console: ConsoleServer, is_due: Callable[[], bool]) -> None:
        self._node, self._console, self._is_due = node, console, is_due
        self._subscriptions: list[Any] = []
        self._lens: CameraModel | None = None
        self._size = (0, 0)

    def watch(self, watched: bool) -> None:
        """Subscribe, or unsubscribe."""
        if watched and not self._subscriptions:
            sources = ((Image, "image_raw", self._on_image), (CameraInfo, "camera_info", self._on_lens))
            self._subscriptions = [
                self._node.create_subscription(kind, f"camera/{name}", callback, qos.LATEST_SENSOR)
                for kind, name, callback in sources
            ]
        elif not watched:
            while self._subscriptions:
                self._node.destroy_subscription(self._subscriptions.pop())

    def _on_image(self, message: Image) -> None:
        if not self._is_due():
            return
        try:
            rgb = convert.rgb_of(message)
        except FrameError as error:
            self._node.get_logger().error(str(error), throttle_duration_sec=5.0)
            return
        self._size = message.width, message.height
        if self._lens is not None and not self._lens.has_shape(*self._size):
            self._see_by(None)
        value = self._node.value
        self._console.show_picture(picture_of(rgb, value("picture_width"), value("quality")))

    def _on_lens(self, message: CameraInfo) -> None:
        lens = convert.lens_of(message)
        if lens is not None and lens != self._lens and lens.has_shape(*self._size):
            self._see_by(lens)

    def _see_by(self, lens: CameraModel | None) -> None:
        self._lens = lens
        self._console.set_camera_model(lens)
