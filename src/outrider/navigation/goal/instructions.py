# SPDX-License-Identifier: Apache-2.0
"""What a person may ask for, checked before anything moves."""

from __future__ import annotations

import unicodedata

from outrider.core.errors import InstructionError
from outrider.core.language.grammar import Near, Vocabulary, example, nearest, parse
from outrider.core.language.prompt import normalise_instruction

MAX_CHARACTERS = 200
EXAMPLE = 'for example "find the silver bottle"'
ALL_WORDS = "`outrider words` lists all that can be said"


def check_instruction(text: str, vocabulary: Vocabulary | None = None) -> str:
    """The instruction in the form the models are trained on.

    `vocabulary` is that of a model made for few sentences; None takes any sentence.
    Raises InstructionError for an empty or too long text, control characters, and a sentence that the model
    was not made for, with what may have been meant.
    """
    if len(text) > MAX_CHARACTERS:
        raise InstructionError(
            f"the instruction has {len(text)} characters; at most {MAX_CHARACTERS} are taken"
        )
    if any(unicodedata.category(character) == "Cc" for character in text.strip()):
        raise InstructionError("the instruction holds control characters; use one plain line of words")
    instruction = normalise_instruction(text)
    if not any(character.isalnum() for character in instruction):
        raise InstructionError(f"the instruction is empty; say what to do, {EXAMPLE}")
    if vocabulary is None:
        return instruction
    parsed = parse(instruction, vocabulary)
    if parsed is None:
        raise InstructionError(_refusal(instruction, vocabulary))
    return parsed.text


def _refusal(instruction: str, vocabulary: Vocabulary) -> str:
    near = nearest(instruction, vocabulary)
    if near is None:
        sample = example(instruction, vocabulary)
        return (
            f'"{instruction}" is no instruction that this model knows: say what to find, such as "{sample}", '
            f'or how to move, such as "turn left"; {ALL_WORDS}'
        )
    if near.unknown:
        return f"{_unknown(near, vocabulary)}; {ALL_WORDS}"
    if near.missing:
        slot = near.missing[0]
        return (
            f'"{instruction}" names no {slot}: say it too, such as "{near.said}"; {_known(slot, vocabulary)}'
        )
    return f'"{instruction}" is no instruction that this model knows: did you mean "{near.said}"?'


def _unknown(near: Near, vocabulary: Vocabulary) -> str:
    parts = [
        f'the model knows no {slot} "{word}": {_known(slot, vocabulary)}'
        for slot, word in near.unknown.items()
    ]
    return "; ".join(parts)


def _known(slot: str, vocabulary: Vocabulary) -> str:
    return f"its {slot}s are {', '.join(vocabulary.words(slot))}"
