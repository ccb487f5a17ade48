# SPDX-License-Identifier: Apache-2.0
"""Ranks the answers to a query: by meaning, and a little by words. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from outrider.memory.language.words import search_words, words_of

LEXICAL_WEIGHT = 0.2
FOREIGN_WEIGHT = 1.0
"""The weight of words that the embedding, which reads English, cannot distinguish; and of numbers."""
MAX_QUERY_WORDS = 24
# Words that do not say what a query is about.
FILLER_TEXT = """
    a about all am an and any are as at be been can could did do does for from get go had has have he
    her here him his how i if in into is it its leave left let me my no not of on or our out please put
    she so some tell that the their them then there they this to up us was we were what when where which
    who whose why will with would you your
"""
FILLERS = frozenset(FILLER_TEXT.split())


def content_words(text: str) -> tuple[str, ...]:
    """Returns the words of a query, any of which may match, in the form of `language.words`, each once."""
    return _telling(search_words(text))[:MAX_QUERY_WORDS]


def own_words(text: str) -> tuple[str, ...]:
    """Returns the words of which a record must contain all, in the form of `language.words`, each once."""
    return _telling(words_of(text))


def lexical_weight(words: Sequence[str]) -> float:
    """Returns the weight of matching words relative to meaning."""
    foreign = sum(not (word.isascii() and word.isalpha()) for word in words) / max(1, len(words))
    return LEXICAL_WEIGHT + foreign * (FOREIGN_WEIGHT - LEXICAL_WEIGHT)


def match_any(words: Sequence[str]) -> str:
    """Returns an FTS5 query for texts that contain any of the words."""
    return " OR ".join(f'"{word}"' for word in words)


def match_all(words: Sequence[str]) -> str:
    """Returns an FTS5 query for texts that contain all of the words."""
    return " AND ".join(f'"{word}"' for word in words)


def sign_code(embedding: np.ndarray[Any, Any]) -> bytes:
    """Returns the signs of an embedding, one bit each.

    Their Hamming distance orders roughly like the angle.
    """
    return np.packbits(embedding > 0.0, bitorder="little").tobytes()


def rarity(holding: int, records: int) -> float:
    """Returns BM25's weight (inverse document frequency) of a word that `holding` records contain."""
    return max(math.log((records - holding + 0.5) / (holding + 0.5)), 1e-6)


def hybrid_score(
    similarity: float, bm25: float, query_rarity: float, weight: float = LEXICAL_WEIGHT
) -> float:
    """Returns the cosine similarity, increased if words match too.

    `bm25` is the text's relevance, positive. `query_rarity` is the sum of `rarity` over all words of the
    query; a text of usual length reaches it with each of them once. So one matching word of many counts
    little.
    """
    share = bm25 / query_rarity if query_rarity > 0.0 else 0.0
    return similarity + weight * min(share, 1.0)


def _telling(words: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for word in words if word not in FILLERS))
