# SPDX-License-Identifier: Apache-2.0
"""Cameras that send pictures all the time: a device, and the RTP stream of the Go2's front camera."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import socket
import struct
import tempfile
import threading
from collections.abc import Callable, Iterator

import cv2

from outrider.core.errors import FrameError
from outrider.nodes.common.picture_encodings import Picture, rgb_of_opencv

# The front camera of the Go2 sends H.264 to this multicast group.
RTP_GROUP, RTP_PORT = "230.1.1.1", 1720
OPEN_MS, _READ_MS = 5000, 500
_RETRY_S = 0.5
_WAIT_S = 0.5
_END_S = (OPEN_MS + _READ_MS) / 1e3
# The option that joins a group on a given interface came with FFmpeg 5. Older versions use any interface.
_FIRST_AVFORMAT = 59
_SIOCGIFADDR = 0x8915
_FFMPEG_OPTIONS = "OPENCV_FFMPEG_CAPTURE_OPTIONS"


class LiveSource:
    """A camera whose `read` returns a picture taken after the call.

    A thread grabs every picture from the driver, whose queue would give old ones, and passes on those that
    are requested. The camera is opened again if it gives nothing, for example when it was unplugged. `name`
    and `advice` are for errors. Raises FrameError if it gives nothing at first.
    """

    def __init__(self, open_capture: Callable[[], cv2.VideoCapture], name: str, advice: str) -> None:
        self._open_capture = open_capture
        self._name, self._advice = name, advice
        self._changed = threading.Condition()
        self._is_requested = False
        self._newest: Picture | None = None
        self._trouble = f"{name} gives no picture"
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(self._open(),), daemon=True)
        self._thread.start()

    def read(self) -> Picture:
        """Returns the next picture; waits briefly for it. Raises FrameError."""
        with self._changed:
            self._newest, self._is_requested = None, True
            self._changed.wait_for(lambda: self._newest is not None, _WAIT_S)
            pixels = self._newest
            if pixels is None:
                raise FrameError(self._trouble)
        return rgb_of_opencv(pixels)

    def close(self) -> None:
        """End the thread, which frees the camera. It waits only for a running call of OpenCV."""
        self._closing.set()
        self._thread.join(_END_S)

    def _run(self, capture: cv2.VideoCapture) -> None:
        while not self._closing.is_set():
            # Some backends raise an error where others return False.
            with contextlib.suppress(cv2.error):
                if capture.grab():
                    self._deliver(capture)
                    continue
            capture.release()
            self._closing.wait(_RETRY_S)
            try:
                capture = self._open()
            except FrameError as error:
                self._trouble = str(error)
        capture.release()

    def _deliver(self, capture: cv2.VideoCapture) -> None:
        if not self._is_requested:
            return
        read, pixels = capture.retrieve()
        with self._changed:
            if read:
                self._newest, self._is_requested = pixels, False
            self._changed.notify()

    def _open(self) -> cv2.VideoCapture:
        try:
            capture = self._open_capture()
        except (OSError, cv2.error) as error:
            raise FrameError(f"{self._name} cannot be opened: {error}") from error
        if not capture.grab():  # a stream can be opened before any picture comes
            capture.release()
            raise FrameError(f"{self._name} gives no picture: {self._advice}")
        self._trouble = f"{self._name} gives no picture"
        return capture


def open_device(device: int) -> LiveSource:
    """Opens a camera of this machine by its number."""
    return LiveSource(
        lambda: cv2.VideoCapture(device), f"camera device {device}", "check the parameters source and device"
    )


def open_rtp(interface: str, port: int = RTP_PORT, open_ms: int = OPEN_MS) -> LiveSource:
    """Opens the Go2's camera stream on a network interface; OpenCV's FFmpeg decodes it.

    Raises FrameError if no picture comes within `open_ms` milliseconds.
    """
    _check_ffmpeg()
    address = interface_address(interface)
    return LiveSource(
        lambda: _open_stream(address, port, open_ms),
        f"the RTP stream on {RTP_GROUP}:{port}",
        f"is the robot on, and {interface} the interface of its network? Else set source:=videohub",
    )


def interface_address(interface: str) -> str:
    """Returns the IPv4 address of a network interface; FrameError if there is none."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        request = struct.pack("256s", interface.encode()[:15])
        return socket.inet_ntoa(fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)[20:24])
    names = ", ".join(name for _, name in socket.if_nameindex())
    raise FrameError(
        f"interface={interface!r} is no network interface with an IPv4 address: there are {names}"
    )


def _check_ffmpeg() -> None:
    match = re.search(r"avformat: +YES \((\d+)", cv2.getBuildInformation())
    if match is None or int(match[1]) < _FIRST_AVFORMAT:
        raise FrameError(
            "source=rtp needs an OpenCV with FFmpeg 5 or later, as opencv-python has: install that, or set "
            "source:=videohub"
        )


def _open_stream(address: str, port: int, open_ms: int) -> cv2.VideoCapture:
    with tempfile.NamedTemporaryFile("w", suffix=".sdp") as description:
        description.write(session_description(port))
        description.flush()
        with _ffmpeg_options(f"protocol_whitelist;file,rtp,udp|localaddr;{address}|fflags;nobuffer"):
            timeouts = (cv2.CAP_PROP_OPEN_TIMEOUT_MSEC, open_ms, cv2.CAP_PROP_READ_TIMEOUT_MSEC, _READ_MS)
            return cv2.VideoCapture(description.name, cv2.CAP_FFMPEG, timeouts)


def session_description(port: int) -> str:
    """Returns the description of the robot's stream in SDP (RFC 8866): the robot announces none."""
    return (
        f"v=0\no=- 0 0 IN IP4 {RTP_GROUP}\ns=Go2\nc=IN IP4 {RTP_GROUP}\nt=0 0\n"
        f"m=video {port} RTP/AVP 96\na=rtpmap:96 H264/90000\n"
    )


@contextlib.contextmanager
def _ffmpeg_options(options: str) -> Iterator[None]:
    """Set FFmpeg's options while a capture is opened: OpenCV reads them only from the environment."""
    before = os.environ.get(_FFMPEG_OPTIONS)
    os.environ[_FFMPEG_OPTIONS] = options
    try:
        yield
    finally:
        if before is None:
            del os.environ[_FFMPEG_OPTIONS]
        else:
            os.environ[_FFMPEG_OPTIONS] = before
