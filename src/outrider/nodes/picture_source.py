"""Where the camera node gets its pictures from: OpenCV's devices, videos and streams, or a picture file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import cv2
import numpy as np

from outrider.core.errors import FrameError
from outrider.core.jpeg import jpeg_size

Picture = np.ndarray[Any, Any]
_STILL_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".webp"})
_JPEG_SUFFIXES = frozenset({".jpg", ".jpeg"})


# The front camera of the Go2 sends H.264 to this multicast group.
RTP_GROUP, RTP_PORT = "230.1.1.1", 1720
_RTP_TIMEOUTS = (cv2.CAP_PROP_OPEN_TIMEOUT_MSEC, 5000, cv2.CAP_PROP_READ_TIMEOUT_MSEC, 1000)


def decode_picture(data: bytes, is_jpeg: bool) -> Picture:
    """The pixels of an encoded picture; FrameError for a damaged one."""
    if is_jpeg:
        jpeg_size(data)
    try:
        pixels = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR) if data else None
    except cv2.error as error:
        raise FrameError(str(error)) from error
    if pixels is None:
        raise FrameError(f"it holds no picture that can be decoded, in {len(data)} bytes")
    return cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB)


class PictureSource(Protocol):
    """Pictures are uint8 (H, W, 3) RGB."""

    def read(self) -> Picture:
        """The next picture; FrameError where there is none now, and a later call may succeed."""

    def close(self) -> None: ...


class StillSource:
    """The same picture again and again, from the file as it is at the time."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> Picture:
        try:
            data = self._path.read_bytes()
        except OSError as error:
            raise FrameError(f"{self._path} cannot be read: {error.strerror}") from error
        try:
            return decode_picture(data, self._path.suffix.lower() in _JPEG_SUFFIXES)
        except FrameError as error:
            raise FrameError(f"{self._path}: {error}; check the parameter path") from error

    def close(self) -> None:
        """Nothing is open between pictures."""


def rtp_pipeline(interface: str) -> str:
    """The GStreamer pipeline that receives the Go2's camera on a network interface, newest frame only."""
    return (
        f"udpsrc address={RTP_GROUP} port={RTP_PORT} multicast-iface={interface} ! "
        "application/x-rtp,media=video,encoding-name=H264 ! rtph264depay ! h264parse ! avdec_h264 ! "
        "videoconvert ! video/x-raw,format=BGR ! appsink drop=true max-buffers=1 sync=false"
    )


class CaptureSource:
    """A device, video or stream, opened anew when it gives nothing: unplugged for a while, or at its end.

    `target` is a device's number, a file, or a GStreamer pipeline.
    """

    def __init__(self, target: int | Path | str) -> None:
        self._target = target
        self._capture = self._open()

    def read(self) -> Picture:
        read, pixels = self._capture.read()
        if not read:
            self._capture.release()
            self._capture = self._open()
            read, pixels = self._capture.read()
        if not read:
            raise FrameError(f"{self._name()} gives no picture")
        return cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB)

    def close(self) -> None:
        self._capture.release()

    def _open(self) -> cv2.VideoCapture:
        target = self._target
        if isinstance(target, str):
            capture = cv2.VideoCapture(target, cv2.CAP_GSTREAMER, _RTP_TIMEOUTS)
        else:
            capture = cv2.VideoCapture(str(target) if isinstance(target, Path) else target)
        if not capture.isOpened():
            raise FrameError(f"{self._name()} cannot be opened: {self._advice()}")
        return capture

    def _name(self) -> str:
        if isinstance(self._target, str):
            return f"the RTP stream on {RTP_GROUP}:{RTP_PORT}"
        return f"file {self._target}" if isinstance(self._target, Path) else f"camera device {self._target}"

    def _advice(self) -> str:
        if isinstance(self._target, str):
            return "check the parameter interface, and that the robot is on"
        return "check the parameters source, device and path"


def open_rtp(interface: str) -> PictureSource:
    """The Go2's camera stream; FrameError where OpenCV cannot receive it, or nothing comes."""
    if not interface or not all(letter.isalnum() or letter in "._-:@" for letter in interface):
        raise FrameError(f"interface={interface!r} is no network interface: give its name, such as eth0")
    if not cv2.videoio_registry.hasBackend(cv2.CAP_GSTREAMER):
        raise FrameError(
            "source=rtp needs an OpenCV built with GStreamer, and this one is not (as those from PyPI): "
            "install the system's, such as python3-opencv, or set source:=videohub"
        )
    return CaptureSource(rtp_pipeline(interface))


def open_source(source: str, device: int, path: str) -> PictureSource:
    """A source of which a first picture could be read; FrameError where there is none."""
    if source != "file":
        return CaptureSource(device)
    file = Path(path)
    if not file.is_file():
        raise FrameError(f"there is no picture or video file {path!r}: set the parameter path")
    is_still = file.suffix.lower() in _STILL_SUFFIXES
    opened: PictureSource = StillSource(file) if is_still else CaptureSource(file)
    opened.read()
    return opened
