# SPDX-License-Identifier: Apache-2.0
"""Sentences that can be said aloud, drawn from a language's phrases and a model's vocabulary.

An engine's language model is made of them. Phrases with {text} hold words that no list has, and are left out.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from outrider.core.language.grammar import COMMANDS, Vocabulary
from outrider.core.language.phrasebook import PUNCTUATION, Phrasebook
from outrider.core.language.things import ORDER

CORRECTIONS = ("other", "which", "side", "beside")
"""Groups of phrases before which a word such as "no" may stand."""
UNSPOKEN = ("again", "described", "ask", "point", *CORRECTIONS)
"""Groups of phrases that begin no sentence, hold free text, or stand for a click."""
COMMON = ("find", "turn", "forward", "back", "wait", "return", "home", "stop", "where")
COMMON_SHARE, POLITE_SHARE, PLAN_SHARE, CORRECTION_SHARE, WHOLE_SHARE = 0.85, 0.1, 0.3, 0.03, 0.95
FORM_SHARE, FIND_SHARE, ROOM_SHARE = 0.4, 0.7, 0.1
OPTIONAL_SHARE, ARTICLE_SHARE = 0.25, 0.95
_TOKEN = re.compile(r"\{\w+\}|[()\[\]|]|[^\s()\[\]|{}]+")
_CLOSING = {"(": ")", "[": "]"}

T = TypeVar("T")


class SpokenSentences:
    """Draws sentences, the same ones for the same seed."""

    def __init__(self, book: Phrasebook, vocabulary: Vocabulary, seed: int = 0) -> None:
        self._book, self._vocabulary = book, vocabulary
        self._random = random.Random(seed)
        groups = book.phrases_by_group().items()
        spoken = {group: [p for p in phrases if "{text}" not in p] for group, phrases in groups}
        self._groups = {group: phrases for group, phrases in spoken.items() if phrases}
        self._steps = [group for group in self._groups if group not in UNSPOKEN]

    def draw(self) -> str:
        """Returns the next sentence, in small letters and without punctuation."""
        if self._chance(FORM_SHARE):
            return self._form()
        if self._chance(CORRECTION_SHARE):
            said = [*self._entry("correction"), *self._phrase(self._pick(CORRECTIONS))]
        else:
            said = self._step()
            while self._chance(PLAN_SHARE):
                said += [*self._entry("then"), *self._step()]
        if self._chance(POLITE_SHARE):
            said = [*self._entry("polite_before"), *said]
        if self._chance(POLITE_SHARE):
            said = [*said, *self._entry("polite_after")]
        return " ".join(said)

    def draw_known(self, count: int, knows: Callable[[str], bool]) -> list[str]:
        """Returns that many sentences of which every word has a pronunciation."""
        return [said for said in (self.draw() for _ in range(count)) if all(map(knows, said.split()))]

    def _form(self) -> str:
        """A sentence word by word as models are trained with."""
        shapes = self._vocabulary.named_shapes
        if shapes and self._chance(FIND_SHARE):
            shape = self._pick(shapes)
            room = self._chance(ROOM_SHARE) and bool(self._vocabulary.phrasings(shape, room=True))
            form = self._pick(self._vocabulary.phrasings(shape, room))
            said = form.format(" ".join(self._named(shape)))
        else:
            said = self._pick(COMMANDS)
        return " ".join(token.word for token in self._book.tokens(said) if token.word not in PUNCTUATION)

    def _step(self) -> list[str]:
        common = [group for group in COMMON if group in self._steps]
        return self._phrase(self._pick(common if common and self._chance(COMMON_SHARE) else self._steps))

    def _phrase(self, group: str) -> list[str]:
        tokens = iter(_TOKEN.findall(self._pick(self._groups[group])))
        return list(self._expand(tokens, ""))

    def _expand(self, tokens: Iterator[str], closing: str) -> list[str]:
        """The words of one of the alternatives up to the closing sign."""
        ways: list[list[str]] = [[]]
        for token in tokens:
            if token == closing:
                break
            if token == "|":
                ways.append([])
            elif token in _CLOSING:
                within = self._expand(tokens, _CLOSING[token])
                ways[-1] += within if token == "(" or self._chance(OPTIONAL_SHARE) else []
            else:
                ways[-1] += self._slot(token[1:-1]) if token.startswith("{") else [token]
        return self._pick(ways)

    def _slot(self, slot: str) -> list[str]:
        if slot == "thing":
            return self._thing()
        if slot == "which":
            telling = [word for slot in ORDER[:-1] for word in self._vocabulary.words(slot)]
            return [self._pick(telling or ("red",))]
        units = {"angle": "degrees", "distance": "metres", "seconds": "seconds"}
        if slot in units:
            return [*self._number(), *self._entry(units[slot])]
        return self._entry({"side": "sides", "size": "sizes"}[slot])

    def _thing(self) -> list[str]:
        known = self._vocabulary.named_shapes or (("kind",),)
        shape = self._pick(known) if self._chance(WHOLE_SHARE) else ("kind",)
        article = self._entry("articles") if self._chance(ARTICLE_SHARE) else []
        return [*article, *self._named(shape)]

    def _named(self, shape: Sequence[str]) -> list[str]:
        """Words for the slots for which there are any."""
        return [self._pick(self._vocabulary.words(slot)) for slot in shape if self._vocabulary.words(slot)]

    def _number(self) -> list[str]:
        """A number below a hundred and eighty, or half of something."""
        values = self._book.numerals.values
        tens = [word for word, value in values.items() if 20 <= value < 100]
        below = [word for word, value in values.items() if 1 <= value < 20]
        ones = [word for word, value in values.items() if 1 <= value < 10]
        hundred = [self._pick(("one", "a")), *self._book.numerals.multipliers]
        ways: list[list[str]] = [
            [self._pick(below)],
            [self._pick(tens)],
            [self._pick(tens), self._pick(ones)],
            hundred,
            [*hundred, self._pick(tens)],
            ["half", "a"],
            ["a"],
        ]
        return self._pick(ways)

    def _entry(self, use: str) -> list[str]:
        return self._pick(self._book.spoken(use)).split()

    def _pick(self, choices: Sequence[T]) -> T:
        return self._random.choice(choices)

    def _chance(self, share: float) -> bool:
        return self._random.random() < share
