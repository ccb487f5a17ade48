"""Cameras that are read live: a robot's RTP stream, and devices whose drivers queue pictures."""

from __future__ import annotations

import queue
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
from sensor_msgs.msg import Image

from outrider.core.errors import FrameError
from outrider.nodes.camera import camera_node
from outrider.nodes.camera.camera_node import CameraNode
from outrider.nodes.camera.live_source import LiveSource, open_rtp
from outrider.nodes.common import convert, qos

pytestmark = pytest.mark.ros


def free_udp_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1]) & ~1  # RTP uses an even port, and its reports the next one


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


def test_an_old_ffmpeg_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cv2, "getBuildInformation", lambda: "    avformat:   YES (58.76.100)")
    with pytest.raises(FrameError, match="FFmpeg 5 or later"):
        open_rtp("lo")


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


def is_readable(source: LiveSource) -> bool:
    with suppress(FrameError):
        return source.read().shape == (2, 2, 3)
    return False


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
