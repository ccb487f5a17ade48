# SPDX-License-Identifier: Apache-2.0
"""The robot's memory as services; it also records by itself what the texts report as seen."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from nav_msgs.msg import Odometry as OdometryMsg
from outrider_interfaces.msg import MemoryRecord, VerifiedText
from outrider_interfaces.srv import Forget, Recall, Remember
from sensor_msgs.msg import Image

from outrider.core.errors import FrameError, MemoryStoreError, NotErasedError
from outrider.core.values import LinkState, Place, Pose2D, Recalled, Visibility
from outrider.memory.observer import Observer
from outrider.memory.store.eviction import StoreLimits
from outrider.memory.store.records import RecordFilter
from outrider.navigation.sensing.camera_jpeg import model_jpeg
from outrider.navigation.sensing.odometry_check import OdometryCheck
from outrider.navigation.sensing.odometry_track import OdometryTrack
from outrider.nodes.common import convert, qos
from outrider.nodes.common.gate import Gate
from outrider.nodes.common.node import OutriderNode
from outrider.nodes.common.running import run_node
from outrider.runtime.wiring.memory_stores import default_store, forget_memory, open_memory, this_home

DEFAULT_LIMIT = 3
DEFAULT_RADIUS_M = 3.0


class MemoryNode(OutriderNode):
    """Owns the store's bounds. The navigator has the same store open: each reads what the other writes."""

    spec_name = "memory"
    look_period_s = 0.5

    def configure(self) -> None:
        limits = StoreLimits(self.value("max_records"), self.value("max_mb"), self.value("max_age_days"))
        store = self.value("memory_store") or default_store(self.get_namespace())
        self._memory = open_memory(store, self.value("memory_key_file"), limits)
        self._home = this_home(self.value("home"))
        self._observer = Observer(self._memory, self._home)
        self._odometry_check = OdometryCheck(self.is_simulated)
        self._pose: Pose2D | None = None
        self._track = OdometryTrack()
        self._image: Image | None = None
        self._warning = ""
        for service, name, answer in (
            (Remember, "remember", self._remember),
            (Recall, "recall", self._recall),
            (Forget, "forget", self._forget),
        ):
            self.keep(self.create_service(service, name, self._guarded_answer(answer)), self.destroy_service)
        self._odometry, self._pictures = Gate(self), Gate(self)
        if self.value("automatic"):
            self.subscription(VerifiedText, "verified_text", self._on_text, qos.EVENTS)
            self._odometry.subscription(OdometryMsg, "odom", self._on_odometry, qos.RECENT_SENSOR)
            self._pictures.subscription(Image, "camera/image_raw", self._on_image, qos.LATEST_SENSOR)

    def cleanup(self) -> None:
        if hasattr(self, "_memory"):
            self._memory.close()
            del self._memory

    def health(self) -> tuple[str, dict[str, object]]:
        if not hasattr(self, "_memory"):
            return "unconfigured", {}
        self._odometry.read()
        try:
            values = {"records": self._memory.count(), "mb": round(self._memory.size_mb(), 1)}
        except MemoryStoreError as error:
            return str(error), {}
        return self._warning or self._odometry_check.fault, {**values, "home": self._home}

    def _guarded_answer(self, answer: Callable[[Any, Any], None]) -> Callable[[Any, Any], Any]:
        """Returns a service callback that reports the reason if it fails."""

        def serve(request: Any, response: Any) -> Any:
            try:
                answer(request, response)
                response.success = True
            except MemoryStoreError as error:
                response.success, response.message = False, str(error)
            return response

        return serve

    def _remember(self, request: Any, response: Any) -> None:
        visibility = Visibility.SHAREABLE if request.shareable else Visibility.PRIVATE
        place = Place(request.x, request.y, self._home) if request.has_place else None
        record = self._memory.add(request.text, visibility=visibility, place=place)
        response.id, response.message = record.id, f"remembered ({visibility.value})"

    def _recall(self, request: Any, response: Any) -> None:
        only = RecordFilter(
            visibility=Visibility.SHAREABLE if request.shareable_only else None,
            since_s=time.time() - request.within_s if request.within_s else None,
            near=Place(request.x, request.y, self._home) if request.has_place else None,
            radius_m=request.radius_m or DEFAULT_RADIUS_M,
        )
        found = self._memory.recall(request.query, request.limit or DEFAULT_LIMIT, only)
        response.records = [record_message(recalled) for recalled in found]
        parts = [f"{recalled.record.id} by: {recalled.passage}" for recalled in found if recalled.is_part]
        response.message = "\n".join(parts)

    def _forget(self, request: Any, response: Any) -> None:
        try:
            response.forgotten, response.message = forget_memory(
                self._memory, list(request.ids), [request.matching], request.everything
            )
        except NotErasedError as error:
            response.forgotten = error.num_forgotten
            raise

    def _on_odometry(self, message: OdometryMsg, came_s: float) -> None:
        odometry = self._odometry_check.take(convert.odometry_sample(message), came_s)
        self._pose = odometry.pose if odometry else None
        if odometry is not None:
            self._track.take(odometry)

    def _on_image(self, message: Image, _: float) -> None:
        self._image = message

    def _on_text(self, message: VerifiedText) -> None:
        self._odometry.read()
        step, finished = (message.session_id, message.step), message.state == VerifiedText.FINISHED
        try:
            thumbnail = self._thumbnail() if finished else b""
            pose = self._pose_of_picture(message.header.stamp)
            # Only with text: at the start of a text the link state may still be that of the text before.
            alone = bool(message.text) and message.link_state == LinkState.LOCAL.value
            self._observer.on_text(step, message.text, finished, pose, time.time(), thumbnail, alone)
            self._warning = ""
        except MemoryStoreError as error:
            self._warning = str(error)
            self.get_logger().error(self._warning, throttle_duration_sec=10.0)

    def _pose_of_picture(self, stamp: convert.Time) -> Pose2D | None:
        """Returns the robot's pose when a text's picture was taken; without a stamp, the newest pose."""
        if stamp == convert.Time():
            return self._pose
        age_s = self.get_clock().now().nanoseconds * 1e-9 - convert.seconds_of(stamp)
        return self._track.pose_at(self.now_s() - age_s)

    def _thumbnail(self) -> bytes:
        self._pictures.read()
        try:
            return b"" if self._image is None else model_jpeg(convert.rgb_of(self._image))
        except FrameError:
            return b""


def record_message(recalled: Recalled) -> MemoryRecord:
    """Returns a recalled record as a message."""
    record, place = recalled.record, recalled.record.place
    message = MemoryRecord(
        id=record.id,
        text=record.text,
        kind=record.kind.value,
        visibility=record.visibility.value,
        created=convert.time_of(record.created_s),
        updated=convert.time_of(record.updated_s),
        has_place=place is not None,
        similarity=recalled.similarity,
    )
    if place is not None:
        message.x, message.y, message.home = place.x, place.y, place.home
    return message


def main() -> int:
    """Runs the node; returns the exit status."""
    return run_node(MemoryNode)


if __name__ == "__main__":
    raise SystemExit(main())
