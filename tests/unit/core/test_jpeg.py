"""JPEG headers: sizes that are read, and pictures that must be refused before decoding."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from outrider.core.errors import FrameError
from outrider.core.sensors.jpeg import jpeg_size


def encoded(width: int, height: int, *options: int) -> bytes:
    return cv2.imencode(".jpg", np.zeros((height, width, 3), np.uint8), list(options))[1].tobytes()


@pytest.mark.parametrize(("width", "height"), [(252, 140), (1, 1), (4096, 8), (17, 300)])
@pytest.mark.parametrize("progressive", [0, 1])
def test_the_size_is_the_pictures(width: int, height: int, progressive: int) -> None:
    assert jpeg_size(encoded(width, height, cv2.IMWRITE_JPEG_PROGRESSIVE, progressive)) == (width, height)


def test_padding_and_fill_bytes_are_passed_over() -> None:
    jpeg = encoded(20, 10)
    assert jpeg_size(jpeg + b"\0" * 7) == (20, 10)
    assert jpeg_size(jpeg[:2] + b"\xff\xff" + jpeg[2:]) == (20, 10)


@pytest.mark.parametrize("after", [b"\n", b"SEFHabcd\x00\x01SEFT", b"\xff\xd8\xff\xe1", b"\x00\x01" * 300])
@pytest.mark.parametrize("progressive", [0, 1])
def test_what_a_camera_writes_after_the_end_is_passed_over(after: bytes, progressive: int) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (60, 90, 3), dtype=np.uint8)
    options = [cv2.IMWRITE_JPEG_PROGRESSIVE, progressive, cv2.IMWRITE_JPEG_RST_INTERVAL, 2]
    jpeg = cv2.imencode(".jpg", noise, options)[1].tobytes()
    assert jpeg_size(jpeg + after) == (90, 60)
    with pytest.raises(FrameError, match="truncated"):
        jpeg_size(jpeg[: len(jpeg) // 2] + after)


def test_bytes_that_only_look_like_scans_are_none() -> None:
    jpeg, marks = encoded(20, 10), b"\xff\xda" * 200
    comment = b"\xff\xfe" + (2 + len(marks)).to_bytes(2, "big") + marks
    assert jpeg_size(jpeg[:2] + comment + jpeg[2:]) == (20, 10)
    assert jpeg_size(jpeg + marks) == (20, 10)


def test_a_claimed_giant_is_refused_unread() -> None:
    jpeg = encoded(20, 10)
    at = jpeg.index(b"\xff\xc0") + 5
    with pytest.raises(FrameError, match="32000x32000"):
        jpeg_size(jpeg[:at] + (32000).to_bytes(2, "big") * 2 + jpeg[at + 4 :])


def test_scans_without_end_are_refused_undecoded() -> None:
    jpeg = encoded(60, 40, cv2.IMWRITE_JPEG_PROGRESSIVE, 1)
    at = jpeg.rindex(b"\xff\xda")
    assert jpeg_size(jpeg[:at] + 50 * jpeg[at:-2] + jpeg[-2:]) == (60, 40)
    with pytest.raises(FrameError, match="more than 100 scans"):
        jpeg_size(jpeg[:at] + 100 * jpeg[at:-2] + jpeg[-2:])


@pytest.mark.parametrize(
    ("jpeg", "message"),
    [
        (b"", "no JPEG"),
        (b"\x89PNG\r\n", "no JPEG"),
        (encoded(20, 10)[:200], "truncated"),
        (encoded(4097, 8), "4097x8"),
        (b"\xff\xd8\xff\xd9", "no picture header"),
        (b"\xff\xd8\xff\xe0\xff\xff" + b"\0" * 20 + b"\xff\xd9", "no picture header"),
    ],
)
def test_what_is_no_whole_jpeg_is_refused(jpeg: bytes, message: str) -> None:
    with pytest.raises(FrameError, match=message):
        jpeg_size(jpeg)
