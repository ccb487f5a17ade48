"""Vocabularies and refusals that tests of the planner share."""

import pytest

from outrider.core.errors import InstructionError
from outrider.core.language.grammar import Vocabulary
from outrider.core.language.sentences.planner import plan_of
from outrider.core.language.words.things import SHAPES
from outrider.core.values import Visibility

WORDS = Vocabulary(
    {"colour": ("red", "silver", "green"), "kind": ("bottle", "chair", "bin", "cup", "lamp", "vase")}
)


SHAREABLE = Visibility.SHAREABLE


def refused(text: str, vocabulary: Vocabulary | None = WORDS) -> InstructionError:
    with pytest.raises(InstructionError) as error:
        plan_of(text, vocabulary)
    return error.value


def refusal(text: str) -> str:
    return str(refused(text))


ANY_WORDS = Vocabulary(
    {
        "colour": ("red", "blue"),
        "size": ("small", "large"),
        "side": ("left", "right"),
        "kind": ("chair", "cup", "ball", "door"),
    },
    shapes=SHAPES,
)
