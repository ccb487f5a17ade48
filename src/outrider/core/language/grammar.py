# SPDX-License-Identifier: Apache-2.0
"""The language of instructions: one table of sentences, with slots for the words of a model's card.

A form is a sentence of literal words in which `{}` stands for a thing, such as its colour, then its kind.
Training, the command line and the navigator read the same table, so a sentence is accepted only if it was
trained.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial

from outrider.core.edit_distance import Pair, aligned, closest
from outrider.core.language.prompt import normalise_instruction
from outrider.core.language.words.things import ORDER, SHAPES, SIDES, SIZES, Thing

FIND_PHRASINGS = (
    "find the {}",
    "find my {}",
    "find a {}",
    "go to the {}",
    "go to my {}",
    "go find the {}",
    "walk to the {}",
    "walk over to the {}",
    "run to the {}",
    "move to the {}",
    "drive to the {}",
    "come to the {}",
    "look for the {}",
    "look for a {}",
    "look for my {}",
    "search for the {}",
    "search the home for a {}",
    "locate the {}",
    "where is the {}?",
    "where is my {}?",
    "where did i leave my {}?",
    "take me to the {}",
    "bring me to my {}",
    "show me the {}",
    "lead me to the {}",
    "guide me to the {}",
    "i need the {}",
    "i am looking for my {}",
    "i want to see the {}",
    "can you find the {}?",
    "could you go to the {}, please?",
    "please find my {}",
    "please go to the {}",
    "please look for the {}",
    "head for the {}",
    "get to the {}",
    "approach the {}",
    "stop at the {}",
    "stand next to the {}",
    "wait at the {}",
)
ANY_PHRASINGS = ("find any {}", "go to any {}")
"""For a kind alone, when any thing of it will do."""
ROOM_PHRASINGS = (
    "go to the room with the {}",
    "find the room with the {}",
    "walk to the room with the {}",
    "take me to the room with the {}",
)
"""For the room that contains a thing."""
COMMANDS = (
    "stop",
    "halt",
    "stay where you are",
    "stand still",
    "freeze",
    "turn left",
    "turn right",
    "turn left a little",
    "turn right a little",
    "turn slightly left",
    "turn slightly right",
    "turn left a lot",
    "turn right a lot",
    "look left",
    "look right",
    "rotate left",
    "rotate right",
    "move forward",
    "go forward",
    "walk forward a little",
    "move forward a little",
    "go straight ahead",
    "move ahead a bit",
    "walk straight ahead a lot",
    "go forward a lot",
    "turn left at the door",
    "turn right at the door",
)

_BLANK = "{}"
_WORD = re.compile(r"\{\}|[^\W_]+(?:['’-][^\W_]+)*")
_ARTICLES = frozenset(("the", "my", "a", "an", "our", "your", "this", "that", "some"))
_POLITE_BEFORE = re.compile(r"^(?:(?:please|hey|(?:can|could|would|will) you)\b[\s,]*)+")
_POLITE_AFTER = re.compile(r"(?:[\s,]+(?:please|now|for me))+(?=[\s?!.]*$)")
# Costs of an alignment, in units of a literal word.
_TYPO, _OTHER_WORD, _EXTRA_WORD, _MISSING_WORD, _MISSING_ARTICLE = 0.3, 0.9, 1.0, 1.0, 0.2
_MISSING_KIND, _MISSING_ATTRIBUTE = 1.5, 0.7
_FAR = 1.9
_LONGEST_WORDS = 16


@dataclass(frozen=True)
class Vocabulary:
    """The words that a model was made for, and the ways in which it names things.

    `slots`: single words by the slot that they fill, in the card's order. `shapes`: the slots that name a
    thing, from `things.SHAPES`. `rooms`: whether it finds a room by a thing in it. Raises ValueError for an
    empty word or unknown shape.
    """

    slots: Mapping[str, tuple[str, ...]]
    shapes: tuple[tuple[str, ...], ...] = (("colour", "kind"),)
    rooms: bool = False

    def __post_init__(self) -> None:
        if not all(word for words in self.slots.values() for word in words):
            raise ValueError("a word of a slot is empty")
        unknown = [" ".join(shape) for shape in self.shapes if shape not in SHAPES]
        if unknown:
            shapes = ", ".join(map(" ".join, SHAPES))
            raise ValueError(f"no thing is named by {unknown[0]!r}: its shape is one of {shapes}")

    def words(self, slot: str) -> tuple[str, ...]:
        """Return the words of a slot; none if the card does not name it."""
        return self.slots.get(slot, ())

    def fills(self, word: str, slots: Iterable[str] = ORDER) -> bool:
        """Return whether a word belongs to one of the slots."""
        return any(word in self.words(slot) for slot in slots)

    @cached_property
    def named_shapes(self) -> tuple[tuple[str, ...], ...]:
        """The shapes whose slots all have words; none if the model knows no things."""
        return tuple(shape for shape in self.shapes if all(map(self.words, shape)))

    def thing(self, words: str) -> Thing | None:
        """Return the thing that the words name, one word for each slot in order; None if they name none."""
        parts = words.split()
        for shape in self.named_shapes:
            filled = dict(zip(shape, parts, strict=False))
            if len(parts) == len(shape) and all(word in self.words(slot) for slot, word in filled.items()):
                return Thing(**filled)
        return None

    def names(self, words: str) -> bool:
        """Return whether the words name a thing."""
        return self.thing(words) is not None

    def phrasings(self, shape: tuple[str, ...], room: bool = False) -> tuple[str, ...]:
        """Return the sentences, with `{}` for its words, that ask for a thing of a shape, or for its room.

        Empty if the model was made for no such thing, or for no rooms. A thing with a size or side is
        definite, "the small ball", and names no room.
        """
        is_definite = "size" in shape or "side" in shape
        if shape not in self.named_shapes or (room and (is_definite or not self.rooms)):
            return ()
        if room:
            return ROOM_PHRASINGS
        forms = tuple(form for form in FIND_PHRASINGS if not is_definite or " a {}" not in form)
        return (*forms, *ANY_PHRASINGS) if shape == ("kind",) else forms

    @cached_property
    def forms(self) -> tuple[_Form, ...]:
        """The sentences that can be said with these words."""
        things = [(shape, room) for room in (False, True) for shape in self.named_shapes]
        return (
            *(_Form(form, *thing) for thing in things for form in self.phrasings(*thing)),
            *(_Form(command) for command in COMMANDS),
        )


@dataclass(frozen=True)
class Instruction:
    """A sentence that a model was made for, word by word as trained.

    `thing` is what is to be found, or is in the room that is to be found; `Vocabulary.thing` splits it.
    """

    text: str
    thing: str = ""
    room: bool = False


@dataclass(frozen=True)
class Near:
    """The form nearest to a sentence that is no instruction. `sentence`: the form with its slots filled.

    `unknown`: words of the sentence in a slot whose vocabulary lacks them, by slot; `missing`: slots for
    which the sentence has no word.
    """

    sentence: str
    unknown: Mapping[str, str]
    missing: tuple[str, ...]


class _Form:
    """A form as tokens: literal words, and slots such as `{colour}`."""

    def __init__(self, form: str, shape: Sequence[str] = (), room: bool = False) -> None:
        self.form, self.shape, self.room = form, shape, room
        tokens = _words(_without_politeness(form))
        slots = tuple(map("{{{}}}".format, shape))
        self.tokens = tuple(part for token in tokens for part in (slots if token == _BLANK else (token,)))

    def fill(self, words: Mapping[str, str]) -> Instruction:
        """Return the sentence with these words in its slots."""
        thing = " ".join(words[slot] for slot in self.shape)
        return Instruction(self.form.format(thing), thing, self.room)


def parse(sentence: str, vocabulary: Vocabulary) -> Instruction | None:
    """Return the whole sentence as an instruction; None if it matches no form with these words.

    Politeness, another article, case and punctuation do not count: the form as trained is returned.
    """
    text = normalise_instruction(sentence)
    words = _words(_without_politeness(text))
    matches = ((form, _match(words, form.tokens, vocabulary)) for form in vocabulary.forms)
    matching = [form.fill(filled) for form, filled in matches if filled is not None]
    exact = (instruction for instruction in matching if instruction.text == text)
    return next(exact, matching[0] if matching else None)


def nearest(sentence: str, vocabulary: Vocabulary) -> Near | None:
    """Return the form nearest to a sentence; None if all of them are too far."""
    words = _words(_without_politeness(normalise_instruction(sentence)))
    best, at = _FAR, None
    price, dropped = cache(partial(_price, vocabulary)), partial(_dropped, vocabulary)
    for form in vocabulary.forms if len(words) <= _LONGEST_WORDS else ():
        cost, pairs = aligned(words, form.tokens, partial(dropped, bool(form.shape)), _missing, price)
        anchored = any(word and token == fixed for word, token, fixed in pairs if token not in _ARTICLES)
        if cost < best and anchored:
            best, at = cost, (form, pairs)
    return _near(*at, vocabulary) if at else None


def example(sentence: str, vocabulary: Vocabulary) -> str:
    """Return a sentence to find a thing, with known words of the given sentence where possible.

    A command if the model knows no things.
    """
    if not vocabulary.named_shapes:
        return "move forward"
    words = _words(sentence.lower())
    strange = [word for word in words if not vocabulary.fills(word)]
    filled = {slot: _first_known(words, strange, vocabulary.words(slot)) for slot in vocabulary.slots}
    shape = max(vocabulary.named_shapes, key=lambda slots: _num_filled(slots, filled))
    thing = {slot: filled[slot] or _default(slot, vocabulary) for slot in shape}
    return FIND_PHRASINGS[0].format(Thing(**thing).phrase)


def _first_known(words: Sequence[str], strange: Sequence[str], choices: Sequence[str]) -> str:
    """Return the first word among the choices, else the nearest one with an unknown word's first letter."""
    slips = (near for word in strange if (near := closest(word, choices))[:1] == word[:1])
    return next(filter(None, (*(word for word in words if word in choices), *slips)), "")


