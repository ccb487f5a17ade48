# SPDX-License-Identifier: Apache-2.0
"""The language of instructions: one table of sentences, with slots that the words of a model's card fill.

A form is a sentence of literal words in which `{}` stands for a thing: its colour, then its kind. Training,
the command line and the navigator read the same table, so that what is accepted is what was trained.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from outrider.core.language.prompt import normalise_instruction

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
FORMS = (*FIND_PHRASINGS, *COMMANDS)
THING = ("colour", "kind")
"""The slots of a thing, in the order of speech."""

_BLANK = "{}"
_WORD = re.compile(r"\{\}|[^\W_]+(?:['’-][^\W_]+)*")
_ARTICLES = frozenset(("the", "my", "a", "an", "our", "your", "this", "that", "some"))
_POLITE_BEFORE = re.compile(r"^(?:(?:please|hey|(?:can|could|would|will) you)\b[\s,]*)+")
_POLITE_AFTER = re.compile(r"(?:[\s,]+(?:please|now|for me))+(?=[\s?!.]*$)")
# Costs of an alignment, in literal words.
_TYPO, _OTHER_WORD, _EXTRA_WORD, _MISSING_WORD, _MISSING_ARTICLE = 0.3, 0.9, 1.0, 1.0, 0.2
_MISSING_SLOT = {"colour": 0.7, "kind": 1.5}
_FAR = 1.9
_LONGEST_WORDS = 16


@dataclass(frozen=True)
class Vocabulary:
    """The words that a model was made for, by the slot that they fill, in the card's order."""

    slots: Mapping[str, tuple[str, ...]]

    def words(self, slot: str) -> tuple[str, ...]:
        """The words of a slot; none where the card names no such slot."""
        return self.slots.get(slot, ())

    def names(self, thing: str) -> bool:
        """Whether a thing is named in these words, each slot's in its place."""
        words = thing.split()
        return len(words) == len(THING) and all(
            word in self.words(slot) for slot, word in zip(THING, words, strict=True)
        )

    @cached_property
    def forms(self) -> tuple[_Form, ...]:
        """The sentences that can be said in these words."""
        things = all(self.words(slot) for slot in THING)
        return tuple(_Form(form) for form in FORMS if things or _BLANK not in form)


@dataclass(frozen=True)
class Instruction:
    """A sentence that a model was made for, word by word as trained; `thing` is what is to be found."""

    text: str
    thing: str = ""


@dataclass(frozen=True)
class Near:
    """The form nearest to a sentence that is none. `said`: the sentence corrected, with the slots filled.

    `unknown`: words of the sentence that stand in a slot and are not of its vocabulary, by slot; `missing`:
    slots of which the sentence says nothing.
    """

    said: str
    unknown: Mapping[str, str]
    missing: tuple[str, ...]


class _Form:
    """A form as tokens: literal words, and slots as `{colour}`."""

    def __init__(self, form: str) -> None:
        self.form = form
        tokens = _words(_without_politeness(form))
        self.tokens = tuple(
            part for token in tokens for part in (map(_slot_token, THING) if token == _BLANK else (token,))
        )

    def fill(self, words: Mapping[str, str]) -> str:
        """The sentence with these words in its slots."""
        return self.form.format(thing_phrase(words))


def thing_phrase(words: Mapping[str, str]) -> str:
    """A thing by the words of its slots."""
    return " ".join(words[slot] for slot in THING)


def parse(sentence: str, vocabulary: Vocabulary) -> Instruction | None:
    """The whole sentence as an instruction; None where it is none of the forms in these words.

    Politeness, another article, case and punctuation do not count: the form as trained is returned.
    """
    text = normalise_instruction(sentence)
    words = _words(_without_politeness(text))
    found: list[Instruction] = []
    for form in vocabulary.forms:
        filled = _match(words, form.tokens, vocabulary)
        if filled is not None:
            thing = thing_phrase(filled) if filled else ""
            found.append(Instruction(form.form.format(thing), thing))
    return next((one for one in found if one.text == text), found[0] if found else None)


def nearest(sentence: str, vocabulary: Vocabulary) -> Near | None:
    """The form that a sentence comes nearest to; None where it is far from all of them."""
    words = _words(_without_politeness(normalise_instruction(sentence)))
    best, at = _FAR, None
    for form in vocabulary.forms if len(words) <= _LONGEST_WORDS else ():
        cost, pairs = _align(words, form.tokens, vocabulary)
        anchored = any(said and token == fixed for said, token, fixed in pairs if token not in _ARTICLES)
        if cost < best and anchored:
            best, at = cost, (form, pairs)
    return _near(*at, vocabulary) if at else None


