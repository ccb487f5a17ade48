"""The camera node with files and topics, and its parameters."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
from conftest import Client, NodeThread, wait_until
from sample_pictures import STAMP, jpeg, picture
from sensor_msgs.msg import CameraInfo, CompressedImage, Image

from outrider.core.errors import OutriderError
from outrider.nodes.camera.camera_node import CameraNode
from outrider.nodes.camera.picture_topic import Form, readable_form, unreadable_form
from outrider.nodes.common import convert, qos
from outrider.runtime.node_graph.parameters import Value

pytestmark = pytest.mark.ros


def test_a_file_is_published_with_its_camera_info(
    run_node: Callable[..., NodeThread], client: Client, tmp_path: Path
) -> None:
    path = str(tmp_path / "picture.png")
    cv2.imwrite(path, picture()[:, :, ::-1])
    images = client.listen(Image, "camera/image_raw", qos.LATEST_SENSOR)
    infos = client.listen(CameraInfo, "camera/camera_info", qos.LATEST_SENSOR)
    run_node(lambda: CameraNode({"source": "file", "path": path, "rate_hz": 30.0}))
    wait_until(lambda: len(images) >= 2 and infos, "a second picture of the same file")
    assert np.array_equal(convert.rgb_of(images[0]), picture())
    assert images[0].header.frame_id == "camera_optical_frame"
    assert infos[0].k[0] == pytest.approx(864.4 * 64 / 1280)


DAMAGE = [
    ("p.jpg", jpeg()[: len(jpeg()) // 2], "truncated"),
    ("p.jpg", b"GIF89a" + bytes(200), "no JPEG"),
    ("p.jpg", b"", "no JPEG"),
    ("p.png", jpeg()[:50], "cannot be decoded|holds no picture"),
    ("p.mp4", b"no video", "cannot be opened"),
]


@pytest.mark.parametrize(("name", "content", "words"), DAMAGE)
def test_a_damaged_file_at_the_start_is_named(
    ros: None, tmp_path: Path, name: str, content: bytes, words: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    node = CameraNode({"source": "file", "path": str(path)})
    with pytest.raises(OutriderError, match=words) as failure:
        node.start()
    assert str(path) in str(failure.value)
    node.destroy_node()


def test_a_file_that_breaks_is_warned_of_and_shown_again_once_it_is_whole(
    run_node: Callable[..., NodeThread], client: Client, tmp_path: Path
) -> None:
    path = tmp_path / "p.jpg"
    path.write_bytes(jpeg())
    images = client.listen(Image, "camera/image_raw", qos.LATEST_SENSOR)
    node = run_node(lambda: CameraNode({"source": "file", "path": str(path), "rate_hz": 30.0})).node
    wait_until(lambda: images, "a picture")
    path.write_bytes(jpeg()[:-40])
    wait_until(lambda: "truncated" in node.health()[0], "the warning")
    path.write_bytes(jpeg())
    seen = wait_until(lambda: node.health()[0] == "" and len(images), "health")
    wait_until(lambda: len(images) > seen, "another picture")


def test_a_missing_file_or_device_says_what_to_set(ros: None) -> None:
    for options, words in (({"source": "file", "path": "/no.mp4"}, "path"), ({"device": 63}, "device 63")):
        node = CameraNode(options)  # type: ignore[arg-type]
        with pytest.raises(OutriderError, match=words):
            node.start()
        node.destroy_node()


def test_another_topic_is_relayed_and_a_foreign_picture_only_warned_of(
    run_node: Callable[..., NodeThread], client: Client
) -> None:
    images = client.listen(Image, "camera/image_raw", qos.LATEST_SENSOR)
    node = run_node(lambda: CameraNode({"source": "topic", "topic": "elsewhere"})).node
    good, bad = (convert.image_message(picture(), STAMP, "x") for _ in range(2))
    bad.encoding = "bayer8"
    client.publish(bad, "elsewhere", qos.COMMAND)
    wait_until(lambda: "bayer8" in node.health()[0], "the warning")
    client.publish(good, "elsewhere", qos.COMMAND)
    relayed = wait_until(lambda: images, "the relayed picture")[0]
    assert relayed.header.stamp == STAMP and node.health()[0] == ""


def test_the_camera_relays_its_own_pictures_to_nobody(
    run_node: Callable[..., NodeThread], client: Client
) -> None:
    """A driver that publishes on the node's own topic is named; its compressed topic is read."""
    images = client.listen(Image, "camera/image_raw", qos.LATEST_SENSOR)
    node = run_node(lambda: CameraNode({"source": "topic", "topic": "camera/image_raw"})).node
    publisher = client.publisher(Image, "camera/image_raw", qos.EVENTS)
    wait_until(lambda: "is where this node publishes" in node.health()[0], "the reason")
    publisher.publish(convert.image_message(picture(), STAMP, "x"))
    client.publish(CompressedImage(format="jpeg", data=jpeg()), "camera/image_raw/compressed", qos.EVENTS)
    wait_until(lambda: len(images) > 1, "the compressed picture")
    assert len(images) == 2 and node.health()[0] == ""


