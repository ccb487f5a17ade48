# SPDX-License-Identifier: Apache-2.0
"""The robot's memory: records with place, time and visibility, found again by meaning and by words.

One SQLite file holds the records, a full-text index and a vector index; they change in one transaction.
A search scans the vectors' sign bits first (48 bytes a passage), then ranks the nearest by their exact
cosine; where a filter leaves few records, it ranks them all. A long text has a vector for each passage.

What is forgotten is overwritten in the file, and the log is emptied. While another process reads an older
state of the store SQLite can do neither: `forget` then says so. A store that has limits, or could not erase,
tries again every ERASE_PERIOD_S, and any at the next record and opening. What went by age or number is erased
EVICTED_ERASE_S after it at the latest, or at the next opening.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw

from outrider.core.errors import MemoryStoreError, NotErasedError
from outrider.core.ports import Embedder
from outrider.core.values import Place, Recalled, Record, RecordKind, Sighting, Visibility
from outrider.memory.store import schema
from outrider.memory.store.ageing import DAY_S, Passed
from outrider.memory.store.migration import migrate
from outrider.memory.store.ranking import content_words, hybrid_score, lexical_weight, match_all, own_words
from outrider.memory.store.records import (
    ANY,
    COLUMNS,
    RecordFilter,
    check_place,
    check_thumbnail,
    checked_text,
    distance_m,
    plain_record,
    record_of,
)
from outrider.memory.store.rows import NewRecord, delete_record, embedded_passages, insert_record, see_again
from outrider.memory.store.schema import EVICTED, FORGOTTEN, erase, open_store, transaction, translated
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

log = logging.getLogger(__name__)

SAME_PLACE_M = 1.0
EVICTED_SHARE = 0.01
ERASE_PERIOD_S = 2.0
EVICTED_ERASE_S = 600.0


@dataclass(frozen=True)
class StoreLimits:
    """When records are forgotten: the oldest sightings first, what was told last."""

    max_records: int = 50_000
    max_mb: float = 512.0
    max_age_days: float = 365.0


class MemoryStore:
    """A store that is open. Thread-safe; other processes may have it open as well.

    Every method raises MemoryStoreError where the disk, the file or what it is given is at fault. A record is
    on the disk once the call that made it has returned. `limits` are kept at the opening and at every new
    record; without them this one forgets nothing, and leaves that to whoever has the store open with them.
    """

    def __init__(
        self,
        path: Path,
        embedder: Embedder,
        *,
        limits: StoreLimits | None = None,
        key_file: Path | None = None,
    ) -> None:
        self.path = path
        self._embedder = embedder
        self._limits = limits
        self._lock = threading.RLock()
        self._closing = threading.Event()
        self._eraser: threading.Thread | None = None
        self._connection = open_store(path, key_file, embedder)
        try:
            self._begin()
        except BaseException:
            self._connection.close()
            raise

    def _begin(self) -> None:
        """Take over an older store, keep within the limits, and erase what an earlier opening could not."""
        with translated(self.path):
            migrate(self._connection, self._embedder)
        if self._limits is not None:
            with self._writing() as connection:
                self._passed(connection, time.time())
                self._evict(connection)
        if not self._try_to_erase(EVICTED) or self._limits is not None:
            self._keep_erasing()

    def close(self) -> None:
        """Waits for an erasure in progress and closes the database."""
        self._closing.set()
        if self._eraser is not None:
            self._eraser.join()
        with self._lock:
            self._connection.close()

    def __enter__(self) -> MemoryStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(
        self,
        text: str,
        *,
        kind: RecordKind = RecordKind.TOLD,
        visibility: Visibility = Visibility.PRIVATE,
        place: Place | None = None,
        thumbnail: bytes = b"",
        time_s: float | None = None,
    ) -> Record:
        """Remember a text, as said or seen at `time_s` (now by default)."""
        text = checked_text(text)
        check_thumbnail(thumbnail)
        check_place(place)
        now_s = time.time() if time_s is None else time_s
        told, shareable = kind is RecordKind.TOLD, visibility is Visibility.SHAREABLE
        passages = embedded_passages(text, self._embedder)
        new = NewRecord(text, told, shareable, now_s, now_s, place, thumbnail, passages)
        with self._writing() as connection:
            record_id = insert_record(connection, new, self._passed(connection, now_s))
            self._evict(connection)
        self._try_to_erase(FORGOTTEN)
        return Record(record_id, text, kind, visibility, now_s, now_s, place, bool(thumbnail))

    @contextlib.contextmanager
    def batch(self) -> Iterator[None]:
        """What is written inside is one write: on the disk together, at the end, or not at all."""
        with self._writing():
            yield
        self._try_to_erase(FORGOTTEN)

    def see(self, what: str, place: Place, *, time_s: float | None = None, thumbnail: bytes = b"") -> Record:
        """Remember a sighting, which is shareable. What is known at this place is seen again, not anew."""
        what = checked_text(what)
        check_thumbnail(thumbnail)
        check_place(place)
        now_s = time.time() if time_s is None else time_s
        known = self._seen_at(what, place)
        if known is None:
            seen = {"kind": RecordKind.SEEN, "visibility": Visibility.SHAREABLE}
            return self.add(what, **seen, place=place, thumbnail=thumbnail, time_s=now_s)  # type: ignore[arg-type]
        with self._writing() as connection:
            see_again(connection, known, place, now_s, self._passed(connection, now_s), thumbnail)
        self._try_to_erase(FORGOTTEN)
        return self._fetch([known])[0]

    def recall(self, query: str, limit: int = 3, only: RecordFilter = ANY) -> list[Recalled]:
        """The records that answer a query best, by meaning and a little by words, best first."""
        query = checked_text(query)
        embedding, words = self._embedder.embed(query), content_words(query)
        weight = lexical_weight(words)
        with self._reading() as connection:
            bm25, query_rarity = matching_texts(connection, words, only)
            ids = few_that_pass(connection, only) or nearest_codes(connection, embedding, only)
            matches = matches_of(connection, {*ids, *bm25}, embedding)
            scores = {
                record_id: hybrid_score(some[0].similarity, bm25.get(record_id, 0.0), query_rarity, weight)
                for record_id, some in matches.items()
            }
            # More than asked for: those in the corners of the square around a place are still to be dropped.
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
        """Where a thing was seen in a home, newest last. Implements `core.ports.SharedMemory`.

        What people say is out of reach of this query, whatever its visibility.
        """
        seen = self.seen(what, home, limit)
        return [Sighting(r.text, r.place.x, r.place.y) for r in reversed(seen) if r.place is not None]

    def seen(self, what: str, home: str | None = None, limit: int = 3) -> list[Record]:
        """The shareable sightings of exactly this thing, newest first; of any home where none is given."""
        with self._reading() as connection:
            rows = connection.execute(
                f"SELECT {COLUMNS} FROM records WHERE told = 0 AND shareable = 1 AND text = ? "
                "AND (?2 IS NULL OR home = ?2) ORDER BY turn DESC LIMIT ?3",
                (what, home, limit),
            )
            return [record_of(row) for row in rows]

    def seen_of_kind(self, kind: str, limit: int = 3) -> list[Record]:
        """The shareable sightings of any home whose name ends in these words, newest first: a silver lamp is
        a lamp.
        """
        with self._reading() as connection:
            rows = connection.execute(
                f"SELECT {COLUMNS} FROM records WHERE told = 0 AND shareable = 1 "
                "AND substr(text, -length(?1) - 1) = ' ' || ?1 ORDER BY turn DESC LIMIT ?2",
                (kind, limit),
            )
            return [record_of(row) for row in rows]

    def seen_things(self, home: str) -> list[str]:
        """The different things seen in a home."""
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT DISTINCT text FROM records WHERE told = 0 AND home = ?", (home,)
            )
            return [row[0] for row in rows]

    def newest(self, limit: int = 20, only: RecordFilter = ANY) -> list[Record]:
        """The newest records first."""
        terms, values = only.conditions()
        with self._reading() as connection:
            rows = connection.execute(
                f"SELECT {COLUMNS} FROM records {where(terms)} ORDER BY turn DESC", values
            )
            records = (record_of(row) for row in rows)
            kept = (record for record in records if only.holds_place(record.place))
            return [record for record, _ in zip(kept, range(limit), strict=False)]

    def thumbnail(self, record_id: int) -> bytes:
        """The JPEG of a record; empty where it has none."""
        with self._reading() as connection:
            found = connection.execute("SELECT thumbnail FROM records WHERE id = ?", (record_id,)).get
        return found or b""

    def count(self) -> int:
        """Returns the number of records."""
        with self._reading() as connection:
            return count_records(connection)

    def size_mb(self) -> float:
        """What the records take of the disk."""
        with self._reading() as connection:
            return _used_bytes(connection) / 1e6

    def forget(self, ids: Iterable[int]) -> int:
        """Forget records for good, in the file too; how many there were.

        Raises NotErasedError where they are forgotten, but another process keeps their bytes in the file.
        """
        with self._writing() as connection:
            forgotten = _delete(connection, list(ids), FORGOTTEN)
        if not self._erase(schema.BUSY_TIMEOUT_MS):
            self._keep_erasing()
            raise NotErasedError(self.path, forgotten)
        return forgotten

    def num_forgotten(self) -> int:
        """How many records this file has ever forgotten, by whom ever: a new number means that some went."""
        with self._reading() as connection:
            return int(connection.execute("SELECT value FROM facts WHERE name = 'forgotten'").get or 0)

    def forget_matching(self, words: str) -> int:
        """Forget every record that holds all the words of a text; MemoryStoreError where it has none."""
        if not own_words(checked_text(words)):
            raise MemoryStoreError(f"{words!r} holds no word to go by: give one of what is to be forgotten")
        return self.forget(self.holding(words))

    def holding(self, words: str) -> set[int]:
        """The ids of the records that hold all the words of a text, in any form; none where it has none."""
        wanted = own_words(checked_text(words))
        if not wanted:
            return set()
        with self._reading() as connection:
            rows = connection.execute("SELECT rowid FROM texts WHERE texts MATCH ?", (match_all(wanted),))
            return {row[0] for row in rows}

    def forget_all(self) -> int:
        """Deletes all records; returns their number."""
        with self._reading() as connection:
            ids = [row[0] for row in connection.execute("SELECT id FROM records")]
        return self.forget(ids)

    def export(self) -> Iterator[dict[str, Any]]:
        """Every record in plain values, oldest first, for JSON lines; the thumbnail in base64."""
        with self._reading() as connection:
            ids = [row[0] for row in connection.execute("SELECT id FROM records ORDER BY id")]
        for record_id in ids:
            for record in self._fetch([record_id]):
                yield plain_record(record, self.thumbnail(record_id))

    def verify(self) -> None:
        """Check the file and that its three indexes agree; MemoryStoreError where they do not."""
        with self._reading() as connection:
            damage = connection.pragma("quick_check")
            if damage != "ok":
                raise MemoryStoreError(f"{self.path} is damaged ({damage}): move it away")
            connection.execute("INSERT INTO texts(texts, rank) VALUES ('integrity-check', 1)")
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

    @contextlib.contextmanager
    def _writing(self) -> Iterator[apsw.Connection]:
        """One transaction, which holds the store against other processes from its beginning."""
        with self._lock, translated(self.path), transaction(self._connection):
            yield self._connection

    def _seen_at(self, what: str, place: Place) -> int | None:
        near = [r for r in self.seen(what, place.home, limit=1000) if r.place is not None]
        here = [r for r in near if r.place is not None and distance_m(r.place, place) <= SAME_PLACE_M]
        return here[0].id if here else None

    def _fetch(self, ids: list[int]) -> list[Record]:
        """Records by their ids, in no order; those that are gone by now are left out."""
        with self._reading() as connection:
            marks = ",".join("?" * len(ids))
            rows = connection.execute(f"SELECT {COLUMNS} FROM records WHERE id IN ({marks})", tuple(ids))
            return [record_of(row) for row in rows]

    def _passed(self, connection: apsw.Connection, clock_s: float) -> Passed:
        """How much time has passed for the records. Who has no limits counts none."""
        last_s, lived_s = connection.execute("SELECT clock_s, lived_s FROM state").get
        passed = Passed(clock_s if last_s is None else last_s, lived_s)
        if self._limits is None:
            return passed
        passed = passed.at(clock_s, self._limits.max_age_days * DAY_S)
        connection.execute("UPDATE state SET clock_s = ?, lived_s = ?", (passed.clock_s, passed.lived_s))
        return passed

    def _evict(self, connection: apsw.Connection) -> None:
        """Keep within the limits, if any; of a full store a little more than needed goes, to do it seldom."""
        if self._limits is None:
            return
        lived_s = connection.execute("SELECT lived_s FROM state").get
        oldest_s = Passed(0.0, lived_s).oldest_s(self._limits.max_age_days * DAY_S)
        old = connection.execute("SELECT id FROM records WHERE told IN (0, 1) AND lived_s < ?", (oldest_s,))
        _delete(connection, [row[0] for row in old], EVICTED)
        excess = count_records(connection) - self._limits.max_records
        if excess > 0:
            self._drop_oldest(connection, excess)
        while count_records(connection) > 1 and _used_bytes(connection) > self._limits.max_mb * 1e6:
            self._drop_oldest(connection, max(1, round(count_records(connection) * EVICTED_SHARE)))

    def _drop_oldest(self, connection: apsw.Connection, number: int) -> None:
        rows = connection.execute(
            "SELECT id, told FROM records ORDER BY told, lived_s, turn LIMIT ?", (number,)
        )
        oldest: list[tuple[int, int]] = list(rows)
        lost = sum(told for _, told in oldest)
        if lost:
            log.warning("the memory is full: %d of the oldest things that were told are forgotten", lost)
        _delete(connection, [record_id for record_id, _ in oldest], EVICTED)

    def _erase(self, wait_ms: int, least: int = EVICTED) -> bool:
        """Let nothing of what went stay in the file or its log; whether that is so now.

        What went for a lesser reason than `least` waits.
        """
        with self._reading() as connection:
            if connection.in_transaction or connection.execute("SELECT unerased FROM state").get < least:
                return True
            connection.set_busy_timeout(wait_ms)
            try:
                erase(connection)
            except apsw.BusyError:
                return False
            finally:
                connection.set_busy_timeout(schema.BUSY_TIMEOUT_MS)
        return True

    def _try_to_erase(self, least: int) -> bool:
        """`_erase` without waiting, where a full disk or another fault is no reason to fail."""
        try:
            return self._erase(0, least)
        except MemoryStoreError as error:
            log.warning("what is forgotten is not erased yet: %s", error)
            return False

    def _keep_erasing(self) -> None:
        """Try again until it is done, in a thread; with limits, for as long as the store is open."""
        if self._eraser is None or not self._eraser.is_alive():
            self._eraser = threading.Thread(target=self._erase_repeatedly, daemon=True)
            self._eraser.start()

    def _erase_repeatedly(self) -> None:
        erased_s = time.monotonic()
        while not self._closing.wait(ERASE_PERIOD_S):
            is_due = time.monotonic() - erased_s >= EVICTED_ERASE_S
            done = self._try_to_erase(EVICTED if is_due else FORGOTTEN)
            if done and self._limits is None:
                return
            if done and is_due:
                erased_s = time.monotonic()


def _delete(connection: apsw.Connection, ids: list[int], why: int) -> int:
    """Delete records from all indexes, EVICTED or FORGOTTEN; how many of them there were."""
    deleted = sum(delete_record(connection, record_id) for record_id in ids)
    if deleted:
        connection.execute(
            "INSERT INTO facts VALUES ('forgotten', ?1) "
            "ON CONFLICT (name) DO UPDATE SET value = CAST(value AS INTEGER) + ?1",
            (deleted,),
        )
        connection.execute("UPDATE state SET unerased = max(unerased, ?)", (why,))
    return deleted


def _used_bytes(connection: apsw.Connection) -> int:
    pages = connection.pragma("page_count") - connection.pragma("freelist_count")
    return int(pages * connection.pragma("page_size"))
