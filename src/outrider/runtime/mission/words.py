# SPDX-License-Identifier: Apache-2.0
"""What can be said to a model: checked before anything starts, and listed by `outrider words`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from outrider.core.language.grammar import COMMANDS, FIND_PHRASINGS, THING, Vocabulary
from outrider.memory.language.utterances import Find, understand
from outrider.models.checkpoint.card import read_card
from outrider.navigation.goal.instructions import check_instruction
from outrider.runtime.common.paths import model_folder, models_folder

TO_MEMORY = (
    "remember that my keys hang by the door",
    "where did you last see the red ball?",
    "what do you know about my keys?",
)


def vocabulary_of(model: str) -> Vocabulary | None:
    """The words of a model by folder or name; None for a general one. Raises ModelError."""
    return read_card(model_folder(model)).vocabulary


def check_sentence(sentence: str, vocabulary: Vocabulary | None, remembers: bool = False) -> None:
    """Raises InstructionError for a sentence that a robot with this model would refuse.

    What is said to memory is none of the model's. With `remembers` the robot has a store from earlier, which
    may know the way to things that the model does not know.
    """
    meaning = understand(sentence)
    for_memory = meaning is not None and (remembers or not isinstance(meaning, Find))
    check_instruction(sentence, None if for_memory else vocabulary)


def check_told(sentence: str, models: Path | None, remembers: bool = False) -> None:
    """`check_sentence` for the pair in a folder, or the shipped one. Raises ModelError without one."""
    folder = models_folder(models.resolve() if models else None)
    check_sentence(sentence, vocabulary_of(str(folder / "draft")), remembers)


def words_text(model: str, vocabulary: Vocabulary | None) -> str:
    """What can be said to a model, as a page of text."""
    lines = [f"What can be said to {model}:", ""]
    if vocabulary is None:
        lines.append("  any sentence: its card names no words, so it is taken for a general model")
    else:
        lines += _of_the_model(vocabulary)
    lines += ["", "to the robot's memory, about anything:", *_indented(TO_MEMORY)]
    return "\n".join(lines)


def _of_the_model(vocabulary: Vocabulary) -> list[str]:
    if not all(vocabulary.words(slot) for slot in THING):
        return ["how to move:", *_indented(COMMANDS)]
    thing = " ".join(f"<{slot}>" for slot in THING)
    return [
        *(f"{f'<{slot}>':10}{', '.join(vocabulary.words(slot))}" for slot in THING),
        "",
        "to find a thing (my, a, the or nothing before it; please and could you are understood):",
        *_indented(form.format(thing) for form in FIND_PHRASINGS),
        "",
        "how to move:",
        *_indented(COMMANDS),
    ]


def _indented(sentences: Iterable[str]) -> list[str]:
    return [f"  {sentence}" for sentence in sentences]
