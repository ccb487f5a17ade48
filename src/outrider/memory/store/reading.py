# SPDX-License-Identifier: Apache-2.0
"""Reads a store: records by meaning and words, by place and kind, and the check of its file."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import numpy as np

from outrider.core.errors import MemoryStoreError
from outrider.core.ports import Embedder
from outrider.core.values import Place, Recalled, Record, Sighting
from outrider.memory.store.eviction import used_bytes
from outrider.memory.store.ranking import content_words, hybrid_score, lexical_weight, match_all, own_words
from outrider.memory.store.records import (
    ANY,
    COLUMNS,
    TO_FIND,
    TO_FORGET,
    RecordFilter,
    checked_text,
    distance_m,
    plain_record,
    record_of,
)
from outrider.memory.store.rows import embedded_passages, index_words
from outrider.memory.store.schema import as_damage, open_store, transaction, translated
from outrider.memory.store.search import (
    NEAREST_CODES,
    count_records,
    few_that_pass,
    matched_passage,
    matches_of,
    matching_texts,
    nearest_codes,
    where,
)

SAME_PLACE_M = 1.0


class MemoryReader:
    """An open file of records. Thread-safe.

    Every method raises MemoryStoreError if the disk, the file or an argument is at fault.
    """

    def __init__(self, path: Path, embedder: Embedder, key_file: Path | None) -> None:
        self.path = path
        self._embedder = embedder
        self._lock = threading.RLock()
        self._connection = open_store(path, key_file, embedder)

    def recall(self, query: str, limit: int = 3, only: RecordFilter = ANY) -> list[Recalled]:
        """Returns the records that best answer a query, or one of its passages: by meaning, less by words."""
        query = checked_text(query, TO_FIND)
        words = content_words(query)
        asked = np.stack([one.embedding for one in embedded_passages(query, self._embedder)])
        weight = lexical_weight(words)
        with self._reading() as connection:
            bm25, query_rarity = matching_texts(connection, words, only)
            ids = few_that_pass(connection, only) or nearest_codes(connection, asked, only)
            matches = matches_of(connection, {*ids, *bm25}, asked)
            scores = {
                record_id: hybrid_score(some[0].similarity, bm25.get(record_id, 0.0), query_rarity, weight)
                for record_id, some in matches.items()
            }
            # More than requested: records in the corners of the square around a place are dropped below.
            best = sorted(scores, key=lambda record_id: -scores[record_id])[: limit + NEAREST_CODES]
            records = {record.id: record for record in self._fetch(best)}
        ranked = [records[i] for i in best if i in records and only.holds_place(records[i].place)][:limit]
        return [
            Recalled(
                record,
                matches[record.id][0].similarity,
                scores[record.id],
                matched_passage(record.text, matches[record.id], words),
            )
            for record in ranked
        ]

    def sightings(self, what: str, home: str, limit: int = 3) -> list[Sighting]:
        """Returns where a thing was seen in a home, newest last.

        This query never returns a person's statement, whatever its visibility.
        """
        seen = self.seen(what, home, limit)
        return [Sighting(r.text, r.place.x, r.place.y) for r in reversed(seen) if r.place is not None]

    def seen(self, what: str, home: str | None = None, limit: int = 3) -> list[Record]:
        """Returns the shareable sightings of exactly this thing, newest first; of any home without `home`."""
        with self._reading() as connection:
            rows = connection.execute(
                f"SELECT {COLUMNS} FROM records WHERE told = 0 AND shareable = 1 AND text = ? "
                "AND (?2 IS NULL OR home = ?2) ORDER BY turn DESC LIMIT ?3",
                (what, home, limit),
            )
            return [record_of(row) for row in rows]

    def seen_of_kind(self, kind: str, home: str | None = None, limit: int = 3) -> list[Record]:
        """Returns the shareable sightings whose name ends in these words, newest first.

        As in `may_be`, a silver lamp is a lamp. Without `home` they are of any home.
        """
        with self._reading() as connection:
            rows = connection.execute(
                f"SELECT {COLUMNS} FROM records WHERE told = 0 AND shareable = 1 "
                "AND substr(' ' || text, -length(?1) - 1) = ' ' || ?1 "
                "AND (?2 IS NULL OR home = ?2) ORDER BY turn DESC LIMIT ?3",
                (kind, home, limit),
            )
            return [record_of(row) for row in rows]

    def seen_things(self, home: str) -> list[str]:
        """Returns the different things seen in a home."""
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT DISTINCT text FROM records WHERE told = 0 AND home = ?", (home,)
            )
            return [row[0] for row in rows]

    def newest(self, limit: int = 20, only: RecordFilter = ANY) -> list[Record]:
        """Returns the newest records first."""
        terms, values = only.conditions()
        with self._reading() as connection:
            rows = connection.execute(
                f"SELECT {COLUMNS} FROM records {where(terms)} ORDER BY turn DESC", values
            )
            records = (record_of(row) for row in rows)
            kept = (record for record in records if only.holds_place(record.place))
            return [record for record, _ in zip(kept, range(limit), strict=False)]

    def thumbnail(self, record_id: int) -> bytes:
        """Returns the JPEG of a record; empty if it has none."""
        with self._reading() as connection:
            found = connection.execute("SELECT thumbnail FROM records WHERE id = ?", (record_id,)).get
        return found or b""

    def count(self) -> int:
        """Returns the number of records."""
        with self._reading() as connection:
            return count_records(connection)

    def size_mb(self) -> float:
        """Returns the megabytes that the records occupy on the disk."""
        with self._reading() as connection:
            return used_bytes(connection) / 1e6

    def num_forgotten(self) -> int:
        """Returns how many records this file has ever forgotten, by any process.

        If the number has changed, records were deleted.
        """
        with self._reading() as connection:
            value = connection.execute("SELECT value FROM facts WHERE name = 'forgotten'").get
            with as_damage():
                return int(value or 0)

    def holding(self, words: str) -> set[int]:
        """Returns the ids of the records that contain all the words of a text, in any form.

        If the text has no significant word, these are the records that consist of it.
        """
        text = checked_text(words, TO_FORGET)
        wanted = own_words(text)
        with self._reading() as connection:
            if wanted:
                rows = connection.execute("SELECT rowid FROM texts WHERE texts MATCH ?", (match_all(wanted),))
            else:
                rows = connection.execute(
                    "SELECT id FROM records WHERE words = ?1 AND (?1 != '' OR text = ?2)",
                    (index_words(text), text),
                )
            return {row[0] for row in rows}

    def export(self) -> Iterator[dict[str, Any]]:
        """Yields every record in plain values for JSON lines, oldest first; the thumbnail in base64."""
        with self._reading() as connection:
            ids = [row[0] for row in connection.execute("SELECT id FROM records ORDER BY id")]
        for record_id in ids:
            for record in self._fetch([record_id]):
                with self._reading():
                    plain = plain_record(record, self.thumbnail(record_id))
                yield plain

    def verify(self) -> None:
        """Check that the file is intact and its three indexes agree. Raises MemoryStoreError if not.

        The check locks out writers: a half-written record would look like damage.
        """
        with self._reading() as connection, transaction(connection):
            connection.execute("INSERT INTO texts(texts, rank) VALUES ('integrity-check', 1)")
            damage = connection.pragma("quick_check")
            if damage != "ok":
                raise MemoryStoreError(f"{self.path} is damaged ({damage}): move it away")
            tables = ("records", "passages", "codes")
            counts = [connection.execute(f"SELECT count(*) FROM {table}").get for table in tables]
            counts.append(count_records(connection))
            counts.append(connection.execute("SELECT count(DISTINCT record) FROM passages").get)
        if counts[0] != counts[3] or counts[0] != counts[4] or counts[1] != counts[2]:
            raise MemoryStoreError(f"{self.path} is damaged ({counts} records in its parts): move it away")

    @contextlib.contextmanager
    def _reading(self) -> Iterator[apsw.Connection]:
        with self._lock, translated(self.path):
            yield self._connection

    def _seen_at(self, what: str, place: Place) -> int | None:
        near = [r for r in self.seen(what, place.home, limit=1000) if r.place is not None]
        here = [r for r in near if r.place is not None and distance_m(r.place, place) <= SAME_PLACE_M]
        return here[0].id if here else None

    def _fetch(self, ids: list[int]) -> list[Record]:
        """Returns records by their ids, in no particular order, without those that are gone by now."""
        with self._reading() as connection:
            marks = ",".join("?" * len(ids))
            rows = connection.execute(f"SELECT {COLUMNS} FROM records WHERE id IN ({marks})", tuple(ids))
            return [record_of(row) for row in rows]
