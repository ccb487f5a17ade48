# SPDX-License-Identifier: Apache-2.0
"""Migrates stores of earlier versions to the present one, in one transaction."""

from __future__ import annotations

from typing import Any

import apsw
import numpy as np

from outrider.core.ports import Embedder
from outrider.core.values import Place
from outrider.memory.language.passages import passage_spans
from outrider.memory.store.ageing import LONGEST_STEP_S, Passed
from outrider.memory.store.rows import (
    NewRecord,
    Passage,
    embedded_passages,
    index_words,
    insert_record,
    remove_words,
)
from outrider.memory.store.schema import FORGOTTEN, SCHEMA_VERSION, create_tables, transaction

_OLD = "texts", "codes", "totals", "records"
_COLUMNS = "id, text, told, shareable, created_s, updated_s, x, y, home, embedding, thumbnail"


def migrate(connection: apsw.Connection, embedder: Embedder) -> None:
    """Migrate a store to this version.

    Version 1 embedded only the first words of a text. The index of version 2 unified fewer spellings of a
    word.
    """
    with transaction(connection):
        version = connection.pragma("user_version")
        if version == 1:
            _rewrite(connection, embedder)
        elif version == 2:
            _index_anew(connection)
            connection.pragma("user_version", SCHEMA_VERSION)


def _index_anew(connection: apsw.Connection) -> None:
    rows: list[Any] = connection.execute("SELECT id, text, words FROM records").fetchall()
    for record_id, text, old in rows:
        new = old if text.isascii() else index_words(text)
        if new != old:
            remove_words(connection, record_id, old)
            connection.execute("UPDATE records SET words = ? WHERE id = ?", (new, record_id))
            connection.execute("INSERT INTO texts (rowid, words) VALUES (?, ?)", (record_id, new))


def _rewrite(connection: apsw.Connection, embedder: Embedder) -> None:
    """Rewrite all tables.

    Time is counted from one record's stamp to the next, if plausible (`store.ageing`).
    """
    rows: list[Any] = connection.execute(f"SELECT {_COLUMNS} FROM records ORDER BY id").fetchall()
    last_id = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'records'").get or 0
    for table in _OLD:
        connection.execute(f"DROP TABLE {table}")
    create_tables(connection, embedder.size)
    passed = Passed(rows[0][4] if rows else 0.0)
    for row in rows:
        passed = passed.at(row[4], 2.0 * LONGEST_STEP_S)
        insert_record(connection, _record(row, embedder), passed)
    connection.execute("DELETE FROM sqlite_sequence WHERE name = 'records'")
    connection.execute("INSERT INTO sqlite_sequence VALUES ('records', ?)", (last_id,))
    connection.execute("UPDATE state SET lived_s = ?, unerased = ?", (passed.lived_s, FORGOTTEN))


def _record(row: tuple[Any, ...], embedder: Embedder) -> NewRecord:
    record_id, text, told, shareable, created_s, updated_s, x, y, home, embedding, thumbnail = row
    if len(passage_spans(text)) == 1:
        passages = [Passage(0, len(text), np.frombuffer(embedding, dtype=np.float32))]
    else:
        passages = embedded_passages(text, embedder)
    place = None if x is None else Place(x, y, home)
    return NewRecord(
        text, told, shareable, created_s, updated_s, place, thumbnail or b"", passages, record_id=record_id
    )