@pytest.mark.parametrize(
    ("published", "given"),
    [("phone/compressed", "phone"), ("phone/compressed", "phone/compressed"), ("x", "x")],
)
def test_a_compressed_topic_is_followed_beside_the_raw_name_and_as_it_is(
    published: str, given: str, run_node: Callable[..., NodeThread], client: Client
) -> None:
    images = client.listen(Image, "camera/image_raw", qos.LATEST_SENSOR)
    infos = client.listen(CameraInfo, "camera/camera_info", qos.LATEST_SENSOR)
    node = run_node(lambda: CameraNode({"source": "topic", "topic": given})).node
    message = CompressedImage(format="rgb8; jpeg compressed bgr8", data=jpeg())
    message.header.stamp = STAMP
    client.publish(CompressedImage(), published, qos.EVENTS)
    wait_until(lambda: "empty" in node.health()[0], "the empty first picture")
    client.publish(message, published, qos.EVENTS)
    relayed = wait_until(lambda: images, "a picture")[0]
    assert convert.rgb_of(relayed).shape == picture().shape and relayed.header.stamp == STAMP
    assert wait_until(lambda: infos, "its camera_info")[0].width == picture().shape[1]
    assert node.health()[0] == ""


def test_a_driver_that_comes_back_with_another_form_is_followed(
    run_node: Callable[..., NodeThread], client: Client
) -> None:
    images = client.listen(Image, "camera/image_raw", qos.LATEST_SENSOR)
    run_node(lambda: CameraNode({"source": "topic", "topic": "phone"}))
    first = client.node.create_publisher(Image, "phone", qos.EVENTS)
    wait_until(lambda: first.get_subscription_count(), "the raw subscription")
    first.publish(convert.image_message(picture(), STAMP, "x"))
    wait_until(lambda: images, "a raw picture")
    client.do(lambda: client.node.destroy_publisher(first))
    images.clear()
    client.publish(CompressedImage(format="jpeg", data=jpeg()), "phone/compressed", qos.EVENTS)
    wait_until(lambda: images, "a compressed picture")


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"source": "topic", "topic": "/camera/image-raw"}, "topic: '/camera/image-raw' is no topic"),
        ({"source": "topic", "topic": ""}, "topic: '' is no topic"),
        ({"source": "topic", "topic": "{robot}/image"}, "unknown substitution"),
        ({"source": "videohub", "go2_prefix": "/go2/"}, "go2_prefix: '/go2//api/videohub/"),
    ],
)
def test_a_parameter_that_makes_no_topic_is_named(
    parameters: dict[str, Value], words: str, run_node: Callable[..., NodeThread]
) -> None:
    with pytest.raises(OutriderError) as raised:
        run_node(lambda: CameraNode(parameters))
    assert words in str(raised.value) and "\n" not in str(raised.value)


RAW, PACKED = "sensor_msgs/msg/Image", "sensor_msgs/msg/CompressedImage"


@pytest.mark.parametrize(
    ("published", "form"),
    [
        ({"/c": [RAW], "/c/compressed": [PACKED]}, Form("/c", RAW)),
        ({"/c/compressed": [PACKED], "/c/theora": ["theora"]}, Form("/c/compressed", PACKED)),
        ({"/c": [PACKED]}, Form("/c", PACKED)),
        ({"/c": ["std_msgs/msg/String"], "/c/compressed": [PACKED]}, Form("/c/compressed", PACKED)),
        ({"/c/compressed": ["std_msgs/msg/String"]}, None),
        ({}, None),
    ],
)
def test_raw_pictures_come_before_compressed_ones(published: dict[str, list[str]], form: Form | None) -> None:
    assert readable_form("/c", published) == form


@pytest.mark.parametrize(
    ("topic", "published", "words"),
    [
        ("/c", {"/c/theora": ["theora_image_transport/msg/Packet"]}, "in_transport:=theora"),
        (
            "/c/ffmpeg",
            {"/c/ffmpeg": ["ffmpeg_image_transport_msgs/msg/Packet"]},
            "in_transport:=ffmpeg",
        ),
        ("/c", {"/c/compressedDepth": [PACKED]}, "colour topic"),
        ("/c", {"/c": ["sensor_msgs/msg/PointCloud2"]}, "no picture: set topic"),
        ("/c", {"/d": [RAW]}, "^$"),
    ],
)
def test_a_form_that_cannot_be_read_is_named_with_the_remedy(
    topic: str, published: dict[str, list[str]], words: str
) -> None:
    assert re.search(words, unreadable_form(topic, published))
