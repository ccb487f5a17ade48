# SPDX-License-Identifier: Apache-2.0
"""Finds what no motion can obey, in one language: single words, and phrases of words by their classes.

The words are those of `unheeded` in a language's file, the phrases those of `phrases/unheeded_*.yaml`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from outrider.core.language.words.amounts import DIGITS, Numerals

ANYWHERE = ("negation", "condition", "order", "harm", "beyond", "takeback", "wish")
"""Kinds of words that no order may have."""
UNHEEDED = (*ANYWHERE, "amount", "order_in_ways", "limit_in_ways", "task")
"""Kinds that no way in words may have."""
IN_NAMES = (*ANYWHERE, "amount", "task", "run_on")
"""Kinds that no free name of a thing may have."""
NEVER = r"(?!)"
"""An expression that matches nothing."""
_CLASS = re.compile(r"\{([a-z_]+)\}")
SLOT_NAME = re.compile(r"\?P<\w+>")
"""An expression for the syntax that makes a slot of a part of an expression."""

AnyOf = Callable[[Iterable[str]], str]


def classes(data: Mapping[str, Any], numerals: Numerals, any_of: AnyOf) -> dict[str, str]:
    """Return expressions for the classes of words that phrases name, such as a being."""
    held = data["unheeded"]
    own = {
        "article": any_of(data["articles"]),
        "number": f"{DIGITS} |{any_of((*numerals.values, *numerals.multipliers, *held.get('dozens', ())))}",
        "number_words": f"(?:{any_of(numerals.words)})*",
        "counted": any_of((*held.get("counted", ()), *held.get("limit_in_ways", ()))) or NEVER,
        "begin": "^",
        "end": "$",
    }
    told = data.get("classes", {}).items()
    own |= {name: words if isinstance(words, str) else any_of(words) for name, words in told}
    return {
        name: f"(?:{_CLASS.sub(lambda one: own[one[1]], expression)})" for name, expression in own.items()
    }


class Heeding:
    """Finds what no motion can obey.

    `any_of` and `expression` make expressions from words and from a phrase.
    """

    def __init__(
        self, data: Mapping[str, Any], numerals: Numerals, any_of: AnyOf, expression: Callable[[str], str]
    ) -> None:
        self._is_unspaced = bool(data.get("unspaced"))
        self._article = self._compiled(any_of(data["articles"]))
        self._heeded = self._compiled(any_of(data.get("heeded", ())) or NEVER)
        spans = "|".join(map(expression, data.get("spans", ()))) or NEVER
        self._span = re.compile(rf"(?<!\S)(?:{spans})$")
        words = {kind: any_of(told) for kind, told in data["unheeded"].items()}
        words["negation"] = any_of((*data["unheeded"]["negation"], *data["negations"]))
        if not self._is_unspaced:
            number = any_of((*numerals.values, *numerals.multipliers))
            counted = classes(data, numerals, any_of)["counted"]
            words["amount"] = rf"(?:{DIGITS} |{number}){counted}|{DIGITS} "
        self._words = {kind: self._compiled(told) for kind, told in words.items() if told}
        self._phrases = {
            kind: self._compiled("|".join(SLOT_NAME.sub("?:", expression(phrase)) for phrase in told))
            for kind, told in data.get("unheeded_phrases", {}).items()
        }

    def first(self, text: str, kinds: Iterable[str], others: Iterable[Heeding]) -> tuple[str, str] | None:
        """Return the first kind that occurs in a text, and its words; None if none does.

        `others`: those of other languages, whose kinds of `ANYWHERE` count too.
        """
        text, others = self._span.sub("", text), tuple(others)
        told = self._article.sub("", text)
        foreign = self._heeded.sub("", told)
        for kind in kinds:
            found = self._found(kind, told, text)
            for other in others if kind in ANYWHERE else ():
                found = found or other._found(kind, foreign, foreign)
            if found:
                return kind, found
        return None

    def _found(self, kind: str, told: str, text: str) -> str:
        """Return the words of a kind in a text; `told` is the text without articles.

        Empty if there are none.
        """
        places = ((self._words.get(kind), told), (self._phrases.get(kind), text))
        matches = (pattern.search(self._written(said)) for pattern, said in places if pattern)
        return next((match[0].strip() for match in matches if match), "")

    def _written(self, said: str) -> str:
        return said.replace(" ", "") if self._is_unspaced else said

    def _compiled(self, expression: str) -> re.Pattern[str]:
        if self._is_unspaced:
            return re.compile(expression.replace(" ", ""))
        return re.compile(rf"(?<!\S)(?:{expression})")
