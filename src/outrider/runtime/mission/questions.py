# SPDX-License-Identifier: Apache-2.0
"""Checks a question to the robot's memory before any import that takes seconds."""

from __future__ import annotations

from outrider.core.errors import ConfigError, InstructionError
from outrider.core.language.plan import Ask, Find, Where
from outrider.core.language.questions import ANSWER_MODES
from outrider.core.language.sentences.planner import plan_of


def question_to_memory(sentence: str, answers: str) -> Ask | Where:
    """Returns what a sentence asks of memory, for a robot that only answers.

    Raises ConfigError if it asks nothing, and for an unknown `answers` mode.
    """
    if answers not in ANSWER_MODES:
        raise ConfigError(f"answers={answers!r} is not one of {', '.join(ANSWER_MODES)}")
    nothing = ConfigError(f'{sentence!r} asks nothing of memory: try "where are my keys?"')
    try:
        step, *more = plan_of(sentence, None).steps
    except InstructionError:
        raise nothing from None
    if more or not isinstance(step, (Ask, Where, Find)):
        raise nothing
    return Where(step.thing, " ".join(sentence.lower().split())) if isinstance(step, Find) else step
