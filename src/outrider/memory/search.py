"""Searching the store's indexes, on an open connection: by place and kind, by sign codes, by words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import apsw
import numpy as np

from outrider.memory.ranking import match_any, rarity, sign_code
from outrider.memory.records import RecordFilter

NEAREST_CODES = 64
BEST_TEXTS = 32
FEW_RECORDS = 2000
COMMON_WORD_RECORDS = 2000


def where(terms: list[str]) -> str:
    """A WHERE clause that all terms must hold for; empty without terms."""
    return f"WHERE {' AND '.join(terms)}" if terms else ""


def few_that_pass(connection: apsw.Connection, only: RecordFilter) -> list[int]:
    """All records that a filter on place or kind lets pass; none where they are many, or it has neither."""
    if only.near is None and only.kind is None:
        return []
    terms, values = only.conditions()
    rows = connection.execute(
        f"SELECT id FROM records {where(terms)} LIMIT :most", {**values, "most": FEW_RECORDS + 1}
    )
    ids = [row[0] for row in rows]
    return ids if len(ids) <= FEW_RECORDS else []


def nearest_codes(
    connection: apsw.Connection, embedding: np.ndarray[Any, Any], only: RecordFilter
) -> list[int]:
    """The records that a filter lets pass whose sign codes are nearest to an embedding's."""
    terms, values = only.conditions()
    values |= {"code": sign_code(embedding), "k": NEAREST_CODES}
    query = f"SELECT id FROM codes {where(['code MATCH vec_bit(:code)', 'k = :k', *terms])}"
    return [row[0] for row in connection.execute(query, values)]


def matching_texts(
    connection: apsw.Connection, words: tuple[str, ...], only: RecordFilter
) -> tuple[dict[int, float], float]:
    """BM25 relevance by id of the texts that hold one of the words, and the summed rarity of the words.

    Very common words count for nothing: so the time for a query does not grow with the number of records.
    """
    holding = {word: _count_holding(connection, word) for word in words}
    records = count_records(connection)
    telling = [word for word, count in holding.items() if count < COMMON_WORD_RECORDS]
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
    """How many records hold a word; not counted further than that it is common."""
    found = connection.execute(
        "SELECT count(*) FROM (SELECT 1 FROM texts WHERE texts MATCH ? LIMIT ?)",
        (match_any([word]), COMMON_WORD_RECORDS),
    ).get
    return int(found)


def similarities_of(
    connection: apsw.Connection, ids: Iterable[int], embedding: np.ndarray[Any, Any]
) -> dict[int, float]:
    """Cosine similarity of each record's text to the query, by id."""
    wanted = tuple(ids)
    marks = ",".join("?" * len(wanted))
    found = connection.execute(f"SELECT id, embedding FROM records WHERE id IN ({marks})", wanted)
    rows: list[Any] = found.fetchall()
    vectors = np.frombuffer(b"".join(row[1] for row in rows), dtype=np.float32).reshape(-1, embedding.size)
    return dict(zip((row[0] for row in rows), (vectors @ embedding).tolist(), strict=True))


def count_records(connection: apsw.Connection) -> int:
    """All records; kept by triggers, for counting them takes long."""
    return int(connection.execute("SELECT records FROM totals").get)
