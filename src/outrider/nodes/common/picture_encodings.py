# SPDX-License-Identifier: Apache-2.0
"""Converts cameras' pictures, raw or compressed, to uint8 (H, W, 3) RGB; pure.

To add an encoding: `LAYOUTS` here, `colour_cases` in tests/ros/test_pictures.py, docs/how-to/camera.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np

from outrider.core.errors import FrameError
from outrider.core.sensors.jpeg import MAX_SIDE_PX as MAX_COMPRESSED_SIDE_PX
from outrider.core.sensors.jpeg import jpeg_size

Picture = np.ndarray[Any, Any]
MAX_SIDE_PX = 16_384
COMPRESSED = "/compressed"
CONVERT = (
    "let image_proc or `ros2 run image_transport republish` give rgb8, or set the driver's pixel format to it"
)
_PNG, _PNG_END = b"\x89PNG\r\n\x1a\n", b"\0\0\0\0IEND\xaeB`\x82"
"""The first bytes of a PNG, and its last chunk with its checksum."""
_VIDEO = ("h264", "h265", "hevc", "av1", "vp8", "vp9", "theora", "ffmpeg", "mpeg4")


@dataclass(frozen=True)
class RawPicture:
    """A picture with the fields of a sensor_msgs/Image."""

    encoding: str
    width: int
    height: int
    step: int
    is_bigendian: bool
    data: np.ndarray[Any, Any]


@dataclass(frozen=True)
class _Layout:
    """The memory layout of an encoding.

    `lines` is the number of byte rows per pixel row, where planes follow each other. `even`: a colour
    belongs to two pixels.
    """

    to_rgb: Callable[[Picture], Picture]
    channels: int = 1
    bits: int = 8
    lines: float = 1.0
    even: bool = False

    @property
    def pixel_bytes(self) -> int:
        return self.channels * self.bits // 8


def _by(code: int) -> Callable[[Picture], Picture]:
    """Returns OpenCV's conversion to RGB by its code."""
    return lambda pixels: cv2.cvtColor(pixels, code)


def _as_it_is(pixels: Picture) -> Picture:
    return np.ascontiguousarray(pixels)


def _semi_planar(code: int) -> Callable[[Picture], Picture]:
    """Returns the conversion of a brightness plane followed by a colour plane of half the resolution."""
    return lambda planes: cv2.cvtColor(np.ascontiguousarray(planes[:, :, 0]), code)


