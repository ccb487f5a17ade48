"""The camera node and its conversion of pictures."""

from __future__ import annotations

import queue
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import cv2
import numpy as np
import pytest
from conftest import Client, NodeThread, wait_until
from sensor_msgs.msg import CameraInfo, CompressedImage, Image
from unitree_api.msg import Request

from outrider.core.errors import FrameError, OutriderError
from outrider.nodes.camera import camera_node
from outrider.nodes.camera.camera_node import CameraNode
from outrider.nodes.camera.live_source import LiveSource, open_rtp
from outrider.nodes.camera.picture_topic import Form, readable_form, unreadable_form
from outrider.nodes.camera.videohub import Videohub
from outrider.nodes.common import convert, qos
from outrider.nodes.go2 import go2_api
from outrider.nodes.go2.go2_client import ServiceClient
from outrider.runtime.node_graph.parameters import Value

pytestmark = pytest.mark.ros
STAMP = convert.time_of(12.5)


def free_udp_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1]) & ~1  # RTP uses an even port, and its reports the next one


def picture() -> np.ndarray:
    return np.random.default_rng(1).integers(0, 255, (36, 64, 3), dtype=np.uint8)


@pytest.mark.parametrize("encoding", ["rgb8", "bgr8", "rgba8", "bgra8"])
def test_every_encoding_becomes_the_same_rgb(encoding: str) -> None:
    rgb = picture()
    pixels = rgb[:, :, ::-1] if encoding.startswith("bgr") else rgb
    if encoding.endswith("a8"):
        pixels = np.dstack([pixels, np.full(rgb.shape[:2], 255, np.uint8)])
    message = convert.image_message(rgb, STAMP, "camera")
    message.encoding, message.step = encoding, pixels.shape[1] * pixels.shape[2]
    message.data = np.ascontiguousarray(pixels).tobytes()
    assert np.array_equal(convert.rgb_of(message), rgb)


@pytest.mark.parametrize(
    ("field", "value"), [("encoding", "bayer8"), ("height", 35), ("step", 3), ("width", 900)]
)
def test_a_picture_that_does_not_fit_its_header_is_refused(field: str, value: object) -> None:
    message = convert.image_message(picture(), STAMP, "camera")
    setattr(message, field, value)
    with pytest.raises(FrameError):
        convert.rgb_of(message)


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


def jpeg() -> bytes:
    return bytes(cv2.imencode(".jpg", picture())[1])


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


@contextmanager
def robot_camera(port: int) -> Iterator[None]:
    pytest.importorskip("av", reason="the stream's sender needs PyAV (pip install av)")
    command = [sys.executable, str(Path(__file__).with_name("rtp_camera.py")), str(port)]
    sender = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert sender.stdout is not None and sender.stdout.readline(), "its first picture"
        yield
    finally:
        sender.kill()
        sender.communicate()


def test_the_robot_s_stream_is_published_and_taken_up_again_after_a_break(
    run_node: Callable[..., NodeThread], client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_udp_port()
    monkeypatch.setattr(camera_node, "open_rtp", partial(open_rtp, port=port))
    images = client.listen(Image, "camera/image_raw", qos.LATEST_SENSOR)
    with robot_camera(port):
        node = run_node(lambda: CameraNode({"source": "rtp", "interface": "lo", "rate_hz": 10.0})).node
        wait_until(lambda: len({bytes(image.data) for image in images}) > 3, "pictures that move")
        pixels = [convert.rgb_of(image) for image in images]
        assert {rgb.shape for rgb in pixels} == {(360, 640, 3)}
        reds = [rgb[:, -1].mean(axis=0) for rgb in pixels]
        assert any(red == pytest.approx((200, 0, 0), abs=12) for red in reds)
    wait_until(lambda: "RTP stream" in node.health()[0], "the silence to be noticed")
    with robot_camera(port):
        wait_until(lambda: node.health()[0] == "", "the stream to be taken up again")


def test_a_stream_that_is_not_there_says_what_to_check() -> None:
    with pytest.raises(FrameError, match=r"is the robot on.*source:=videohub"):
        open_rtp("lo", free_udp_port(), open_ms=100)


@pytest.mark.parametrize("interface", ["", "eth99", "a name far longer than a kernel's"])
def test_what_is_no_interface_starts_no_stream(interface: str) -> None:
    with pytest.raises(FrameError, match=r"no network interface.*\blo\b"):
        open_rtp(interface)


class QueuedCapture:
    """A driver that returns its oldest picture first, as V4L's does; each picture is a number."""

    def __init__(self, *numbers: int) -> None:
        self.filled: queue.Queue[int] = queue.Queue()
        for number in numbers:
            self.filled.put(number)
        self.retrieved: list[int] = []
        self.released = threading.Event()
        self._grabbed = 0

    def grab(self) -> bool:
        with suppress(queue.Empty):
            self._grabbed = self.filled.get(timeout=0.05)
            return True
        return False

    def retrieve(self) -> tuple[bool, np.ndarray]:
        self.retrieved.append(self._grabbed)
        return True, np.full((2, 2, 3), self._grabbed, np.uint8)

    def release(self) -> None:
        self.released.set()


class EndlessCapture(QueuedCapture):
    def grab(self) -> bool:
        self._grabbed = min(self._grabbed + 1, 200)
        return not self.released.wait(0.001)


def test_a_camera_s_next_picture_is_read_however_many_came_before() -> None:
    first, last, is_plugged_in = QueuedCapture(1, 2, 3, 4, 5), EndlessCapture(), threading.Event()

    def open_camera() -> QueuedCapture:
        if not first.released.is_set():
            return first
        return last if is_plugged_in.is_set() else QueuedCapture()

    source = LiveSource(open_camera, "a camera", "look at it")  # type: ignore[arg-type]
    wait_until(first.released.is_set, "all to be taken")
    with pytest.raises(FrameError, match="a camera gives no picture"):
        source.read()
    assert first.retrieved == [], "nobody asked for them"
    is_plugged_in.set()
    wait_until(lambda: is_readable(source), "the camera to be opened anew")
    wait_until(lambda: last._grabbed == 200, "many more pictures")
    assert source.read()[0, 0, 0] == 200
    source.close()
    assert last.released.is_set()


def test_a_camera_that_cannot_be_opened_for_another_reason_says_so() -> None:
    def open_camera() -> QueuedCapture:
        raise OSError("no space left on the device")

    with pytest.raises(FrameError, match="a camera cannot be opened: no space left"):
        LiveSource(open_camera, "a camera", "look at it")  # type: ignore[arg-type]


def test_an_old_ffmpeg_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cv2, "getBuildInformation", lambda: "    avformat:   YES (58.76.100)")
    with pytest.raises(FrameError, match="FFmpeg 5 or later"):
        open_rtp("lo")


