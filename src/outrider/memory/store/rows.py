# SPDX-License-Identifier: Apache-2.0
"""Writes and deletes a record's rows in the store's tables and indexes, on an open connection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import apsw
import numpy as np

from outrider.core.ports import Embedder
from outrider.core.values import Place
from outrider.memory.language.passages import passage_spans
from outrider.memory.language.words import words_of
from outrider.memory.store.ageing import Passed
from outrider.memory.store.ranking import sign_code
from outrider.memory.store.schema import NOWHERE, as_damage

MAX_ID_BITS = 63
"""SQLite's ids have no more bits, and it refuses larger numbers."""


@dataclass(frozen=True)
class Passage:
    """A part of a text, from `start` to `stop`, with its embedding."""

    start: int
    stop: int
    embedding: np.ndarray[Any, Any]


@dataclass(frozen=True)
class NewRecord:
    """The values of a record to write. `record_id` is None for the next free id."""

    text: str
    told: bool
    shareable: bool
    created_s: float
    updated_s: float
    place: Place | None
    thumbnail: bytes
    passages: Sequence[Passage]
    record_id: int | None = None


def embedded_passages(text: str, embedder: Embedder) -> list[Passage]:
    """Returns the passages of a text, each with its embedding."""
    return [Passage(start, stop, embedder.embed(text[start:stop])) for start, stop in passage_spans(text)]


def index_words(text: str) -> str:
    """Returns a text's words in the form of the word index."""
    return " ".join(words_of(text))


def insert_record(connection: apsw.Connection, new: NewRecord, passed: Passed) -> int:
    """Write a record into all tables. Returns its id."""
    place = new.place
    spot = (place.x, place.y, place.home) if place else (None, None, "")
    words = index_words(new.text)
    connection.execute(
        "INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(new.record_id, new.text, words, int(new.told), int(new.shareable)),
            *(new.created_s, new.updated_s, next_turn(connection), passed.lived_s),
            *spot,
            new.thumbnail or None,
        ),
    )
    record_id = connection.last_insert_rowid()
    connection.execute("INSERT INTO texts (rowid, words) VALUES (?, ?)", (record_id, words))
    for passage in new.passages:
        _insert_passage(connection, record_id, new, passage)
    return record_id


def _insert_passage(connection: apsw.Connection, record_id: int, new: NewRecord, passage: Passage) -> None:
    connection.execute(
        "INSERT INTO passages VALUES (NULL, ?, ?, ?, ?)",
        (record_id, passage.start, passage.stop, passage.embedding.astype(np.float16).tobytes()),
    )
    x, y = (NOWHERE, NOWHERE) if new.place is None else (float(new.place.x), float(new.place.y))
    home = new.place.home if new.place else ""
    values = (int(new.told), int(new.shareable), float(new.updated_s), x, y, home)
    connection.execute(
        "INSERT INTO codes VALUES (?, vec_bit(?), ?, ?, ?, ?, ?, ?)",
        (connection.last_insert_rowid(), sign_code(passage.embedding), *values),
    )


def see_again(
    connection: apsw.Connection,
    record_id: int,
    place: Place,
    updated_s: float,
    passed: Passed,
    thumbnail: bytes,
) -> None:
    """Renew a sighting: its time and place, and its picture if there is a new one."""
    connection.execute(
        "UPDATE records SET updated_s = ?, turn = ?, lived_s = ?, x = ?, y = ?, "
        "thumbnail = coalesce(?, thumbnail) WHERE id = ?",
        (
            *(updated_s, next_turn(connection), passed.lived_s, place.x, place.y),
            *(thumbnail or None, record_id),
        ),
    )
    for passage_id in passage_ids(connection, record_id):
        connection.execute(
            "UPDATE codes SET updated_s = ?, x = ?, y = ? WHERE id = ?",
            (float(updated_s), float(place.x), float(place.y), passage_id),
        )


def remove_words(connection: apsw.Connection, record_id: int, words: str) -> None:
    """Remove a record's words from the index; they must be those it was indexed with."""
    connection.execute("INSERT INTO texts(texts, rowid, words) VALUES ('delete', ?, ?)", (record_id, words))


def delete_record(connection: apsw.Connection, record_id: int) -> bool:
    """Delete a record from all tables. Returns whether it existed."""
    if record_id.bit_length() > MAX_ID_BITS:
        return False
    words = connection.execute("SELECT words FROM records WHERE id = ?", (record_id,)).get
    if words is None:
        return False
    remove_words(connection, record_id, words)
    for passage_id in passage_ids(connection, record_id):
        connection.execute("DELETE FROM codes WHERE id = ?", (passage_id,))
    connection.execute("DELETE FROM passages WHERE record = ?", (record_id,))
    connection.execute("DELETE FROM records WHERE id = ?", (record_id,))
    return True


def passage_ids(connection: apsw.Connection, record_id: int) -> list[int]:
    """Returns the ids of a record's passages."""
    rows = connection.execute("SELECT id FROM passages WHERE record = ?", (record_id,))
    return [row[0] for row in rows]


@as_damage()
def next_turn(connection: apsw.Connection) -> int:
    """Returns a new number, larger than all before: the order in which records were made or renewed."""
    return int(connection.execute("UPDATE state SET turn = turn + 1 RETURNING turn").get)


def delete_records(connection: apsw.Connection, ids: list[int], why: int) -> int:
    """Delete records from all indexes, as EVICTED or FORGOTTEN. Returns how many existed."""
    deleted = sum(delete_record(connection, record_id) for record_id in ids)
    if deleted:
        connection.execute(
            "INSERT INTO facts VALUES ('forgotten', ?1) "
            "ON CONFLICT (name) DO UPDATE SET value = CAST(value AS INTEGER) + ?1",
            (deleted,),
        )
        connection.execute("UPDATE state SET unerased = max(unerased, ?)", (why,))
    return deleted