def _nv24_to_rgb(lines: Picture) -> Picture:
    """Returns RGB from colours of full resolution. Every second one is used, as in nv12."""
    height, width = lines.shape[0] // 3, lines.shape[1]
    colours = lines[height:].reshape(height, width, 2)[::2, ::2].reshape(height // 2, width, 1)
    return cv2.cvtColor(np.concatenate([lines[:height], colours]), cv2.COLOR_YUV2RGB_NV12)


def _stretched(values: Picture) -> Picture:
    """Returns grey from the least value to the greatest, for an unknown unit; 0 remains "not measured"."""
    measured = values[values > 0].astype(np.float32)
    if not measured.size:
        return np.zeros((*values.shape[:2], 3), np.uint8)
    low, high = float(np.min(measured)), float(np.max(measured))
    grey = np.clip((values.astype(np.float32) - low) / max(high - low, 1.0), 0.0, 1.0) * 255.0
    return cv2.cvtColor(grey.astype(np.uint8), cv2.COLOR_GRAY2RGB)


_COLOURS = {
    "mono": (1, _by(cv2.COLOR_GRAY2RGB)),
    "rgb": (3, _as_it_is),
    "bgr": (3, _by(cv2.COLOR_BGR2RGB)),
    "rgba": (4, _by(cv2.COLOR_RGBA2RGB)),
    "bgra": (4, _by(cv2.COLOR_BGRA2RGB)),
    # OpenCV names its Bayer patterns after the second row and column.
    "bayer_rggb": (1, _by(cv2.COLOR_BayerBG2RGB)),
    "bayer_bggr": (1, _by(cv2.COLOR_BayerRG2RGB)),
    "bayer_gbrg": (1, _by(cv2.COLOR_BayerGR2RGB)),
    "bayer_grbg": (1, _by(cv2.COLOR_BayerGB2RGB)),
}
_YUYV = _Layout(_by(cv2.COLOR_YUV2RGB_YUY2), channels=2, even=True)
_UYVY = _Layout(_by(cv2.COLOR_YUV2RGB_UYVY), channels=2, even=True)
LAYOUTS = {
    **{
        f"{name}{bits}": _Layout(to_rgb, channels, bits)
        for name, (channels, to_rgb) in _COLOURS.items()
        for bits in (8, 16)
    },
    # OpenCV's own names do not name colours; OpenCV keeps BGR. Depth cameras send 16UC1.
    "8uc1": _Layout(_by(cv2.COLOR_GRAY2RGB)),
    "8uc3": _Layout(_by(cv2.COLOR_BGR2RGB), 3),
    "8uc4": _Layout(_by(cv2.COLOR_BGRA2RGB), 4),
    "16uc1": _Layout(_stretched, 1, 16),
    "16uc3": _Layout(_by(cv2.COLOR_BGR2RGB), 3, 16),
    "16uc4": _Layout(_by(cv2.COLOR_BGRA2RGB), 4, 16),
    "yuv422": _UYVY,
    "uyvy": _UYVY,
    "yuv422_yuy2": _YUYV,
    "yuyv": _YUYV,
    "yuy2": _YUYV,
    "nv12": _Layout(_semi_planar(cv2.COLOR_YUV2RGB_NV12), lines=1.5, even=True),
    "nv21": _Layout(_semi_planar(cv2.COLOR_YUV2RGB_NV21), lines=1.5, even=True),
    "nv24": _Layout(_nv24_to_rgb, lines=3.0, even=True),
}


def decode_raw(picture: RawPicture) -> Picture:
    """Returns the pixels of a raw picture.

    Raises FrameError, with a remedy, if it is empty, does not fit its own fields, or has an encoding that
    cannot be shown. 16-bit colours are scaled from their full range; 16UC1, which is depth or heat, from
    its least value to its greatest. A name in upper case is the same encoding.
    """
    if not picture.data.size or not picture.width or not picture.height:
        raise FrameError("the camera's picture is empty: check the driver, if this goes on")
    layout = LAYOUTS.get(picture.encoding.strip().lower())
    if layout is None:
        raise FrameError(_unreadable(picture.encoding))
    pixels = _pixels(picture, layout)
    if layout.bits == 16 and layout.to_rgb is not _stretched:
        pixels = (pixels // 257).astype(np.uint8)
    try:
        return np.ascontiguousarray(layout.to_rgb(pixels))
    except cv2.error as error:
        raise FrameError(f"the {_said(picture)} picture cannot be converted: {error.err}") from error


def _pixels(picture: RawPicture, layout: _Layout) -> Picture:
    """Returns the rows without their padding, as (lines, width, channels)."""
    row_bytes = picture.width * layout.pixel_bytes
    step, lines = picture.step or row_bytes, int(picture.height * layout.lines)
    whole = not layout.even or (picture.width % 2 == 0 and (layout.lines == 1 or picture.height % 2 == 0))
    if layout.lines == 3.0 and step > row_bytes:
        raise FrameError(f"{_said(picture)} with padded rows cannot be read: {CONVERT}")
    fits = step >= row_bytes and picture.data.size == step * lines
    if not (fits and whole and max(picture.width, picture.height) <= MAX_SIDE_PX):
        raise FrameError(
            f"the picture says {_said(picture)} with {picture.step} bytes a row, but has {picture.data.size} "
            "bytes: check the camera driver's picture size and format"
        )
    rows = np.ascontiguousarray(picture.data.reshape(lines, step)[:, :row_bytes])
    if layout.bits == 16:
        rows = rows.view(">u2" if picture.is_bigendian else "<u2")
    return rows.reshape(lines, picture.width, layout.channels)


def _said(picture: RawPicture) -> str:
    return f"{picture.width}x{picture.height} {picture.encoding}"


def _unreadable(encoding: str) -> str:
    if encoding.lower().startswith(("32fc", "64fc", "16sc1")):
        return f"image encoding {encoding!r} is a depth picture: choose the camera's colour topic"
    return f"image encoding {encoding!r} cannot be read: {CONVERT}; readable are {', '.join(LAYOUTS)}"


def decode_compressed(encoding: str, data: bytes) -> Picture:
    """Returns the pixels of a CompressedImage.

    `encoding` is its format, such as `jpeg` or `rgb8; jpeg compressed bgr8`. Raises FrameError, with a
    remedy, for anything but a whole JPEG or PNG.
    """
    if not data:
        raise FrameError("the camera's compressed picture is empty: check the driver, if this goes on")
    is_jpeg, is_png = data.startswith(b"\xff\xd8"), data.startswith(_PNG)
    if not (is_jpeg or is_png):
        raise FrameError(_undecodable(encoding))
    picture = decode_picture(data, is_jpeg)
    # image_transport's name for a file whose first channel is red where viewers expect blue.
    return np.ascontiguousarray(picture[:, :, ::-1]) if "compressed rgb" in encoding.lower() else picture


def _undecodable(encoding: str) -> str:
    lower = encoding.lower()
    if "compresseddepth" in lower:
        return f"format {encoding!r} is a depth picture: choose the camera's colour topic"
    if any(name in lower for name in _VIDEO):
        return f"format {encoding!r} is video, which cannot be read: {republish(lower)}"
    return f"format {encoding!r} is neither JPEG nor PNG: set the driver's image_transport format to jpeg"


def republish(transport: str) -> str:
    """Returns how to convert a transport to a raw topic."""
    return (
        f"run `ros2 run image_transport republish --ros-args -p in_transport:={transport} "
        "-p out_transport:=raw` and set topic to its output"
    )


def decode_picture(data: bytes, is_jpeg: bool) -> Picture:
    """Returns the pixels of an encoded picture. Raises FrameError if it is damaged."""
    if is_jpeg:
        jpeg_size(data)
    elif data.startswith(_PNG):
        _check_png(data)
    try:
        pixels = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR) if data else None
    except cv2.error as error:
        raise FrameError(str(error)) from error
    if pixels is None:
        raise FrameError(f"it holds no picture that can be decoded, in {len(data)} bytes")
    return rgb_of_opencv(pixels)


def _check_png(data: bytes) -> None:
    """Raises FrameError for a PNG that is truncated, or claims sides that a few bytes cannot fill."""
    width, height = int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    if _PNG_END not in data:
        raise FrameError(
            f"it holds no picture that can be decoded: the PNG of {len(data)} bytes is truncated"
        )
    if not (1 <= width <= MAX_COMPRESSED_SIDE_PX and 1 <= height <= MAX_COMPRESSED_SIDE_PX):
        raise FrameError(f"the PNG is {width}x{height}; sides may be 1 to {MAX_COMPRESSED_SIDE_PX} px")


def rgb_of_opencv(pixels: Picture) -> Picture:
    """Returns a picture of OpenCV (grey, BGR or BGRA) as RGB. Raises FrameError for any other array."""
    channels = 1 if pixels.ndim == 2 else pixels.shape[-1]
    code = {1: cv2.COLOR_GRAY2RGB, 3: cv2.COLOR_BGR2RGB, 4: cv2.COLOR_BGRA2RGB}.get(channels)
    if code is None or pixels.dtype != np.uint8 or not pixels.size or pixels.ndim > 3:
        raise FrameError(f"the camera gives {pixels.dtype} {pixels.shape}, no picture of 8-bit colours")
    return cv2.cvtColor(pixels, code)
