"""Where the camera node gets its pictures from: a device or a video by OpenCV, or a picture file."""

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
            if self._path.suffix.lower() in _JPEG_SUFFIXES:
                jpeg_size(data)
            pixels = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR) if data else None
        except (FrameError, cv2.error) as error:
            raise FrameError(f"{self._path}: {error}") from error
        if pixels is None:
            raise FrameError(f"{self._path} holds no picture that can be decoded: check the parameter path")
        return cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB)

    def close(self) -> None:
        """Nothing is open between pictures."""


class CaptureSource:
    """A device or a video, opened anew when it gives nothing: unplugged for a while, or at its end."""

    def __init__(self, target: int | Path) -> None:
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
        capture = cv2.VideoCapture(str(target) if isinstance(target, Path) else target)
        if not capture.isOpened():
            raise FrameError(f"{self._name()} cannot be opened: check the parameters source, device and path")
        return capture

    def _name(self) -> str:
        return f"file {self._target}" if isinstance(self._target, Path) else f"camera device {self._target}"


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
