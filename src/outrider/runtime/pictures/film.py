# SPDX-License-Identifier: Apache-2.0
"""Renders a video of a run: the robot from behind, its camera, the map, and its text as it grows."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import groupby

import cv2
import numpy as np

from outrider.core.values import Pose2D
from outrider.runtime.pictures.drawing import (
    GOOD,
    PAPER,
    PATH,
    draw_map,
    draw_path,
    draw_robot,
    draw_scale,
    fit_view,
)
from outrider.runtime.pictures.lettering import Picture
from outrider.runtime.pictures.pacing import Stretch, instants, stretches
from outrider.runtime.pictures.panel import PanelState, draw_panel
from outrider.runtime.pictures.token_story import Tokens, TokenStory
from outrider.runtime.reports.report import RunRecord, StepRecord, pose_at
from outrider.simulation.outside_view import OutsideView

WIDTH, HEIGHT = 1280, 720
SCENE_WIDTH, SCENE_HEIGHT = 832, 468
SIDE_WIDTH, CAMERA_HEIGHT, SCALE_HEIGHT = WIDTH - SCENE_WIDTH, 250, 30
FRAMES_PER_S = 15


@dataclass(frozen=True)
class _Text:
    """A step's text: the times of its request and its end, in seconds of the run, and its tokens' fates."""

    step: int
    began_s: float
    done_s: float
    story: TokenStory


class Film:
    """The pictures of a run's video. Each is drawn only when it is requested."""

    def __init__(self, run: RunRecord) -> None:
        self._run = run
        self._texts = [_text(run, step) for step in run.steps if step.finished_s > 0.0]
        times = [shot.time_s for shot in run.shots]
        windows = [(text.began_s, text.done_s) for text in self._texts]
        self._parts: list[Stretch] = stretches(times[0], times[-1], windows) if times else []
        self._shot_times = times

    def __len__(self) -> int:
        """Returns the number of pictures."""
        return sum(1 for _ in instants(self._parts, FRAMES_PER_S)) if self._parts else 0

    def pictures(self, stopped: Callable[[], bool] = lambda: False) -> Iterator[Picture]:
        """Yields the pictures in order, BGR (HEIGHT, WIDTH, 3), until `stopped`."""
        if not self._parts:
            return
        with ExitStack() as stack:
            scene = _Scene(self._run, stack)
            # The last instant is held, and its picture drawn only once.
            for (time_s, pace), held in groupby(instants(self._parts, FRAMES_PER_S)):
                picture = None
                for _ in held:
                    if stopped():
                        return
                    picture = self._picture(scene, time_s, pace) if picture is None else picture
                    yield picture

    def _picture(self, scene: _Scene, time_s: float, pace: float) -> Picture:
        shot = self._run.shots[max(0, bisect_right(self._shot_times, time_s + 1e-9) - 1)]
        panel = draw_panel(self._state(time_s, pace), SCENE_WIDTH, HEIGHT - SCENE_HEIGHT)
        camera = _decoded(shot.jpeg)
        return np.hstack([np.vstack([scene.outside(time_s, camera), panel]), scene.side(time_s, camera)])

    def _state(self, time_s: float, pace: float) -> PanelState:
        text = next((text for text in reversed(self._texts) if text.began_s <= time_s), None)
        tokens = text.story.at(time_s - text.began_s) if text else Tokens()
        states = [state for at_s, state in self._run.link_states if at_s <= time_s]
        over = f" over {self._run.conditions['link']}" if self._run.conditions.get("link") else ""
        link = f"{states[-1]}{over}" if states else ""
        return PanelState(self._run.instruction, text.step if text else 0, time_s, pace, tokens, link)


def _text(run: RunRecord, step: StepRecord) -> _Text:
    rounds = [record.stats for record in run.rounds if record.step == step.index]
    took_s = max((stats.finished_s for stats in rounds), default=step.finished_s - step.frame_s)
    return _Text(
        step.index,
        step.finished_s - took_s,
        step.finished_s,
        TokenStory(run.tokens.get(step.index, ()), rounds),
    )


class _Scene:
    """Draws the parts above and beside the panel. In an unknown home it shows the camera instead."""

    def __init__(self, run: RunRecord, stack: ExitStack) -> None:
        self._run = run
        self._poses = [record.truth for record in run.poses]
        self._view = fit_view(SIDE_WIDTH, HEIGHT - CAMERA_HEIGHT - SCALE_HEIGHT, run.home, self._poses)
        below = np.full((SCALE_HEIGHT, SIDE_WIDTH, 3), PAPER, np.uint8)
        self._ground = np.vstack([draw_map(self._view, run.home), below])
        draw_scale(self._ground, self._view)
        self._outside = None
        if run.home is not None and self._poses:
            self._outside = stack.enter_context(closing(OutsideView(run.home, SCENE_WIDTH, SCENE_HEIGHT)))

    def outside(self, time_s: float, camera: Picture) -> Picture:
        """Returns the view of the robot from behind."""
        if self._outside is None:
            return _fitted(camera, SCENE_WIDTH, SCENE_HEIGHT)
        return self._outside.picture(pose_at(self._run.poses, time_s))[:, :, ::-1]

    def side(self, time_s: float, camera: Picture) -> Picture:
        """Returns the robot's camera picture with the map below it."""
        board = self._ground.copy()
        travelled = self._travelled(time_s)
        draw_path(board, self._view, travelled, PATH, 3)
        if travelled:
            draw_robot(board, self._view, travelled[-1], GOOD)
        return np.vstack([_fitted(camera, SIDE_WIDTH, CAMERA_HEIGHT), board])

    def _travelled(self, time_s: float) -> Sequence[Pose2D]:
        past = self._poses[: bisect_right(self._run.poses, time_s, key=lambda record: record.time_s)]
        return [*past, pose_at(self._run.poses, time_s)] if past else past


def _decoded(jpeg: bytes) -> Picture:
    camera = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR)
    return np.zeros((9, 16, 3), np.uint8) if camera is None else camera


def _fitted(picture: Picture, width: int, height: int) -> Picture:
    """Returns the picture as large as it fits, centred."""
    scale = min(width / picture.shape[1], height / picture.shape[0])
    size = min(width, round(scale * picture.shape[1])), min(height, round(scale * picture.shape[0]))
    whole = np.full((height, width, 3), PAPER, np.uint8)
    x, y = (width - size[0]) // 2, (height - size[1]) // 2
    whole[y : y + size[1], x : x + size[0]] = cv2.resize(picture, size, interpolation=cv2.INTER_CUBIC)
    return whole