def example(sentence: str, vocabulary: Vocabulary) -> str:
    """A sentence to find a thing, in words of the given sentence as far as these are known.

    A command where the model knows no things.
    """
    if not all(vocabulary.words(slot) for slot in THING):
        return "move forward"
    said = [closest(word, vocabulary.words(slot)) for word in _words(sentence.lower()) for slot in THING]
    filled = {}
    for slot in THING:
        known = [word for word in said if word in vocabulary.words(slot)]
        filled[slot] = known[0] if known else _default(slot, vocabulary)
    return FIND_PHRASINGS[0].format(thing_phrase(filled))


def _default(slot: str, vocabulary: Vocabulary) -> str:
    words = vocabulary.words(slot)
    return next((word for word in ("silver", "bottle") if word in words), words[0])


def _near(form: _Form, pairs: Sequence[tuple[str, str, str]], vocabulary: Vocabulary) -> Near:
    filled = {_slot(token): fixed for _, token, fixed in pairs if _slot(token)}
    unknown = {slot: word for slot, word in filled.items() if word and word not in vocabulary.words(slot)}
    missing = tuple(slot for slot, word in filled.items() if not word)
    whole = {
        slot: _default(slot, vocabulary) if slot in unknown or slot in missing else word
        for slot, word in filled.items()
    }
    return Near(form.fill(whole) if filled else form.form, unknown, missing)


def _words(text: str) -> list[str]:
    return _WORD.findall(text)


def _without_politeness(text: str) -> str:
    return _POLITE_AFTER.sub("", _POLITE_BEFORE.sub("", text))


def _slot_token(slot: str) -> str:
    return f"{{{slot}}}"


def _slot(token: str) -> str:
    """The slot that a token of a form stands for; empty for a literal word."""
    return token[1:-1] if token.startswith("{") else ""


def _match(words: Sequence[str], tokens: Sequence[str], vocabulary: Vocabulary) -> dict[str, str] | None:
    """The words of the slots where the sentence is this form; before a slot any article will do, or none."""
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


def _align(
    words: Sequence[str], tokens: Sequence[str], vocabulary: Vocabulary
) -> tuple[float, list[tuple[str, str, str]]]:
    """The cheapest alignment of a sentence with a form: its cost, and (word said, token, word meant).

    A missing word is said as "", and so is what is meant by a missing slot. Wagner and Fischer, 1974.
    """
    rows: list[list[tuple[float, list[tuple[str, str, str]]]]] = [[(0.0, [])]]
    for _ in words:
        cost, pairs = rows[-1][0]
        rows.append([(cost + _EXTRA_WORD, pairs)])
    for token in tokens:
        missing, meant = _missing(token)
        for row in range(len(words) + 1):
            cost, pairs = rows[row][-1]
            ways = [(cost + missing, [*pairs, ("", token, meant)])]
            if row > 0:
                above, before = rows[row - 1][-1], rows[row - 1][-2]
                price, meant_word = _price(words[row - 1], token, vocabulary)
                ways.append((above[0] + _EXTRA_WORD, above[1]))
                ways.append((before[0] + price, [*before[1], (words[row - 1], token, meant_word)]))
            rows[row].append(min(ways, key=lambda way: way[0]))
    return rows[-1][-1]


def _missing(token: str) -> tuple[float, str]:
    slot = _slot(token)
    if slot:
        return _MISSING_SLOT[slot], ""
    return (_MISSING_ARTICLE if token in _ARTICLES else _MISSING_WORD), token


def _price(word: str, token: str, vocabulary: Vocabulary) -> tuple[float, str]:
    """What it costs to take a word for a token, and the word that is meant."""
    slot = _slot(token)
    choices = vocabulary.words(slot) if slot else (token,)
    if word in choices:
        return 0.0, word
    if not slot and token in _ARTICLES and word in _ARTICLES:
        return _MISSING_ARTICLE, token
    close = closest(word, choices)
    if close:
        return _TYPO, close
    return (_OTHER_WORD, word) if slot else (2.0 * _EXTRA_WORD, token)


def closest(word: str, choices: Iterable[str]) -> str:
    """The choice that the word is a slip of the keyboard away from; empty where there is none.

    Of several the one with the same first and last letter: few slip there.
    """
    slips = 0 if len(word) < 3 else 1 if len(word) < 6 else 2
    near = [
        (num_slips(word, c), (c[0] != word[0]) + (c[-1] != word[-1]), c)
        for c in choices
        if abs(len(c) - len(word)) <= slips
    ]
    least = min(near, default=(slips + 1, 0, ""), key=lambda one: one[:2])
    return least[2] if least[0] <= slips else ""


def num_slips(one: str, other: str) -> int:
    """Letters left out, added, changed, or swapped with their neighbour: the restricted Damerau distance."""
    before, row = list[int](), list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        before, last, row = row, before, [i]
        for j, b in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
    return row[-1]
