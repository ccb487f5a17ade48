"""Sentences written down before the grammar was: what each must come to, and which must not move."""

from functools import cache
from pathlib import Path

import pytest

from outrider.core.errors import InstructionError
from outrider.core.language.grammar import Vocabulary
from outrider.core.language.plan import Plan
from outrider.core.language.planner import plan_of

FOLDER = Path(__file__).resolve().parent / "sentences"
STILL = ("refuse", "mend(", "stop", "see", "did", "where(", "ask", "remember", "forget(")
LEAST_RIGHT = 0.97
WORDS = Vocabulary(
    {
        "colour": ("red", "orange", "yellow", "green", "blue", "purple", "silver", "black"),
        "kind": ("ball", "bin", "bottle", "box", "chair", "cone", "cup", "lamp", "table", "vase"),
    }
)
"""Those of the model that the sentences were written down for."""
Sentence = tuple[str, str, str, str]


def sentences(half: str) -> list[Sentence]:
    lines = (FOLDER / f"{half}.tsv").read_text().splitlines()[1:]
    return [tuple(line.split("\t")) for line in lines]  # type: ignore[misc]


@cache
def come_to(sentence: Sentence) -> tuple[str, Plan | None]:
    """The intent as the data have it, and the plan if there is one."""
    _, model, _, said = sentence
    try:
        plan = plan_of(said, None if model == "general" else WORDS)
    except InstructionError as error:
        return f"mend({error.meant})" if error.meant else "refuse", None
    return plan.intent, plan


def is_right(sentence: Sentence) -> bool:
    """An offer to mend is a refusal too."""
    got, wanted = come_to(sentence)[0], sentence[2]
    return got == wanted or (wanted == "refuse" and got.startswith("mend("))


@pytest.mark.parametrize("half", ["building", "held_out"])
def test_intents_are_right(half: str) -> None:
    told = sentences(half)
    wrong = [sentence for sentence in told if not is_right(sentence)]
    assert len(told) >= 200
    assert 1.0 - len(wrong) / len(told) >= LEAST_RIGHT, wrong


@pytest.mark.parametrize("half", ["building", "held_out"])
def test_nothing_moves_that_must_not(half: str) -> None:
    still = [sentence for sentence in sentences(half) if sentence[2].startswith(STILL)]
    assert len(still) > 100
    plans = [(sentence, come_to(sentence)[1]) for sentence in still]
    assert [(sentence, plan.intent) for sentence, plan in plans if plan is not None and plan.moves] == []


def test_half_of_the_sentences_are_held_out_and_no_sentence_is_in_both() -> None:
    building, held_out = sentences("building"), sentences("held_out")
    assert len(building) + len(held_out) >= 400 and abs(len(building) - len(held_out)) <= 1
    assert not set(building) & set(held_out)
