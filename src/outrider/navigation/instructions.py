"""What a person may ask for, checked before anything moves."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Collection

from outrider.core.errors import InstructionError
from outrider.core.prompt import normalise_instruction

MAX_CHARACTERS = 200
EXAMPLE = 'for example "find the silver bottle"'


def check_instruction(text: str, known_words: Collection[str] | None = None) -> str:
    """The instruction in the form the models are trained on.

    `known_words` is the vocabulary of a model made for few words; None takes any word.
    Raises InstructionError for an empty or too long text, control characters and unknown words.
    """
    if len(text) > MAX_CHARACTERS:
        raise InstructionError(
            f"the instruction has {len(text)} characters; at most {MAX_CHARACTERS} are taken"
        )
    if any(unicodedata.category(character) == "Cc" for character in text.strip()):
        raise InstructionError("the instruction holds control characters; use one plain line of words")
    instruction = normalise_instruction(text)
    words = _words(instruction)
    if not words:
        raise InstructionError(f"the instruction is empty; say what to do, {EXAMPLE}")
    if known_words is not None:
        _check_known(words, known_words)
    return instruction


def _words(instruction: str) -> list[str]:
    return re.findall(r"[^\W_]+(?:'[^\W_]+)*", instruction)


def _check_known(words: list[str], known_words: Collection[str]) -> None:
    known = sorted({word.lower() for word in known_words})
    unknown = list(dict.fromkeys(word for word in words if word not in set(known)))
    if unknown:
        hints = "; ".join(_hint(word, known) for word in unknown)
        raise InstructionError(f"the model does not know {hints}: use the words it was made for, {EXAMPLE}")


def _hint(word: str, known: list[str]) -> str:
    nearest = difflib.get_close_matches(word, known, n=3, cutoff=0.5)
    return f'"{word}" (nearest known: {", ".join(nearest)})' if nearest else f'"{word}" (nothing like it)'
