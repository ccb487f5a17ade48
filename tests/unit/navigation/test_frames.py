import cv2
import numpy as np
import pytest

from outrider.core.errors import FrameError
from outrider.navigation.frames import check_jpeg, model_jpeg


def picture() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 255, (280, 504, 3), dtype=np.uint8)


def test_the_model_jpeg_has_the_models_size_and_keeps_red_red():
    red = np.zeros((280, 504, 3), np.uint8)
    red[:, :, 0] = 200
    decoded = cv2.imdecode(np.frombuffer(model_jpeg(red), np.uint8), cv2.IMREAD_COLOR)
    assert decoded.shape == (140, 252, 3)
    assert decoded[70, 126, 2] > 190 and decoded[70, 126, 0] < 10
    check_jpeg(model_jpeg(red))


@pytest.mark.parametrize(
    "array", [np.zeros((4, 4), np.uint8), np.zeros((4, 4, 3)), np.zeros((0, 4, 3), np.uint8)]
)
def test_other_arrays_are_refused(array):
    with pytest.raises(FrameError, match="uint8"):
        model_jpeg(array)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda jpeg: b"", "nothing"),
        (lambda jpeg: b"\x89PNG\r\n\x1a\n" + jpeg, "no JPEG"),
        (lambda jpeg: jpeg[: len(jpeg) // 2], "truncated"),
        (lambda jpeg: jpeg[:4] + jpeg[-2:], "without a picture header"),
        (
            lambda jpeg: b"\xff\xd8\xff\xe0" + b"\xff\xff" + b"\0" * 64 + b"\xff\xd9",
            "without a picture header",
        ),
    ],
)
def test_damaged_frames_are_refused_with_a_reason(damage, message):
    with pytest.raises(FrameError, match=message):
        check_jpeg(damage(model_jpeg(picture())))


def test_a_hostile_size_is_refused_before_decoding():
    jpeg = bytearray(model_jpeg(picture()))
    header = jpeg.index(b"\xff\xc0")
    jpeg[header + 5 : header + 9] = b"\xff\xff\xff\xff"
    with pytest.raises(FrameError, match="65535x65535"):
        check_jpeg(bytes(jpeg))


def test_zero_padding_after_the_end_is_taken():
    check_jpeg(model_jpeg(picture()) + b"\0" * 16)