def is_readable(source: LiveSource) -> bool:
    with suppress(FrameError):
        return source.read().shape == (2, 2, 3)
    return False


def test_a_missing_file_or_device_says_what_to_set(ros: None) -> None:
    for options, words in (({"source": "file", "path": "/no.mp4"}, "path"), ({"device": 63}, "device 63")):
        node = CameraNode(options)  # type: ignore[arg-type]
        with pytest.raises(OutriderError, match=words):
            node.start()
        node.destroy_node()


def test_a_robot_s_picture_that_takes_long_is_followed_by_the_next_at_once() -> None:
    sent: list[Request] = []
    pictures: list[np.ndarray] = []
    calls = ServiceClient(go2_api.VIDEOHUB, sent.append, lambda: True)
    hub = Videohub(calls, lambda read, _: pictures.append(read()), pytest.fail, lambda: STAMP)

    def answer() -> None:
        calls.on_response(go2_api.response(sent[-1], go2_api.CODE_OK, binary=jpeg()))

    hub.ask()
    answer()
    assert len(sent) == 1 and pictures[0].shape == picture().shape
    hub.ask()
    hub.ask()
    assert len(sent) == 2, "one at a time"
    answer()
    assert len(sent) == 3
    answer()
    assert len(sent) == 3 and len(pictures) == 3


class LossyHub:
    """A robot's videohub on its own clock. Answers after `takes_s`, except the requests that are `lost`."""

    def __init__(self, lost: Callable[[int], bool], takes_s: float = 0.03) -> None:
        self.now_s = 0.0
        self.came_s: list[float] = []
        self.warnings: list[str] = []
        self.num_sent = 0
        self._lost, self._takes_s = lost, takes_s
        self._on_their_way: list[tuple[float, Request]] = []
        self.calls = ServiceClient(go2_api.VIDEOHUB, self._send, lambda: True, lambda: self.now_s)
        self.hub = Videohub(self.calls, self._relay, self.warnings.append, lambda: STAMP)

    def _send(self, request: Request) -> None:
        self.num_sent += 1
        if not self._lost(self.num_sent):
            self._on_their_way.append((self.now_s + self._takes_s, request))

    def _relay(self, read: Callable[[], np.ndarray], _: object) -> None:
        try:
            read()
            self.came_s.append(self.now_s)
        except FrameError as error:
            self.warnings.append(str(error))

    def run(self, duration_s: float) -> None:
        for turn in range(round(duration_s / 0.01)):
            self.now_s += 0.01
            if turn % 10 == 0:
                self.hub.ask()
            due = [request for due_s, request in self._on_their_way if due_s <= self.now_s]
            self._on_their_way = [entry for entry in self._on_their_way if entry[0] > self.now_s]
            for request in due:
                self.calls.on_response(go2_api.response(request, go2_api.CODE_OK, binary=jpeg()))


def test_a_tenth_of_the_robot_s_pictures_lost_leaves_no_long_gap() -> None:
    rng = np.random.default_rng(5)
    hub = LossyHub(lambda _: rng.random() < 0.1)
    hub.run(60.0)
    assert max(np.diff(hub.came_s)) < 0.5 and len(hub.came_s) > 500 and hub.warnings == []


def test_a_robot_that_takes_long_for_a_picture_is_not_asked_in_vain() -> None:
    hub = LossyHub(lambda _: False, takes_s=0.4)
    hub.run(10.0)
    assert hub.num_sent <= len(hub.came_s) + 5


def test_a_robot_that_gives_no_picture_is_named_and_asked_on() -> None:
    hub = LossyHub(lambda number: number < 30)
    hub.run(2.0)
    assert hub.came_s == [] and "did not answer within 1 s" in hub.warnings[0]
    hub.run(3.0)
    assert hub.came_s


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
