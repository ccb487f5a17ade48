# SPDX-License-Identifier: Apache-2.0
"""A camera's topic in its published form: raw, or compressed on the topic itself or on its sub-topic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sensor_msgs.msg import CompressedImage, Image

from outrider.nodes.common import qos
from outrider.nodes.common.node import OutriderNode
from outrider.nodes.common.picture_encodings import COMPRESSED, republish

RAW_TYPE, COMPRESSED_TYPE = "sensor_msgs/msg/Image", "sensor_msgs/msg/CompressedImage"
READABLE: Mapping[str, type] = {RAW_TYPE: Image, COMPRESSED_TYPE: CompressedImage}
TRANSPORTS = ("theora", "ffmpeg", "foxglove", "zstd", "compressedDepth")


@dataclass(frozen=True)
class Form:
    """A topic and the type with which it is published."""

    topic: str
    type_name: str


def readable_form(topic: str, published: Mapping[str, Iterable[str]]) -> Form | None:
    """Returns the form in which the pictures of a topic can be read, raw before compressed, if any."""
    candidates = (
        Form(topic, RAW_TYPE),
        Form(topic, COMPRESSED_TYPE),
        Form(topic + COMPRESSED, COMPRESSED_TYPE),
    )
    return next((form for form in candidates if form.type_name in published.get(form.topic, ())), None)


def unreadable_form(topic: str, published: Mapping[str, Iterable[str]]) -> str:
    """Returns why the pictures of a topic cannot be read, with a remedy; empty if nothing is published."""
    last = topic.rpartition("/")[2]
    if last in TRANSPORTS and published.get(topic):
        return _unreadable(topic, last, published[topic])
    for transport in TRANSPORTS:
        name = f"{topic}/{transport}"
        if published.get(name):
            return _unreadable(name, transport, published[name])
    kinds = ", ".join(published.get(topic, ()))
    return f"{topic} is of the type {kinds}, no picture: set topic to the camera's" if kinds else ""


def _unreadable(name: str, transport: str, kinds: Iterable[str]) -> str:
    if transport == "compressedDepth":
        return f"only {name} is published, a depth picture: set topic to the camera's colour topic"
    return f"only {name} ({', '.join(kinds)}) is published, which cannot be read: {republish(transport)}"


class PictureTopic:
    """Subscribes to the form that is published; `look` follows a change of form.

    The topic `own`, on which the node publishes these pictures, is never read.
    """

    def __init__(self, node: OutriderNode, topic: str, own: str, on_picture: Callable[[Any], None]) -> None:
        self._node, self._topic, self._on_picture = node, topic, on_picture
        self._own = node.resolve_topic_name(own)
        self._form: Form | None = None
        self._subscription: Any = None

    def look(self) -> None:
        """Subscribe to the form that is published now, if it differs from the last one."""
        if self._form is not None and self._form.type_name in self._kinds(self._form.topic):
            return
        form = readable_form(self._name, self._published())
        if form is None or form == self._form:
            return
        self.close()
        self._form = form
        self._subscription = self._node.subscription(
            READABLE[form.type_name], form.topic, self._on_picture, qos.LATEST_SENSOR
        )

    def close(self) -> None:
        """End the subscription. Closing twice does no harm."""
        if self._subscription is not None:
            self._node.drop(self._subscription)
            self._subscription = self._form = None

    def why_silent(self) -> str:
        """Returns why no picture may have come, with a remedy."""
        published = self._published()
        form = readable_form(self._name, published)
        if form is not None:
            return self._node.why_silent(form.topic, READABLE[form.type_name])
        if self._name == self._own:
            return (
                f"{self._own} is where this node publishes its pictures: let the driver publish elsewhere, "
                "or give the robot a namespace, as namespace:=go2"
            )
        unreadable = unreadable_form(self._name, published)
        return unreadable or self._node.why_silent(self._topic, self._other_kind(published), "set topic:={1}")

    def _other_kind(self, published: Mapping[str, Iterable[str]]) -> type:
        """Returns the message type of pictures that other nodes publish."""
        kinds = {kind for names in published.values() for kind in names}
        return CompressedImage if COMPRESSED_TYPE in kinds and RAW_TYPE not in kinds else Image

    @property
    def _name(self) -> str:
        return self._node.resolve_topic_name(self._topic)

    def _published(self) -> dict[str, list[str]]:
        """Returns the types of each topic that another node publishes."""
        names = (name for name, _ in self._node.get_topic_names_and_types())
        return {name: kinds for name in names if name != self._own and (kinds := self._kinds(name))}

    def _kinds(self, name: str) -> list[str]:
        own = self._node.get_name(), self._node.get_namespace()
        ends = self._node.get_publishers_info_by_topic(name)
        return sorted({end.topic_type for end in ends if (end.node_name, end.node_namespace) != own})
