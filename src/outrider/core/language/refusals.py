# SPDX-License-Identifier: Apache-2.0
"""Errors that say why a sentence is refused and what to say instead. `planner` decides on the refusal."""

from __future__ import annotations

from outrider.core.errors import InstructionError
from outrider.core.language.clauses import Clauses
from outrider.core.language.grammar import Near, Vocabulary, example, nearest
from outrider.core.language.prompt import normalise_instruction
from outrider.core.language.unsupported import why_unsupported
from outrider.core.language.words.phrasebook import Phrasebook, phrasebook
from outrider.core.language.words.signs import PUNCTUATION
from outrider.core.language.words.things import SIDES, SIZES

MAX_CHARACTERS, MAX_WORDS = 400, 80
MAX_READ = 1000
"""The most characters of a sentence of any kind, even one to remember."""
FIND_EXAMPLE = "find the silver bottle"
EXAMPLE = f'for example "{FIND_EXAMPLE}"'
ALL_WORDS = "`outrider words` lists all that can be said"


def refusal(
    sentence: str, vocabulary: Vocabulary | None, book: Phrasebook, clauses: Clauses
) -> InstructionError:
    """Return why a sentence is not a plan, and what to say instead."""
    quoted = shortened(sentence)
    words = [token.word for token in book.tokens(sentence) if token.word not in PUNCTUATION]
    sizes = (("characters", len(sentence), MAX_CHARACTERS), ("words", len(words), MAX_WORDS))
    for what, size, most in sizes:
        if size > most:
            return too_long(size, what, most)
    if clauses.problems:
        return InstructionError(f'"{quoted}" is refused: it {clauses.problems[0]}')
    unsupported = why_unsupported(book, words)
    if unsupported:
        return InstructionError(f'"{quoted}" {unsupported}')
    if len({book.key_of("sides", word) for word in words if word in book.spoken("sides")}) > 1:
        return InstructionError(
            f'"{quoted}" says left and right at once: say one of them, or one after the other in full'
        )
    if clauses.unknown and vocabulary is not None:
        return _unknown_thing(quoted, clauses.unknown[-1], vocabulary)
    in_route = why_unsupported(book, words, ("order_in_ways",))
    if in_route:
        return InstructionError(f'"{quoted}" {in_route}')
    sample = FIND_EXAMPLE if vocabulary is None else example(sentence, vocabulary)
    return InstructionError(
        f'"{quoted}" is no instruction that this model knows: say what to find, such as "{sample}", '
        f'or how to move, such as "turn left"; {ALL_WORDS}'
    )


def too_long(num: int, what: str, most: int) -> InstructionError:
    """Return the error for a sentence with `num` characters or words."""
    return InstructionError(f"the instruction has {num} {what}; at most {most} are taken: say less")


def _unknown_thing(quoted: str, thing: str, vocabulary: Vocabulary) -> InstructionError:
    lacking = _lacking(thing, vocabulary)
    can_suggest = bool(vocabulary.named_shapes) and not lacking
    near = nearest(f"find the {thing}", vocabulary) if can_suggest else None
    if near is not None and near.unknown:
        return InstructionError(f"{_unknown(near, vocabulary)}; {ALL_WORDS}")
    if near is not None and near.missing:
        slot = near.missing[0]
        also = f'say it too, such as "{near.sentence}"; {_known(slot, vocabulary)}'
        return InstructionError(f'"{quoted}" names no {slot}: {also}')
    why = f"tells no things apart by their {lacking}" if lacking else f'knows no "{thing}"'
    sample = example(thing, vocabulary)
    return InstructionError(f'the model {why}: say what it knows, such as "{sample}"; {ALL_WORDS}')


def _lacking(thing: str, vocabulary: Vocabulary) -> str:
    """Return the property in a thing's name that the model was not made for: its size or its side."""
    first, *more = thing.split()
    ways = (("size", SIZES), ("side", SIDES))
    return next((way for way, words in ways if more and first in words and not vocabulary.words(way)), "")


def _unknown(near: Near, vocabulary: Vocabulary) -> str:
    return "; ".join(_unknown_word(slot, word, vocabulary) for slot, word in near.unknown.items())


def _unknown_word(slot: str, word: str, vocabulary: Vocabulary) -> str:
    english = phrasebook("en")
    if word in english.words("ranks") or word in english.numerals.words:
        ways = [way for way in ("colour", "size", "side") if vocabulary.words(way)]
        return f'one thing is found at a time, and told from others by {" or ".join(ways)}, not by "{word}"'
    return f'the model knows no {slot} "{word}": {_known(slot, vocabulary)}'


def _known(slot: str, vocabulary: Vocabulary) -> str:
    return f"its {slot}s are {', '.join(vocabulary.words(slot))}"


def shortened(sentence: str) -> str:
    """Return a sentence as messages quote it."""
    text = normalise_instruction(sentence)
    return text if len(text) <= 80 else f"{text[:77]}..."
