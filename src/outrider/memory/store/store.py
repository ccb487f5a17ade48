# SPDX-License-Identifier: Apache-2.0
"""The robot's memory: records with place, time and visibility, found again by meaning and by words.

One SQLite file holds the records, a full-text index and a vector index; they change in one transaction. A
search scans the vectors' sign bits first (48 bytes a passage), then ranks the nearest by their exact
cosine. If a filter leaves few records, it ranks them all. A long text has a vector for each passage.

Forgotten records are overwritten in the file, and the log is emptied. SQLite can do neither while another
process reads an older state of the store: `forget` then says so. A store with limits, or with an erasure
pending, tries again every `erase_period_s`. Every store tries again at its next record and at opening.
Records evicted by age or number are erased within `evicted_erase_s`, or at the next opening.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import apsw

from outrider.core.errors import MemoryStoreError, NotErasedError, StoreInputError
from outrider.core.ports import Embedder
from outrider.core.values import Place, Record, RecordKind, Visibility
from outrider.memory.store.erasing import erase
from outrider.memory.store.eviction import StoreLimits, count_time, evict
from outrider.memory.store.migration import migrate
from outrider.memory.store.ranking import own_words
from outrider.memory.store.reading import MemoryReader
from outrider.memory.store.records import (
    check_place,
    check_thumbnail,
    checked_text,
)
from outrider.memory.store.rows import NewRecord, delete_records, embedded_passages, insert_record, see_again
from outrider.memory.store.schema import (
    BUSY_TIMEOUT_MS,
    EVICTED,
    FORGOTTEN,
    as_damage,
    close_store,
    transaction,
    translated,
)

log = logging.getLogger(__name__)

ERASE_PERIOD_S = 2.0
EVICTED_ERASE_S = 600.0


class MemoryStore(MemoryReader):
    """An open store. Thread-safe; other processes may have it open as well.

    Every method raises MemoryStoreError if the disk, the file or an argument is at fault. A record is on
    the disk once the call that made it has returned. `limits` are enforced at opening and at every new
    record. Without them this store evicts nothing; a process that has it open with limits does. It tries to
    erase every `erase_period_s` seconds, evicted records every `evicted_erase_s` seconds. `forget` waits up
    to `forget_wait_ms` for others that read or write the file.
    """

    def __init__(
        self,
        path: Path,
        embedder: Embedder,
        *,
        limits: StoreLimits | None = None,
        key_file: Path | None = None,
        erase_period_s: float = ERASE_PERIOD_S,
        evicted_erase_s: float = EVICTED_ERASE_S,
        forget_wait_ms: int = BUSY_TIMEOUT_MS,
    ) -> None:
        super().__init__(path, embedder, key_file)
        self._limits = limits
        self._erase_period_s, self._evicted_erase_s = erase_period_s, evicted_erase_s
        self._forget_wait_ms = forget_wait_ms
        self._closing = threading.Event()
        self._eraser: threading.Thread | None = None
        try:
            self._begin()
        except BaseException:
            close_store(self._connection)
            raise

    def _begin(self) -> None:
        """Migrate an older store, enforce the limits, and erase what an earlier opening could not."""
        with translated(self.path):
            migrate(self._connection, self._embedder)
        if self._limits is not None:
            with self._writing() as connection:
                count_time(connection, self._limits, time.time())
                evict(connection, self._limits)
        if not self._try_to_erase(EVICTED) or self._limits is not None:
            self._keep_erasing()

    def close(self) -> None:
        """Wait for an erasure in progress, and close the database."""
        self._closing.set()
        if self._eraser is not None:
            self._eraser.join()
        with self._lock:
            close_store(self._connection)

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
            record_id = self._insert(connection, new, now_s)
        self._try_to_erase(FORGOTTEN)
        return Record(record_id, text, kind, visibility, now_s, now_s, place, bool(thumbnail))

    def _insert(self, connection: apsw.Connection, new: NewRecord, now_s: float) -> int:
        number = insert_record(connection, new, count_time(connection, self._limits, now_s))
        evict(connection, self._limits)
        return number

    @contextlib.contextmanager
    def batch(self) -> Iterator[None]:
        """Makes all writes inside one write: on the disk together at the end, or not at all."""
        with self._writing():
            yield
        self._try_to_erase(FORGOTTEN)

    def see(self, what: str, place: Place, *, time_s: float | None = None, thumbnail: bytes = b"") -> Record:
        """Remember a sighting, which is shareable. A thing known at this place is renewed, not added."""
        what = checked_text(what)
        check_thumbnail(thumbnail)
        check_place(place)
        now_s = time.time() if time_s is None else time_s

        def unseen() -> NewRecord:
            passages = embedded_passages(what, self._embedder)
            return NewRecord(what, False, True, now_s, now_s, place, thumbnail, passages)

        # Embed before the store is locked against others.
        new = unseen() if self._seen_at(what, place) is None else None
        with self._writing() as connection:  # checked in the transaction: another process may have changed it
            known = self._seen_at(what, place)
            if known is None:
                number = self._insert(connection, new or unseen(), now_s)
                kinds = RecordKind.SEEN, Visibility.SHAREABLE
                record = Record(number, what, *kinds, now_s, now_s, place, bool(thumbnail))
            else:
                passed = count_time(connection, self._limits, now_s)
                see_again(connection, known, place, now_s, passed, thumbnail)
                [record] = self._fetch([known])
        self._try_to_erase(FORGOTTEN)
        return record

    def forget(self, ids: Iterable[int]) -> int:
        """Forget records for good, in the file too. Returns how many existed.

        Raises NotErasedError if they are forgotten, but another process keeps their bytes in the file.
        """
        with self._writing() as connection:
            forgotten = delete_records(connection, list(ids), FORGOTTEN)
        if not self._erase(self._forget_wait_ms):
            self._keep_erasing()
            raise NotErasedError(self.path, forgotten)
        return forgotten

    def forget_matching(self, words: str, *others: str) -> int:
        """Forget every record that contains all the words of one of the texts. Returns their number.

        Raises StoreInputError if the first text has no significant word and no record is found.
        """
        found = set().union(*map(self.holding, (words, *others)))
        if not found and not own_words(words):
            raise StoreInputError(f"{words!r} holds no word to go by: give one of what is to be forgotten")
        return self.forget(found)

    def forget_all(self) -> int:
        """Delete all records. Returns their number."""
        with self._reading() as connection:
            ids = [row[0] for row in connection.execute("SELECT id FROM records")]
        return self.forget(ids)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[apsw.Connection]:
        """Runs its body as one transaction, which locks out other writers from the start."""
        with self._lock, translated(self.path), transaction(self._connection):
            yield self._connection

    def _erase(self, wait_ms: int, least: int = EVICTED) -> bool:
        """Erase deleted bytes from the file and its log. Returns whether none is pending now.

        Deletions for a lesser reason than `least` are not erased yet.
        """
        with self._reading() as connection:
            with as_damage():
                waits = connection.execute("SELECT unerased FROM state").get < least
            if connection.in_transaction or waits:
                return True
            connection.set_busy_timeout(wait_ms)
            try:
                erase(connection)
            except apsw.BusyError:
                return False
            finally:
                connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        return True

    def _try_to_erase(self, least: int) -> bool:
        """Erase without waiting. Returns whether none is pending; a fault, such as a full disk, is logged."""
        try:
            return self._erase(0, least)
        except MemoryStoreError as error:
            log.warning("what is forgotten is not erased yet: %s", error)
            return False

    def _keep_erasing(self) -> None:
        """Retry in a thread until it is done; with limits, for as long as the store is open."""
        if self._eraser is None or not self._eraser.is_alive():
            self._eraser = threading.Thread(target=self._erase_repeatedly, daemon=True)
            self._eraser.start()

    def _erase_repeatedly(self) -> None:
        erased_s = time.monotonic()
        while not self._closing.wait(self._erase_period_s):
            is_due = time.monotonic() - erased_s >= self._evicted_erase_s
            done = self._try_to_erase(EVICTED if is_due else FORGOTTEN)
            if done and self._limits is None:
                return
            if done and is_due:
                erased_s = time.monotonic()
