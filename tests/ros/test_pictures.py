"""Pictures in every form in which cameras send them."""

from __future__ import annotations

from array import array

import cv2
import numpy as np
import pytest
from sample_pictures import STAMP, picture
from sensor_msgs.msg import CompressedImage, Image

from outrider.core.errors import FrameError
from outrider.nodes.common import convert
from outrider.nodes.common.picture_encodings import LAYOUTS, rgb_of_opencv

pytestmark = pytest.mark.ros
HEIGHT, WIDTH = 8, 12
ORANGE, BLUE = (220, 120, 40), (40, 60, 210)


def scene() -> np.ndarray:
    """Orange on the left, blue on the right."""
    rgb = np.empty((HEIGHT, WIDTH, 3), np.uint8)
    rgb[:, : WIDTH // 2], rgb[:, WIDTH // 2 :] = ORANGE, BLUE
    return rgb


def image(encoding: str, data: np.ndarray, step: int, big: bool = False) -> Image:
    message = Image(height=HEIGHT, width=WIDTH, encoding=encoding, step=step, is_bigendian=int(big))
    message.data = array("B", np.ascontiguousarray(data).tobytes())
    return message


def mosaic(pattern: str) -> np.ndarray:
    """Returns what a sensor with a Bayer filter measures; the pattern starts at the top left."""
    rgb, out = scene(), np.empty((HEIGHT, WIDTH), np.uint8)
    for number, letter in enumerate(pattern):
        row, column = divmod(number, 2)
        out[row::2, column::2] = rgb[row::2, column::2, "rgb".index(letter)]
    return out


def limited_yuv() -> tuple[np.ndarray, np.ndarray]:
    """Returns the brightness, and (u, v) of each block of 2x2 pixels, in limited range (BT.601)."""
    planes = cv2.cvtColor(scene(), cv2.COLOR_RGB2YUV_I420).reshape(-1)
    pixels, quarter = HEIGHT * WIDTH, HEIGHT * WIDTH // 4
    u, v = planes[pixels : pixels + quarter], planes[pixels + quarter :]
    shape = HEIGHT // 2, WIDTH // 2
    return planes[:pixels].reshape(HEIGHT, WIDTH), np.dstack([u.reshape(shape), v.reshape(shape)])


def packed(order: str) -> np.ndarray:
    y, uv = limited_yuv()
    out = np.empty((HEIGHT, WIDTH, 2), np.uint8)
    colours = np.repeat(uv, 2, axis=0).reshape(HEIGHT, WIDTH)
    out[:, :, 0], out[:, :, 1] = (y, colours) if order == "yuyv" else (colours, y)
    return out


def planar(encoding: str) -> np.ndarray:
    y, uv = limited_yuv()
    if encoding == "nv24":
        full = uv.repeat(2, axis=0).repeat(2, axis=1)
        return np.concatenate([y.reshape(-1), full.reshape(-1)])
    return np.concatenate([y.reshape(-1), (uv if encoding == "nv12" else uv[:, :, ::-1]).reshape(-1)])


def colour_cases() -> dict[str, Image]:
    rgb = scene()
    alpha = np.full((HEIGHT, WIDTH, 1), 255, np.uint8)
    orders = {"rgb8": rgb, "bgr8": rgb[..., ::-1], "8UC3": rgb[..., ::-1], "RGB8": rgb}
    orders |= {name: np.dstack([orders[name[:3] + "8"], alpha]) for name in ("rgba8", "bgra8")}
    orders["8UC4"] = orders["bgra8"]
    cases = {name: image(name, data, WIDTH * data.shape[2]) for name, data in orders.items()}
    for name in ("rgb16", "bgr16", "rgba16", "bgra16", "16UC3", "16UC4"):
        data = (
            orders[f"8{name[2:]}" if name.startswith("16") else name.replace("16", "8")].astype(np.uint16)
            * 257
        )
        cases[name] = image(name, data.astype("<u2"), WIDTH * data.shape[2] * 2)
        cases[f"{name} big-endian"] = image(name, data.astype(">u2"), WIDTH * data.shape[2] * 2, big=True)
    for pattern in ("rggb", "bggr", "gbrg", "grbg"):
        cases[f"bayer_{pattern}8"] = image(f"bayer_{pattern}8", mosaic(pattern), WIDTH)
        deep = mosaic(pattern).astype("<u2") * 257
        cases[f"bayer_{pattern}16"] = image(f"bayer_{pattern}16", deep, WIDTH * 2)
    for name, order in (
        ("yuv422", "uyvy"),
        ("uyvy", "uyvy"),
        ("yuv422_yuy2", "yuyv"),
        ("yuyv", "yuyv"),
        ("yuy2", "yuyv"),
    ):
        cases[name] = image(name, packed(order), WIDTH * 2)
    cases |= {name: image(name, planar(name), WIDTH) for name in ("nv12", "nv21", "nv24")}
    padded = np.zeros((HEIGHT, WIDTH * 3 + 4), np.uint8)
    padded[:, : WIDTH * 3] = rgb.reshape(HEIGHT, -1)
    cases["rgb8 with padded rows"] = image("rgb8", padded, WIDTH * 3 + 4)
    cases["rgb8 without a step"] = image("rgb8", rgb, 0)
    return cases


@pytest.mark.parametrize("name", colour_cases())
def test_the_colours_of_every_encoding_come_out(name: str) -> None:
    rgb = convert.rgb_of(colour_cases()[name])
    assert rgb.shape == (HEIGHT, WIDTH, 3) and rgb.dtype == np.uint8
    assert rgb[3, 2].tolist() == pytest.approx(ORANGE, abs=4)
    assert rgb[4, -3].tolist() == pytest.approx(BLUE, abs=4)


GREYS = {"mono8": 1, "8UC1": 1, "mono16": 257}


def test_every_encoding_that_is_read_has_a_case() -> None:
    shown = (
        {name.split()[0].lower() for name in colour_cases()} | {name.lower() for name in GREYS} | {"16uc1"}
    )
    assert shown == set(LAYOUTS)


@pytest.mark.parametrize(("encoding", "factor"), GREYS.items())
@pytest.mark.parametrize("big", [False, True])
def test_grey_comes_out_as_grey(encoding: str, factor: int, big: bool) -> None:
    grey = np.arange(HEIGHT * WIDTH, dtype=np.uint16).reshape(HEIGHT, WIDTH)
    bits = ("<u2", ">u2")[big] if factor > 1 else "u1"
    data = (grey * factor).astype(bits)
    rgb = convert.rgb_of(image(encoding, data, WIDTH * data.itemsize, big))
    assert np.array_equal(rgb, np.repeat(grey[:, :, None], 3, axis=2))


def test_depth_is_grey_from_its_nearest_to_its_farthest() -> None:
    depth_mm = np.linspace(500, 4000, HEIGHT * WIDTH).astype("<u2").reshape(HEIGHT, WIDTH)
    depth_mm[0, 0] = 0
    rgb = convert.rgb_of(image("16UC1", depth_mm, WIDTH * 2))
    assert rgb[0, 0].tolist() == [0, 0, 0] and rgb[-1, -1].tolist() == [255, 255, 255]
    assert rgb[4, 0, 0] == pytest.approx(127, abs=3)
    assert not convert.rgb_of(image("16UC1", depth_mm * 0, WIDTH * 2)).any()


@pytest.mark.parametrize(
    ("encoding", "words"),
    [
        ("", "cannot be read"),
        ("32FC1", "depth picture"),
        ("yuv411p", "image_proc"),
        ("bayer_rggb12", "rgb8"),
        ("jpeg", "republish"),
    ],
)
def test_what_cannot_be_read_is_named_with_the_remedy(encoding: str, words: str) -> None:
    with pytest.raises(FrameError, match=words):
        convert.rgb_of(image(encoding, scene(), WIDTH * 3))


@pytest.mark.parametrize("encoding", LAYOUTS)
def test_malformed_pictures_of_every_encoding_raise_nothing_else(encoding: str) -> None:
    rng = np.random.default_rng(1)
    huge = 2**32 - 1
    for height, width, step, length in [
        *((0, 0, 0, 0), (1, 1, 1, 1), (3, 5, 15, 45), (4, 4, 12, 10), (huge, huge, huge, 8), (1, huge, 0, 8)),
        *(tuple(int(n) for n in rng.integers(0, 7, 4)) for _ in range(200)),
    ]:
        message = Image(height=height, width=width, step=step, encoding=encoding)
        message.data = array("B", bytes(length))
        try:
            rgb = convert.rgb_of(message)
        except FrameError as error:
            assert str(error)
        else:
            assert rgb.shape == (height, width, 3)


FORMATS = ("jpeg", "jpg", "rgb8; jpeg compressed bgr8", "bgr8; jpeg compressed bgr8", "")


def encoded(suffix: str, rgb: np.ndarray) -> array:
    return array("B", cv2.imencode(suffix, rgb[..., ::-1])[1].tobytes())


@pytest.mark.parametrize("encoding", FORMATS)
@pytest.mark.parametrize("suffix", [".jpg", ".png"])
def test_compressed_pictures_are_read_by_their_content(encoding: str, suffix: str) -> None:
    rgb = convert.rgb_of(CompressedImage(format=encoding, data=encoded(suffix, scene())))
    assert rgb[3, 1].tolist() == pytest.approx(ORANGE, abs=25)
    assert rgb[4, -2].tolist() == pytest.approx(BLUE, abs=25)


@pytest.mark.parametrize("suffix", [".jpg", ".png"])
@pytest.mark.parametrize("after", [b"\0" * 40, b"maker's data " * 9])
def test_bytes_after_a_compressed_picture_change_nothing(suffix: str, after: bytes) -> None:
    data = cv2.imencode(suffix, scene()[:, :, ::-1])[1].tobytes()
    plain, longer = (convert.rgb_of(CompressedImage(format="", data=one)) for one in (data, data + after))
    assert np.array_equal(plain, longer)
    with pytest.raises(FrameError, match="truncated"):
        convert.rgb_of(CompressedImage(format="", data=data[:-9]))


def test_image_transport_says_where_red_and_blue_are_swapped_in_the_file() -> None:
    data = encoded(".png", scene()[..., ::-1])
    rgb = convert.rgb_of(CompressedImage(format="rgb8; png compressed rgb8", data=data))
    assert np.array_equal(rgb, scene())


def test_deep_and_grey_compressed_pictures_are_read() -> None:
    deep = array("B", cv2.imencode(".png", np.full((8, 8), 40_000, np.uint16))[1].tobytes())
    rgb = convert.rgb_of(CompressedImage(format="mono16; png compressed ", data=deep))
    assert rgb.shape == (8, 8, 3) and rgb[0, 0].tolist() == pytest.approx([156] * 3, abs=1)


PNG = encoded(".png", scene()).tobytes()


@pytest.mark.parametrize(
    ("encoding", "data", "words"),
    [
        ("jpeg", b"", "empty"),
        ("jpeg", encoded(".jpg", scene()).tobytes()[:-40], "truncated"),
        ("png", PNG[:-20], "truncated"),
        ("png", PNG[:16] + b"\xff\xff\xff\xff" + PNG[20:], "sides may be"),
        ("png", PNG[:40] + bytes(len(PNG) - 60) + PNG[-20:], "decoded"),
        ("h264", b"\0\0\0\1\x67", "republish"),
        ("16UC1; compressedDepth png", b"\0" * 12 + PNG, "colour topic"),
        ("tiff", b"II*\0", "format to jpeg"),
    ],
)
def test_compressed_pictures_that_cannot_be_read_are_named(encoding: str, data: bytes, words: str) -> None:
    with pytest.raises(FrameError, match=words):
        convert.rgb_of(CompressedImage(format=encoding, data=array("B", data)))


@pytest.mark.parametrize("shape", [(4, 6), (4, 6, 1), (4, 6, 3), (4, 6, 4)])
def test_a_device_may_be_grey_or_have_alpha(shape: tuple[int, ...]) -> None:
    assert rgb_of_opencv(np.zeros(shape, np.uint8)).shape == (4, 6, 3)


@pytest.mark.parametrize(
    "odd", [np.zeros((4, 6, 2), np.uint8), np.zeros((4, 6), np.uint16), np.empty((0, 0), np.uint8)]
)
def test_what_a_device_gives_that_is_no_picture_is_named(odd: np.ndarray) -> None:
    with pytest.raises(FrameError, match="no picture"):
        rgb_of_opencv(odd)


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