def _num_filled(shape: Sequence[str], filled: Mapping[str, str]) -> tuple[int, int]:
    """Return how many slots of a shape are said; ties go to the shape with fewer unsaid slots."""
    num_filled = sum(bool(filled[slot]) for slot in shape)
    return num_filled, num_filled - len(shape)


def _default(slot: str, vocabulary: Vocabulary) -> str:
    words = vocabulary.words(slot)
    return next((word for word in ("silver", "bottle") if word in words), words[0])


def _near(form: _Form, pairs: Sequence[Pair], vocabulary: Vocabulary) -> Near:
    filled = {_slot(token): fixed for _, token, fixed in pairs if _slot(token)}
    unknown = {slot: word for slot, word in filled.items() if word and word not in vocabulary.words(slot)}
    missing = tuple(slot for slot, word in filled.items() if not word)
    whole = {
        slot: _default(slot, vocabulary) if slot in unknown or slot in missing else word
        for slot, word in filled.items()
    }
    return Near(form.fill(whole).text, unknown, missing)


def _words(text: str) -> list[str]:
    return _WORD.findall(text)


def _without_politeness(text: str) -> str:
    return _POLITE_AFTER.sub("", _POLITE_BEFORE.sub("", text))


def _slot(token: str) -> str:
    """Return the slot that a token of a form stands for; empty for a literal word."""
    return token[1:-1] if token.startswith("{") else ""


