# SPDX-License-Identifier: Apache-2.0
"""Orders to stop in languages in which nothing else is understood: "ferma", "стой", "止まれ"."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

import yaml  # type: ignore[import-untyped]

from outrider.core.language.words.signs import plain, visible

# The scripts that are written without blanks between words: Thai, Japanese, Chinese.
_UNSPACED = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u4e00-\u9fff]")


def with_other_stops(sentence: str) -> str:
    """Return a sentence in which each order to stop in another language is replaced by "stop".

    Without such an order the sentence is returned as it is; with one, in plain letters.
    """
    letters = plain(sentence)
    replaced = _other_stops().sub(" stop ", letters)
    return sentence if replaced == letters else replaced


@cache
def _other_stops() -> re.Pattern[str]:
    """Return an expression for the orders in `phrases/other_stops.yaml`, the longest first."""
    file = files(__package__) / "phrases" / "other_stops.yaml"
    languages = yaml.safe_load(file.read_text(encoding="utf-8")).values()
    orders = {plain(visible(order)) for orders in languages for order in orders}
    return re.compile("|".join(map(_expression, sorted(orders, key=len, reverse=True))))


def _expression(order: str) -> str:
    words = r"\s+".join(map(re.escape, order.split()))
    return words if _UNSPACED.search(order) else rf"(?<!\w){words}(?!\w)"
