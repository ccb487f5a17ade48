# SPDX-License-Identifier: Apache-2.0
"""Finds what no motion can obey, in one language: single words, and phrases of words by their classes.

The words are those of `unsupported` in a language's file, the phrases those of `phrases/unsupported_*.yaml`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from outrider.core.language.words.amounts import DIGITS, Numerals

ANYWHERE = ("negation", "condition", "order", "harm", "beyond", "takeback", "wish")
"""Kinds of words that no order may have."""
UNSUPPORTED = (*ANYWHERE, "amount", "order_in_ways", "limit_in_ways", "task")
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
    unsupported = data["unsupported"]
    numbers = (*numerals.values, *numerals.multipliers, *unsupported.get("dozens", ()))
    expressions = {
        "article": any_of(data["articles"]),
        "number": f"{DIGITS} |{any_of(numbers)}",
        "number_words": f"(?:{any_of(numerals.words)})*",
        "counted": any_of((*unsupported.get("counted", ()), *unsupported.get("limit_in_ways", ()))) or NEVER,
        "begin": "^",
        "end": "$",
    }
    own_classes = data.get("classes", {}).items()
    expressions |= {name: words if isinstance(words, str) else any_of(words) for name, words in own_classes}
    return {
        name: f"(?:{_CLASS.sub(lambda match: expressions[match[1]], expression)})"
        for name, expression in expressions.items()
    }


class UnsupportedWords:
    """Finds what no motion can obey.

    `any_of` and `expression` make expressions from words and from a phrase.
    """

    def __init__(
        self, data: Mapping[str, Any], numerals: Numerals, any_of: AnyOf, expression: Callable[[str], str]
    ) -> None:
        self._is_unspaced = bool(data.get("unspaced"))
        self._article = self._compiled(any_of(data["articles"]))
        self._supported = self._compiled(any_of(data.get("supported", ())) or NEVER)
        spans = "|".join(map(expression, data.get("spans", ()))) or NEVER
        self._span = re.compile(rf"(?<!\S)(?:{spans})$")
        words = {kind: any_of(entries) for kind, entries in data["unsupported"].items()}
        words["negation"] = any_of((*data["unsupported"]["negation"], *data["negations"]))
        if not self._is_unspaced:
            number = any_of((*numerals.values, *numerals.multipliers))
            counted = classes(data, numerals, any_of)["counted"]
            words["amount"] = rf"(?:{DIGITS} |{number}){counted}|{DIGITS} "
        self._words = {kind: self._compiled(entries) for kind, entries in words.items() if entries}
        self._phrases = {
            kind: self._compiled("|".join(SLOT_NAME.sub("?:", expression(phrase)) for phrase in entries))
            for kind, entries in data.get("unsupported_phrases", {}).items()
        }

    def first(
        self, text: str, kinds: Iterable[str], other_languages: Iterable[UnsupportedWords]
    ) -> tuple[str, str] | None:
        """Return the first kind that occurs in a text, and its words; None if none does.

        `other_languages`: those of other languages, whose kinds of `ANYWHERE` count too.
        """
        text, other_languages = self._span.sub("", text), tuple(other_languages)
        without_articles = self._article.sub("", text)
        foreign = self._supported.sub("", without_articles)
        for kind in kinds:
            found = self._found(kind, without_articles, text)
            for other in other_languages if kind in ANYWHERE else ():
                found = found or other._found(kind, foreign, foreign)
            if found:
                return kind, found
        return None

    def _found(self, kind: str, without_articles: str, text: str) -> str:
        """Return the words of a kind in a text; `without_articles` is the text without articles.

        Empty if there are none.
        """
        searches = ((self._words.get(kind), without_articles), (self._phrases.get(kind), text))
        matches = (pattern.search(self._written(searched)) for pattern, searched in searches if pattern)
        return next((match[0].strip() for match in matches if match), "")

    def _written(self, text: str) -> str:
        return text.replace(" ", "") if self._is_unspaced else text

    def _compiled(self, expression: str) -> re.Pattern[str]:
        if self._is_unspaced:
            return re.compile(expression.replace(" ", ""))
        return re.compile(rf"(?<!\S)(?:{expression})")
