# SPDX-License-Identifier: Apache-2.0
"""Where the camera node gets pictures from: the interface of sources, and picture and video files."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import cv2
import numpy as np

from outrider.core.errors import FrameError
from outrider.core.files.given_file import read_file
from outrider.nodes.common.picture_encodings import Picture, decode_picture, rgb_of_opencv

_STILL_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".webp"})
_JPEG_SUFFIXES = frozenset({".jpg", ".jpeg"})


class PictureSource(Protocol):
    """A source of pictures, uint8 (H, W, 3) RGB."""

    def read(self) -> Picture:
        """Returns the next picture. Raises FrameError if there is none now; a later call may succeed."""

    def close(self) -> None:
        """Release the device or file."""


class StillSource:
    """Gives the same picture again and again, from the file's current content."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._data: bytes | None = None
        self._picture = np.empty((0, 0, 3), np.uint8)

    def read(self) -> Picture:
        """Returns the picture, read again if the file has changed. Raises FrameError."""
        try:
            data = read_file(self._path)
            if data == self._data:
                return self._picture
        except OSError as error:
            raise FrameError(f"{self._path} cannot be read: {error.strerror}") from error
        try:
            self._picture = decode_picture(data, self._path.suffix.lower() in _JPEG_SUFFIXES)
        except FrameError as error:
            raise FrameError(f"{self._path}: {error}; check the parameter path") from error
        self._data = data
        return self._picture

    def close(self) -> None:
        """Does nothing: no file is open between pictures."""


class VideoSource:
    """Gives the pictures of a video file one by one, and starts again after its end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._capture = self._open()

    def read(self) -> Picture:
        """Returns the next picture; starts again after the end. Raises FrameError."""
        read, pixels = self._capture.read()
        if not read:
            self._capture.release()
            self._capture = self._open()
            read, pixels = self._capture.read()
        if not read:
            raise FrameError(f"file {self._path} gives no picture")
        return rgb_of_opencv(pixels)

    def close(self) -> None:
        """Close the file."""
        self._capture.release()

    def _open(self) -> cv2.VideoCapture:
        capture = cv2.VideoCapture(str(self._path))
        if not capture.isOpened():
            raise FrameError(f"file {self._path} cannot be opened: check the parameter path")
        return capture


def open_file(path: str) -> PictureSource:
    """Opens a picture or video file and reads a first picture. Raises FrameError if there is none."""
    file = Path(path)
    if not file.is_file():
        raise FrameError(f"there is no picture or video file {path!r}: set the parameter path")
    is_still = file.suffix.lower() in _STILL_SUFFIXES
    opened: PictureSource = StillSource(file) if is_still else VideoSource(file)
    opened.read()
    return opened
