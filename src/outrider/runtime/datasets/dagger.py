# SPDX-License-Identifier: Apache-2.0
"""DAgger: the states that a model's own driving reaches, with the expert's answers.

Ross, Gordon and Bagnell, "A Reduction of Imitation Learning and Structured Prediction to No-Regret Online
Learning", AISTATS 2011: a model that only imitates the expert's path never sees the states that its own
errors lead to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing

import numpy as np

from outrider.core.language.actions import STOP, Answer, split_answer
from outrider.core.language.prompt import render_prompt
from outrider.core.ports import TextDecoder
from outrider.core.training_data import Example
from outrider.core.values import Prompt
from outrider.runtime.datasets.dataset import (
    ACTIONS,
    TABLE,
    Stage,
    begin,
    lesson_example,
    take_step,
)
from outrider.runtime.mission.episode import decode_action, searched_places
from outrider.simulation.contexts import Lesson, phrase, target_of_home
from outrider.simulation.homes.home import PLACEMENTS, generate_home

DRIVEN_STEPS = 48
PLACEMENT_SHARES = {"in_view": 0.2, "hidden": 0.2, "other_room": 0.6}
RANDOM_ACTION_SHARE = 0.06


def driven_examples(seed: int, decoder: TextDecoder, looks: Sequence[str] = ("plain",)) -> Iterator[Example]:
    """Yields the examples of one home that the decoder's model drives through, with some random actions."""
    rng = np.random.default_rng([seed, 13])
    home = generate_home(seed, placement=PLACEMENTS[int(rng.choice(3, p=_shares()))])
    target = target_of_home(rng, home)
    history, instruction = begin(rng, home, target), phrase(rng, target)
    with closing(Stage(home, looks)) as stage:
        simulator = stage.simulator
        for _ in range(DRIVEN_STEPS):
            pose = simulator.odometry().pose
            lesson = Lesson(history.context(instruction, pose), searched_places(history, pose))
            example, text = lesson_example(rng, stage, lesson)
            yield example
            prompt = Prompt(render_prompt(lesson.context), simulator.frame_jpeg())
            said = _executable(split_answer(decode_action(decoder, prompt)), expert=split_answer(text))
            if said.action == STOP:
                return
            action = str(rng.choice(ACTIONS)) if rng.random() < RANDOM_ACTION_SHARE else said.action
            take_step(simulator, history, action, said.phase)


def _shares() -> list[float]:
    return [PLACEMENT_SHARES[placement] for placement in PLACEMENTS]


def _executable(said: Answer, expert: Answer) -> Answer:
    """Returns the model's answer; the expert's if that is no action, or if just one of the two would stop."""
    if TABLE.motion(said.action) is None or (said.action == STOP) != (expert.action == STOP):
        return expert
    return said
