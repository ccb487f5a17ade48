# SPDX-License-Identifier: Apache-2.0
"""The public progress of a plan: its words contain nothing private."""

from __future__ import annotations

from dataclasses import dataclass

from outrider.core.errors import InstructionError
from outrider.core.language.plan import Ask, Find, Follow, Forget, Plan, Remember, Step, Where
from outrider.core.language.sentences.planner import plan_of

REMEMBERED_PLACE = "go to a remembered place"
_PRIVATE: dict[type[Step], str] = {
    Remember: "remember something",
    Forget: "forget something",
    Ask: "answer a question",
    Where: "say where something is",
}
_PRIVATE_WORDS = {*_PRIVATE.values(), REMEMBERED_PLACE}


@dataclass(frozen=True)
class Progress:
    """A plan's steps in words. `current` is the current step's index; after the last step, their number.

    `targets` has, for each step, the thing that the robot stands in front of at its end, or an empty text.
    """

    steps: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    current: int = 0

    @classmethod
    def of(cls, plan: Plan, current: int) -> Progress:
        """Returns the progress of a plan at a step."""
        return cls(tuple(map(public_words, plan.steps)), tuple(map(target_words, plan.steps)), current)

    @property
    def is_private(self) -> bool:
        """Whether a part of the sentence, or of its answer, is only for the person who gave it."""
        return not _PRIVATE_WORDS.isdisjoint(self.steps)

    @property
    def words(self) -> str:
        """The current step, with its number if there are several; empty once all are done."""
        if self.current >= len(self.steps):
            return ""
        several = len(self.steps) > 1
        return f"{f'step {self.current + 1} of {len(self.steps)}: ' * several}{self.steps[self.current]}"


def tells_private(sentence: str) -> bool:
    """Whether a sentence asks for a private step, such as to remember something."""
    try:
        return Progress.of(plan_of(sentence, None), 0).is_private
    except InstructionError:
        return False


def public_words(step: Step) -> str:
    """Returns a step in words without the private content of a person's statements or questions."""
    if isinstance(step, Find) and not step.instruction:
        return REMEMBERED_PLACE
    return _PRIVATE.get(type(step), step.words)


def target_words(step: Step) -> str:
    """Returns the target of a step that the models search for or follow; empty for any other step."""
    if isinstance(step, Find) and step.instruction:
        return step.instruction if step.room else step.thing
    return step.instruction if isinstance(step, Follow) else ""
