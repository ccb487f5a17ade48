# SPDX-License-Identifier: Apache-2.0
"""Records a run as an MCAP file that rosbag2, Foxglove and `outrider replay` read."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import cv2
from mcap.writer import CompressionType, Writer
from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy
from rclpy.serialization import serialize_message
from sensor_msgs.msg import CompressedImage, Image

from outrider.core.errors import ConfigError, FrameError
from outrider.core.files.private_files import make_private_folder, open_private
from outrider.nodes.common import convert
from outrider.nodes.common.gate import Gate
from outrider.nodes.common.node import OutriderNode
from outrider.nodes.common.running import run_node
from outrider.nodes.observers.message_definitions import full_definition, message_class
from outrider.runtime.reports.recording import RECORDED_TOPICS, TEXT_TOPIC, check_new

PERIOD_S = 1.0
CHUNK_BYTES = 256 * 1024
DEPTH = 500
# While one of these topics has messages, and for RUN_S after, every picture is recorded.
RUN_TOPICS, RUN_S = (TEXT_TOPIC, "cmd_vel"), 2.0
IMAGE, COMPRESSED = "sensor_msgs/msg/Image", "sensor_msgs/msg/CompressedImage"
MAX_WIDTH_PX, PICTURE_QUALITY = 1280, 85


class RecordNode(OutriderNode):
    """Records the topics of a run from their first publication, unchanged; pictures as JPEG.

    While the robot has nothing to do, it records one picture per PERIOD_S.
    """

    spec_name = "record"
    look_period_s = 1.0

    def configure(self) -> None:
        path = Path(self.value("file") or "run.mcap")
        check_new(path)
        make_private_folder(path.parent)
        self._stream = open_private(path, "wb")
        self._writer = Writer(self._stream, chunk_size=CHUNK_BYTES, compression=CompressionType.LZ4)
        self._writer.start(profile="ros2", library="outrider")
        self._path, self._active, self._messages = path, False, 0
        self._channels: dict[str, int] = {}
        self._refused: set[str] = set()
        self._ended = ""
        self._topics, self._pictures = Gate(self), Gate(self)
        self._run_channels: set[int] = set()
        self._run_s = -math.inf
        self._read: list[tuple[int, int, bytes]] = []

    def activate(self) -> None:
        self._active = True
        for gate in (self._topics, self._pictures):
            gate.discard()
        self.active_timer(PERIOD_S, self._look)

    def deactivate(self) -> None:
        if getattr(self, "_active", False):
            self._write_all()
        self._active = False

    def cleanup(self) -> None:
        """Write the file's index. Without an index it can still be read."""
        if not hasattr(self, "_writer"):
            return
        try:
            with self._stream:
                self._writer.finish()
        except OSError as error:
            self._give_up(error)
        del self._writer

    def health(self) -> tuple[str, dict[str, object]]:
        if not getattr(self, "_active", False):
            return "inactive", {}
        return self._trouble(), {
            "file": self._path,
            "topics": len(self._channels),
            "messages": self._messages,
        }

    def _trouble(self) -> str:
        refused = f"not recorded: {', '.join(sorted(self._refused))}" if self._refused else ""
        return self._ended or refused

    def _give_up(self, error: OSError) -> None:
        """End the recording, but not the run: a full disk is no reason to stop."""
        if not self._ended:
            why = error.strerror or error
            self._ended = f"the recording has ended, {self._path} cannot be written ({why}): make room"
            self.get_logger().error(self._ended)

    def _look(self) -> None:
        """Write what has come, flush it to the system, and subscribe to new topics."""
        self._write_all()
        published = {topic for topic, _ in self.get_topic_names_and_types()}
        for name in RECORDED_TOPICS:
            is_go2 = name.startswith("/api/")
            topic = self.resolve_topic_name(self.go2_topic(name) if is_go2 else name)
            if topic not in published or topic in self._channels or topic in self._refused:
                continue
            publishers = self.get_publishers_info_by_topic(topic)
            if publishers:
                self._follow(topic, publishers)
        try:
            self._stream.flush()
        except OSError as error:
            self._give_up(error)

    def _follow(self, topic: str, publishers: list[Any]) -> None:
        kinds = sorted({publisher.topic_type for publisher in publishers})
        try:
            if len(kinds) > 1:
                raise ConfigError(f"{topic} has publishers of several types: {', '.join(kinds)}")
            kind = message_class(kinds[0])
            is_picture = kinds[0] == IMAGE
            self._channels[topic] = self._add_channel(topic, COMPRESSED if is_picture else kinds[0])
        except ConfigError as error:
            self._refused.add(topic)
            self.get_logger().error(str(error))
            return
        if topic in map(self.resolve_topic_name, RUN_TOPICS):
            self._run_channels.add(self._channels[topic])
        on_message = self._on_picture if is_picture else self._take
        (self._pictures if is_picture else self._topics).subscription(
            kind,
            topic,
            lambda message, came_s: on_message(self._channels[topic], message, self._time_ns(came_s)),
            _qos_of(publishers, 1 if is_picture else DEPTH),
            raw=not is_picture,
        )

    def _add_channel(self, topic: str, type_name: str) -> int:
        schema = self._writer.register_schema(type_name, "ros2msg", full_definition(type_name).encode())
        name = f"{topic}/compressed" if type_name == COMPRESSED else topic
        return int(self._writer.register_channel(name, "cdr", schema))

    def _time_ns(self, came_s: float) -> int:
        return int(self.stamp_s(came_s) * 1e9)

    def _take(self, channel: int, serialized: bytes, received_ns: int) -> None:
        self._read.append((received_ns, channel, serialized))

    def _write_all(self) -> None:
        """Write the messages since the last call, in order of arrival."""
        self._topics.read()
        self._pictures.read()
        read, self._read = self._read, []
        if any(channel in self._run_channels for _, channel, _ in read):
            self._run_s = time.monotonic()
        self._pictures.is_open = time.monotonic() - self._run_s < RUN_S
        for received_ns, channel, serialized in sorted(read, key=lambda one: one[0]):
            if self._ended:
                return
            try:
                self._writer.add_message(channel, received_ns, serialized, received_ns, self._messages)
            except OSError as error:
                self._give_up(error)
                return
            self._messages += 1

    def _on_picture(self, channel: int, message: Image, received_ns: int) -> None:
        try:
            picture = cv2.cvtColor(convert.rgb_of(message), cv2.COLOR_RGB2BGR)
        except FrameError as error:
            self.get_logger().error(str(error), throttle_duration_sec=2.0)
            return
        if picture.shape[1] > MAX_WIDTH_PX:
            size = MAX_WIDTH_PX, max(1, picture.shape[0] * MAX_WIDTH_PX // picture.shape[1])
            picture = cv2.resize(picture, size, interpolation=cv2.INTER_AREA)
        encoded = cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, PICTURE_QUALITY])[1]
        compressed = CompressedImage(header=message.header, format="jpeg", data=encoded.tobytes())
        self._take(channel, serialize_message(compressed), received_ns)


def _qos_of(publishers: list[Any], depth: int) -> QoSProfile:
    """Returns a QoS that is compatible with every publisher, and loses as little as possible."""
    profiles = [publisher.qos_profile for publisher in publishers]
    reliable = all(profile.reliability == ReliabilityPolicy.RELIABLE for profile in profiles)
    latched = all(profile.durability == DurabilityPolicy.TRANSIENT_LOCAL for profile in profiles)
    return QoSProfile(
        depth=depth,
        history=HistoryPolicy.KEEP_LAST,
        reliability=ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE,
    )


def main() -> int:
    """Runs the node; returns the exit status."""
    return run_node(RecordNode)


if __name__ == "__main__":
    raise SystemExit(main())
