# SPDX-License-Identifier: Apache-2.0
"""Makes questions about pictures of held-out homes, with the expert's answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import islice

import numpy as np

from outrider.core.language.prompt import render_user_text
from outrider.evaluation.robot.frame_tasks import FrameTask, target_words
from outrider.runtime.datasets.dataset import Stage
from outrider.runtime.datasets.held_out import first_home_seed
from outrider.simulation.contexts import Lesson, make_lesson, random_pose
from outrider.simulation.expert import answer
from outrider.simulation.homes.home import PLACEMENTS, generate_home
from outrider.simulation.looks.styles import checked_looks
from outrider.simulation.perception import View

POSES_PER_HOME = 4


def simulated_tasks(looks: Sequence[str], poses: int, seed: int) -> Iterator[FrameTask]:
    """Yields one question at each of `poses` poses in held-out homes, for each look at the same poses.

    Raises ConfigError for an unknown look.
    """
    for look in checked_looks(looks):
        yield from islice(_endless_tasks(look, seed), poses)


def _endless_tasks(look: str, seed: int) -> Iterator[FrameTask]:
    home_seed = first_home_seed(seed)
    while True:
        rng = np.random.default_rng([home_seed, 19])
        home = generate_home(home_seed, placement=PLACEMENTS[home_seed % len(PLACEMENTS)])
        with closing(Stage(home, (look,))) as stage:
            for _ in range(POSES_PER_HOME):
                stage.simulator.place(random_pose(rng, home))
                view = stage.eyes.look()
                lesson = make_lesson(rng, home, stage.simulator.truth(), view)
                yield _task(look, view, lesson, stage.simulator.frame_jpeg())
        home_seed += 1


def _task(look: str, view: View, lesson: Lesson, jpeg: bytes) -> FrameTask:
    return FrameTask(
        look,
        render_user_text(lesson.context),
        answer(view, lesson.context, lesson.searched),
        frozenset(visible.spec.phrase for visible in view.objects),
        target_words(lesson.context.instruction),
        stored=jpeg,
    )
