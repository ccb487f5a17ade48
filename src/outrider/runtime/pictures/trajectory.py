# SPDX-License-Identifier: Apache-2.0
"""Draws trajectory.png: the floor with the robot's path and the shortest one, steps, a scale, a legend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import cv2
import numpy as np

from outrider.core.files.writing import replace_file
from outrider.core.values import Pose2D
from outrider.runtime.pictures.drawing import (
    BAD,
    FAINT,
    GOOD,
    HALO,
    INK,
    ODOMETRY,
    PAPER,
    PATH,
    SHORTEST,
    MapView,
    draw_dashes,
    draw_map,
    draw_path,
    draw_robot,
    draw_scale,
    draw_steps,
    fit_view,
)
from outrider.runtime.pictures.lettering import Colour, Picture, shortened, text_width, write_text
from outrider.runtime.reports.report import RunRecord, path_length_m, pose_at
from outrider.simulation.shortest_path import Point, path_m, shortest_path

WIDTH, HEIGHT, HEADER = 1200, 1000, 124
EDGE = 24
TITLE_PX, LEGEND_PX = 32, 20
_Mark = Callable[[Picture, tuple[int, int], Colour], None]


def draw_trajectory(file: Path, run: RunRecord) -> None:
    """Draw the whole run as one PNG with a legend."""
    truth = [record.truth for record in run.poses]
    shortest = shortest_path(run.home, truth[0]) if run.home is not None and truth else []
    view = fit_view(WIDTH, HEIGHT, run.home, truth)
    picture = draw_map(view, run.home, truth)
    draw_path(picture, view, [record.odometry for record in run.poses], ODOMETRY, 3)
    draw_dashes(picture, view, shortest, SHORTEST, 3)
    draw_path(picture, view, truth, PATH, 4)
    if truth:
        draw_robot(picture, view, truth[0], None)
        draw_robot(picture, view, truth[-1], GOOD if run.success else BAD)
    draw_steps(picture, view, _steps(run))
    draw_scale(picture, view)
    replace_file(file, cv2.imencode(".png", np.vstack([_header(run, shortest, view), picture]))[1].tobytes())


def _steps(run: RunRecord) -> list[tuple[int, Pose2D]]:
    """Returns each step's number and the robot's pose when its picture was taken."""
    return [(step.index, pose_at(run.poses, step.frame_s)) for step in run.steps if run.poses]


def _header(run: RunRecord, shortest: Sequence[Point], view: MapView) -> Picture:
    header = np.full((HEADER, view.width, 3), PAPER, np.uint8)
    figures = f"{len(run.steps)} steps, {run.duration_s:.0f} s, {run.verdict.words}"
    left = view.width - EDGE - text_width(figures, LEGEND_PX)
    write_text(header, figures, (left, 46), LEGEND_PX, INK)
    write_text(header, shortened(run.instruction, TITLE_PX, left - 2 * EDGE), (EDGE, 46), TITLE_PX, INK)
    x = EDGE
    for name, colour, mark in _legend(run, shortest):
        mark(header, (x, 92), colour)
        write_text(header, name, (x + 40, 99), LEGEND_PX, INK)
        x += 40 + text_width(name, LEGEND_PX) + 26
    return header


def _legend(run: RunRecord, shortest: Sequence[Point]) -> list[tuple[str, Colour, _Mark]]:
    entries: list[tuple[str, Colour, _Mark]] = [
        (f"driven, {path_length_m(run.poses):.1f} m", PATH, _line),
        ("by odometry", ODOMETRY, _line),
    ]
    if shortest:
        entries.append((f"shortest, {path_m(list(shortest)):.1f} m", SHORTEST, _dashes))
    end = "end, at the target" if run.success else "end, not at the target"
    entries += [("step", FAINT, _dot), ("start", INK, _outline), (end, GOOD if run.success else BAD, _box)]
    return [*entries, ("target", HALO, _ring)] if run.home is not None else entries


def _line(picture: Picture, at: tuple[int, int], colour: Colour) -> None:
    cv2.line(picture, at, (at[0] + 30, at[1]), colour, 4, cv2.LINE_AA)


def _dashes(picture: Picture, at: tuple[int, int], colour: Colour) -> None:
    for left in (0, 12, 24):
        cv2.line(picture, (at[0] + left, at[1]), (at[0] + left + 6, at[1]), colour, 3, cv2.LINE_AA)


def _dot(picture: Picture, at: tuple[int, int], colour: Colour) -> None:
    cv2.circle(picture, (at[0] + 20, at[1]), 9, colour, -1, cv2.LINE_AA)


def _ring(picture: Picture, at: tuple[int, int], colour: Colour) -> None:
    cv2.circle(picture, (at[0] + 20, at[1]), 9, colour, 3, cv2.LINE_AA)


def _outline(picture: Picture, at: tuple[int, int], colour: Colour) -> None:
    cv2.rectangle(picture, (at[0] + 8, at[1] - 7), (at[0] + 30, at[1] + 7), colour, 2)


def _box(picture: Picture, at: tuple[int, int], colour: Colour) -> None:
    cv2.rectangle(picture, (at[0] + 8, at[1] - 7), (at[0] + 30, at[1] + 7), colour, -1)
