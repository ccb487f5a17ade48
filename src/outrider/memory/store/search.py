# SPDX-License-Identifier: Apache-2.0
"""Searches the store's indexes on an open connection: by place and kind, by sign codes, by words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index
from typing import Any, NamedTuple

import apsw
import numpy as np

from outrider.memory.language.words import holds_all
from outrider.memory.store.ranking import match_any, rarity, sign_code
from outrider.memory.store.records import RecordFilter
from outrider.memory.store.schema import as_damage

NEAREST_CODES = 64
BEST_TEXTS = 32
FEW_RECORDS = 2000
COMMON_WORD_RECORDS = 2000


def where(terms: list[str]) -> str:
    """Returns a WHERE clause that requires all terms; empty without terms."""
    return f"WHERE {' AND '.join(terms)}" if terms else ""


def few_that_pass(connection: apsw.Connection, only: RecordFilter) -> list[int]:
    """Returns all records that pass a filter on place or kind; none if they are many, or it has neither."""
    if only.near is None and only.kind is None:
        return []
    terms, values = only.conditions()
    rows = connection.execute(
        f"SELECT id FROM records {where(terms)} LIMIT :most", {**values, "most": FEW_RECORDS + 1}
    )
    ids = [row[0] for row in rows]
    return ids if len(ids) <= FEW_RECORDS else []


def nearest_codes(connection: apsw.Connection, asked: np.ndarray[Any, Any], only: RecordFilter) -> list[int]:
    """Returns the records that pass a filter and whose codes are nearest to one of the embeddings.

    `asked` has the shape (passages of the query, size).
    """
    terms, values = only.conditions()
    query = f"SELECT id FROM codes {where(['code MATCH vec_bit(:code)', 'k = :k', *terms])}"
    ids: list[int] = []
    for embedding in asked:
        near = connection.execute(query, values | {"code": sign_code(embedding), "k": NEAREST_CODES})
        ids += [row[0] for row in near]
    rows = connection.execute(f"SELECT DISTINCT record FROM passages WHERE id IN ({_marks(ids)})", tuple(ids))
    return [row[0] for row in rows]


def matching_texts(
    connection: apsw.Connection, words: tuple[str, ...], only: RecordFilter
) -> tuple[dict[int, float], float]:
    """Returns the BM25 relevance by id of texts with one of the words, and the summed rarity of the words.

    Very common words do not count, so that the time of a query does not grow with the number of records.
    """
    holding = {word: _count_holding(connection, word) for word in words}
    records = count_records(connection)
    telling = [word for word, count in holding.items() if count < COMMON_WORD_RECORDS]
    with as_damage():  # where a count exceeds the number of all records
        query_rarity = sum(rarity(holding[word], records) for word in telling)
    if not any(holding[word] for word in telling):
        return {}, query_rarity
    terms, values = only.conditions()
    values |= {"words": match_any(telling), "limit": BEST_TEXTS}
    rows = connection.execute(
        "SELECT records.id, -rank FROM texts CROSS JOIN records ON records.id = texts.rowid "
        f"{where(['texts MATCH :words', *terms])} ORDER BY rank LIMIT :limit",
        values,
    )
    return dict(rows), query_rarity


def _count_holding(connection: apsw.Connection, word: str) -> int:
    """Returns how many records contain a word; counting stops at COMMON_WORD_RECORDS."""
    found = connection.execute(
        "SELECT count(*) FROM (SELECT 1 FROM texts WHERE texts MATCH ? LIMIT ?)",
        (match_any([word]), COMMON_WORD_RECORDS),
    ).get
    return int(found)


class Match(NamedTuple):
    """A passage of a record: its cosine similarity to the query, and its start and stop."""

    similarity: float
    start: int
    stop: int


def matches_of(
    connection: apsw.Connection, ids: Iterable[int], asked: np.ndarray[Any, Any]
) -> dict[int, list[Match]]:
    """Returns the passages of each record by id, the most similar first.

    `asked` are the query's embeddings (passages, size); the most similar one counts.
    """
    wanted = tuple(ids)
    found = connection.execute(
        f"SELECT record, start, stop, embedding FROM passages WHERE record IN ({_marks(wanted)})", wanted
    )
    rows: list[Any] = found.fetchall()
    with as_damage():
        halves = np.frombuffer(b"".join(row[3] for row in rows), dtype=np.float16)
        vectors = halves.astype(np.float32).reshape(len(rows), asked.shape[1])
        spans = [(index(row[1]), index(row[2])) for row in rows]
    matches: dict[int, list[Match]] = {}
    similarities = (vectors @ asked.T).max(axis=1, initial=-1.0).tolist()
    for row, span, similarity in zip(rows, spans, similarities, strict=True):
        matches.setdefault(row[0], []).append(Match(similarity, *span))
    return {record_id: sorted(some, reverse=True) for record_id, some in matches.items()}


def matched_passage(text: str, matches: Sequence[Match], words: Sequence[str]) -> str:
    """Returns the passage that answers best: the one with most of the words, then the most similar."""
    parts = [text[match.start : match.stop] for match in matches]
    return max(parts, key=lambda part: sum(holds_all(part, [word]) for word in words))


def _marks(values: Sequence[object]) -> str:
    return ",".join("?" * len(values))


@as_damage()
def count_records(connection: apsw.Connection) -> int:
    """Returns the number of records. Triggers maintain it, because counting takes long."""
    return int(connection.execute("SELECT records FROM totals").get)