def _match(words: Sequence[str], tokens: Sequence[str], vocabulary: Vocabulary) -> dict[str, str] | None:
    """Return the slots' words if the sentence has this form; any article, or none, may precede a slot."""
    filled: dict[str, str] = {}
    rest = list(words)
    for index, token in enumerate(tokens):
        slot = _slot(token)
        if token in _ARTICLES and index + 1 < len(tokens) and _slot(tokens[index + 1]):
            if rest and rest[0] in _ARTICLES:
                rest.pop(0)
            continue
        if not rest or rest[0] not in (vocabulary.words(slot) if slot else (token,)):
            return None
        word = rest.pop(0)
        if slot:
            filled[slot] = word
    return None if rest else filled


def _dropped(vocabulary: Vocabulary, is_of_a_thing: bool, word: str) -> float:
    """Return the cost of omitting a word; one that distinguishes a thing must not be omitted."""
    distinguishes = is_of_a_thing and (vocabulary.fills(word) or word in (*SIZES, *SIDES))
    return _FAR if distinguishes else _EXTRA_WORD


def _missing(token: str) -> tuple[float, str]:
    slot = _slot(token)
    if slot:
        return (_MISSING_KIND if slot == "kind" else _MISSING_ATTRIBUTE), ""
    return (_MISSING_ARTICLE if token in _ARTICLES else _MISSING_WORD), token


def _price(vocabulary: Vocabulary, word: str, token: str) -> tuple[float, str]:
    """Return the cost of taking a word for a token, and the word that is meant."""
    slot = _slot(token)
    choices = vocabulary.words(slot) if slot else (token,)
    if word in choices:
        return 0.0, word
    if not slot and token in _ARTICLES and word in _ARTICLES:
        return _MISSING_ARTICLE, token
    if slot and vocabulary.fills(word):
        return _FAR, word
    close = closest(word, choices)
    if close:
        return _TYPO, close
    return (_OTHER_WORD, word) if slot else (2.0 * _EXTRA_WORD, token)
