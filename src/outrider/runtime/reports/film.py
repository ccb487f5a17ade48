# SPDX-License-Identifier: Apache-2.0
"""run.mp4: the camera with the verified text and action beneath it, beside the map with the robot on it."""

from __future__ import annotations

import textwrap
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from outrider.core.errors import OutriderError
from outrider.core.files.private_files import open_private
from outrider.core.files.terminal import tracked
from outrider.core.values import Pose2D
from outrider.runtime.reports.drawing import (
    FAINT,
    GOOD,
    INK,
    PAPER,
    PATH,
    MapView,
    Picture,
    draw_map,
    draw_path,
    draw_robot,
    fit_view,
    write_text,
)
from outrider.simulation.homes import Home

CAMERA_WIDTH, CAMERA_HEIGHT = 672, 376
PANEL_HEIGHT = 224
MAP_SIDE = CAMERA_HEIGHT + PANEL_HEIGHT
FRAMES_PER_S = 10
SPEED = 2.0
HOLD_LAST_S = 4.0
LINE_CHARACTERS = 62
LINES = 4
CODECS = ("vp09", "mp4v")
"""VP9 plays in browsers and VLC; MPEG-4 part 2 only in players, but every OpenCV writes it."""


@dataclass(frozen=True)
class Shot:
    """One camera picture (JPEG) with what was verified by then; seconds since the goal was given."""

    time_s: float
    jpeg: bytes
    step: int
    text: str
    action: str


def write_film(
    file: Path,
    instruction: str,
    shots: Sequence[Shot],
    path: Sequence[tuple[float, Pose2D]],
    home: Home | None,
    stopped: Callable[[], bool] = lambda: False,
) -> None:
    """Write the film at twice the run's pace; none without shots, nor once `stopped`. Its progress is shown.

    The file is there once the film is whole. Raises OutriderError without a codec.
    """
    if not shots or stopped():
        return
    view = fit_view(MAP_SIDE, MAP_SIDE, home, [pose for _, pose in path])
    ground = draw_map(view, home)
    partial = file.with_stem(f"{file.stem}.partial")
    writer = _open_writer(partial)
    try:
        for time_s, shot in tracked(_at_even_pace(shots), f"video {file.name}"):
            travelled = [pose for _, pose in path[: bisect_right(path, time_s, key=lambda entry: entry[0])]]
            if stopped():
                break
            writer.write(_picture(instruction, time_s, shot, ground, view, travelled))
    finally:
        writer.release()
    if stopped():
        partial.unlink(missing_ok=True)
    else:
        partial.replace(file)


def _open_writer(file: Path) -> cv2.VideoWriter:
    size = (CAMERA_WIDTH + MAP_SIDE, MAP_SIDE)
    for codec in CODECS:
        # OpenCV makes a file for all to read, and keeps the rights of one that exists.
        open_private(file, "wb").close()
        writer = cv2.VideoWriter(str(file), cv2.VideoWriter.fourcc(*codec), FRAMES_PER_S, size)
        if writer.isOpened():
            return writer
    raise OutriderError(f"no film written to {file}: this OpenCV has none of the codecs {', '.join(CODECS)}")


def _at_even_pace(shots: Sequence[Shot]) -> list[tuple[float, Shot]]:
    """The newest shot at each instant of the film; the last one is held for a while."""
    times = [shot.time_s for shot in shots]
    period_s = SPEED / FRAMES_PER_S
    count = round((times[-1] - times[0] + HOLD_LAST_S) / period_s)
    instants = [times[0] + index * period_s for index in range(count)]
    return [(now_s, shots[bisect_right(times, now_s + 1e-9) - 1]) for now_s in instants]


def _picture(
    instruction: str, time_s: float, shot: Shot, ground: Picture, view: MapView, travelled: Sequence[Pose2D]
) -> Picture:
    camera = cv2.imdecode(np.frombuffer(shot.jpeg, np.uint8), cv2.IMREAD_COLOR)
    if camera is None:
        camera = np.zeros((CAMERA_HEIGHT, CAMERA_WIDTH, 3), np.uint8)
    camera = cv2.resize(camera, (CAMERA_WIDTH, CAMERA_HEIGHT), interpolation=cv2.INTER_CUBIC)
    board = ground.copy()
    draw_path(board, view, travelled, PATH, 3)
    if travelled:
        draw_robot(board, view, travelled[-1], GOOD)
    return np.hstack([np.vstack([camera, _panel(instruction, time_s, shot)]), board])


def _panel(instruction: str, time_s: float, shot: Shot) -> Picture:
    """What was asked, what was decided, and why."""
    panel = np.full((PANEL_HEIGHT, CAMERA_WIDTH, 3), PAPER, np.uint8)
    write_text(panel, instruction, (18, 32), 0.62, INK, 1)
    clock = f"step {shot.step}   {time_s:5.1f} s   x{SPEED:g}"
    write_text(panel, clock, (CAMERA_WIDTH - 200, 32), 0.5, FAINT)
    write_text(panel, shot.action or "...", (18, 78), 0.95, GOOD if shot.action else FAINT, 2)
    reason = shot.text.partition("\n")[2]
    for row, line in enumerate(textwrap.wrap(reason, LINE_CHARACTERS)[:LINES]):
        write_text(panel, line, (18, 114 + 28 * row), 0.55, INK)
    return panel
