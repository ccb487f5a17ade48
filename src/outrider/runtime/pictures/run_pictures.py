# SPDX-License-Identifier: Apache-2.0
"""Writes the pictures of a run: trajectory.png, run.mp4, and an animation if requested."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import cv2

from outrider.core.files.private_files import make_private_folder
from outrider.core.files.terminal import say, tracked
from outrider.core.files.writing import unfinished
from outrider.runtime.pictures.film import FRAMES_PER_S, HEIGHT, WIDTH, Film
from outrider.runtime.pictures.lettering import Picture
from outrider.runtime.pictures.trajectory import draw_trajectory
from outrider.runtime.pictures.video_file import write_animation, write_video
from outrider.runtime.reports.report import RunRecord

FILM_FILE, MAP_FILE = "run.mp4", "trajectory.png"
ANIMATION_SHARE, ANIMATED_OF = 0.75, 2
"""The scale of an animation's pictures to the video's, and the number of video pictures for each."""


def write_pictures(
    run: RunRecord,
    folder: Path,
    stopped: Callable[[], bool] = lambda: False,
    video: bool = True,
    animation: Path | None = None,
) -> None:
    """Draw the map and the video. The video takes long: it shows progress, and `stopped` aborts it.

    A video file appears only when it is complete. Raises OutriderError if this machine cannot write one.
    """
    make_private_folder(folder)
    draw_trajectory(folder / MAP_FILE, run)
    (folder / FILM_FILE).unlink(missing_ok=True)  # an earlier run's, which this run may not replace
    film = Film(run)
    if video and len(film) and not stopped():
        _write_film(folder / FILM_FILE, film, stopped)
    if animation is not None and len(film) and not stopped():
        _write_animation(animation, film, stopped)
    if stopped() and len(film) and (video or animation is not None):
        say("interrupted: the report is whole, the film is not made")


def _write_film(file: Path, film: Film, stopped: Callable[[], bool]) -> None:
    with unfinished(file, stopped) as partial:
        write_video(partial, tracked(film.pictures(stopped), f"video {file.name}", len(film)), FRAMES_PER_S)
        if not stopped():
            partial.replace(file)


def _write_animation(file: Path, film: Film, stopped: Callable[[], bool]) -> None:
    pictures = tracked(film.pictures(stopped), f"animation {file.name}", len(film))
    shown = [_small(picture) for index, picture in enumerate(pictures) if index % ANIMATED_OF == 0]
    if not stopped():
        write_animation(file, shown, FRAMES_PER_S / ANIMATED_OF)


def _small(picture: Picture) -> Picture:
    size = round(ANIMATION_SHARE * WIDTH), round(ANIMATION_SHARE * HEIGHT)
    return cv2.resize(picture, size, interpolation=cv2.INTER_AREA)
