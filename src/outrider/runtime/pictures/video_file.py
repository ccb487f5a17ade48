# SPDX-License-Identifier: Apache-2.0
"""Writes pictures as a video that plays everywhere, or as an animation for a page. Pictures are BGR."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import av
from av import codecs_available
from PIL import Image

from outrider.core.errors import OutriderError
from outrider.core.files.private_files import make_private_folder, open_private
from outrider.core.files.writing import replace_file
from outrider.runtime.pictures.lettering import Picture

if TYPE_CHECKING:
    from av.container import OutputContainer

CODECS = ("libx264", "libopenh264", "libvpx-vp9", "mpeg4")
H264 = CODECS[:2]
"""These play in every browser, in QuickTime and on GitHub. The others are for FFmpeg without H.264."""
_QUICKLY = {
    "libx264": {"crf": "23", "preset": "veryfast"},
    "libvpx-vp9": {"deadline": "good", "cpu-used": "5"},
}
MAX_ANIMATION_BYTES = 3_000_000
QUALITIES = (85, 70, 55, 40, 28, 18)

log = logging.getLogger(__name__)


def write_video(file: Path, pictures: Iterable[Picture], frames_per_s: int) -> None:
    """Write an MP4 file that only its owner can read.

    Sides must be even. Raises OutriderError without a codec.
    """
    codec = best_codec()
    if codec not in H264:
        log.warning(
            "%s is %s, which not every player knows: FFmpeg lacks H.264 (pip install --force-reinstall av)",
            file.name,
            codec,
        )
    with _opened(file) as container:
        stream: Any = None
        for picture in pictures:
            stream = stream or _add_stream(container, codec, picture, frames_per_s)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="bgr24")))
        if stream is not None:
            container.mux(stream.encode())


def best_codec() -> str:
    """Returns the first of CODECS that this FFmpeg has. Raises OutriderError if it has none."""
    for codec in CODECS:
        if codec in codecs_available:
            return codec
    raise OutriderError(
        f"no video written: FFmpeg has none of {', '.join(CODECS)}: pip install --force-reinstall av"
    )


def write_animation(
    file: Path, pictures: Sequence[Picture], frames_per_s: float, max_bytes: int = MAX_ANIMATION_BYTES
) -> None:
    """Write an endless animated WebP, in the best quality within `max_bytes`.

    Raises OutriderError if the lowest quality is larger.
    """
    frames = [Image.fromarray(picture[:, :, ::-1]) for picture in pictures]
    for quality in QUALITIES:
        content = _animation(frames, frames_per_s, quality)
        if len(content) <= max_bytes:
            make_private_folder(file.parent)
            replace_file(file, content)
            return
    raise OutriderError(
        f"{file} is not written: an animation of {len(frames)} pictures has over {max_bytes / 1e6:g} MB; "
        "try a shorter run"
    )


def _animation(frames: Sequence[Image.Image], frames_per_s: float, quality: int) -> bytes:
    content = io.BytesIO()
    duration_ms = round(1000 / frames_per_s)
    options: dict[str, Any] = {"duration": duration_ms, "loop": 0, "quality": quality, "method": 4}
    frames[0].save(content, "WEBP", save_all=True, append_images=frames[1:], **options)
    return content.getvalue()


@contextmanager
def _opened(file: Path) -> Iterator[OutputContainer]:
    """Open the file as private: FFmpeg would make one that all can read."""
    with (
        open_private(file, "wb") as stream,
        av.open(stream, "w", "mp4", {"movflags": "faststart"}) as container,
    ):
        yield container


def _add_stream(container: OutputContainer, codec: str, picture: Picture, frames_per_s: int) -> Any:
    stream: Any = container.add_stream(codec, rate=frames_per_s)
    stream.height, stream.width = picture.shape[:2]
    stream.pix_fmt = "yuv420p"
    stream.options = _QUICKLY.get(codec, {})
    return stream
