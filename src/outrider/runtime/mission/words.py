# SPDX-License-Identifier: Apache-2.0
"""The sentences that a model understands: checked before a start, and listed by `outrider words`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from outrider.core.errors import InstructionError
from outrider.core.language.grammar import COMMANDS, Vocabulary
from outrider.core.language.plan import Plan
from outrider.core.language.sentences.planner import plan_of
from outrider.core.language.words.things import ORDER
from outrider.models.checkpoint.card import read_card
from outrider.runtime.common.paths import model_folder, models_folder

TOLD = (
    "turn left 90 degrees",
    "turn around",
    "half a metre back",
    "go forward 2 metres",
    "come back",
    "go home",
    "wait ten seconds",
    "no, the other one",
    "stop",
)
JOINED = ("find the red chair, then come back", "turn left, then wait 5 seconds, then go forward 1 m")
ASKED = ("what do you see?", "where is the red ball?", "what did you do?")
TO_MEMORY = (
    "remember that my keys hang by the door",
    "find my keys",
    "where did you last see the red ball?",
    "what do you know about my keys?",
    "forget what i said about my keys",
)


def vocabulary_of(model: str) -> Vocabulary | None:
    """Returns the vocabulary of a model by folder or name; None for a general model. Raises ModelError."""
    return read_card(model_folder(model)).vocabulary


def check_sentence(sentence: str, vocabulary: Vocabulary | None, remembers: bool = False) -> Plan:
    """Returns the plan of a sentence. Raises InstructionError if a robot with this model would refuse it.

    With `remembers` the robot has an earlier store, which may lead it to things outside the model's
    vocabulary.
    """
    try:
        return plan_of(sentence, vocabulary, lambda thing: remembers)
    except InstructionError as error:
        if error.meant or remembers or not _is_plan_with_memory(sentence, vocabulary):
            raise
        advice = "a robot with a memory (`outrider demo --store`) also finds what it was told of"
        raise InstructionError(f"{error}; {advice}") from error


def _is_plan_with_memory(sentence: str, vocabulary: Vocabulary | None) -> bool:
    try:
        plan_of(sentence, vocabulary, lambda thing: True)
    except InstructionError:
        return False
    return True


def check_for_pair(sentence: str, models: Path | None, remembers: bool = False) -> Plan:
    """Returns `check_sentence` for the model pair in a folder, or the shipped one. Raises ModelError."""
    folder = models_folder(models.resolve() if models else None)
    return check_sentence(sentence, vocabulary_of(str(folder / "draft")), remembers)


def words_text(model: str, vocabulary: Vocabulary | None) -> str:
    """Returns the sentences that a model understands, as a page of text."""
    lines = [f"What can be said to {model}:", ""]
    if vocabulary is None:
        lines.append("  any sentence: its card names no words, so it is taken for a general model")
    else:
        lines += _of_the_model(vocabulary)
    for heading, sentences in (
        ("turns, ways and rests, by any model", TOLD),
        ("up to eight of them in a row", JOINED),
        ("questions", ASKED),
        ("to the robot's memory, about anything", TO_MEMORY),
    ):
        lines += ["", f"{heading}:", *_indented(sentences)]
    return "\n".join([*lines, "", "the same in German, French, Spanish and Chinese: see `outrider plan`"])


def _of_the_model(vocabulary: Vocabulary) -> list[str]:
    moves = ["how to move:", *_indented(COMMANDS)]
    if not vocabulary.named_shapes:
        return moves
    named = [slot for slot in ORDER if any(slot in shape for shape in vocabulary.named_shapes)]
    words = {f"<{slot}>": vocabulary.words(slot) for slot in named}
    lines = [*(f"{slot:10}{', '.join(said)}" for slot, said in words.items()), ""]
    for heading, sentences in _about_things(vocabulary):
        lines += [f"{heading}:", *_indented(sentences), ""]
    return [*lines, *moves]


def _about_things(vocabulary: Vocabulary) -> Iterator[tuple[str, list[str]]]:
    """Yields headings with the sentences below them."""
    if len(vocabulary.named_shapes) > 1:
        yield "a thing is one of these", list(map(_slots, vocabulary.named_shapes))
    forms = [form for form in _forms(vocabulary) if not form.startswith("where")]
    yield "to find a thing (my, a, the or nothing before it; please and could you are understood)", forms
    rooms = _forms(vocabulary, room=True)
    if rooms:
        yield "to find a room by what stands in it", rooms


def _forms(vocabulary: Vocabulary, room: bool = False) -> list[str]:
    """Returns the forms about things or rooms.

    A form that takes things of one shape alone shows the slots of that shape.
    """
    shapes: dict[str, list[tuple[str, ...]]] = {}
    for shape in vocabulary.named_shapes:
        for form in vocabulary.phrasings(shape, room):
            shapes.setdefault(form, []).append(shape)
    return [
        form.format("<thing>" if len(form_shapes) > 1 else _slots(form_shapes[0]))
        for form, form_shapes in shapes.items()
    ]


def _slots(shape: Iterable[str]) -> str:
    return " ".join(f"<{slot}>" for slot in shape)


def _indented(sentences: Iterable[str]) -> list[str]:
    return [f"  {sentence}" for sentence in sentences]
