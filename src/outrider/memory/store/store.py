# SPDX-License-Identifier: Apache-2.0
"""The robot's memory: records with place, time and visibility, found again by meaning and by words.

One SQLite file holds the records, a full-text index and a vector index; they change in one transaction.
A search scans the vectors' sign bits first (48 bytes a passage), then ranks the nearest by their exact
cosine; where a filter leaves few records, it ranks them all. A long text has a vector for each passage.

What is forgotten is overwritten in the file, and the log is emptied. While another process reads an older
state of the store SQLite can do neither: `forget` then says so. A store that has limits, or could not erase,
tries again every `erase_period_s`, and any at the next record and opening. What went by age or number is
erased `evicted_erase_s` after it at the latest, or at the next opening.
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
    """A store that is open. Thread-safe; other processes may have it open as well.

    Every method raises MemoryStoreError where the disk, the file or what it is given is at fault. A record is
    on the disk once the call that made it has returned. `limits` are kept at the opening and at every new
    record; without them this one forgets nothing, and leaves that to whoever has the store open with them.
    It tries to erase every `erase_period_s` seconds, what went by the limits every `evicted_erase_s` seconds;
    `forget` waits up to `forget_wait_ms` for others that read or write the file.
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
        """Take over an older store, keep within the limits, and erase what an earlier opening could not."""
        with translated(self.path):
            migrate(self._connection, self._embedder)
        if self._limits is not None:
            with self._writing() as connection:
                count_time(connection, self._limits, time.time())
                evict(connection, self._limits)
        if not self._try_to_erase(EVICTED) or self._limits is not None:
            self._keep_erasing()

    def close(self) -> None:
        """Waits for an erasure in progress and closes the database."""
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

        def unseen() -> NewRecord:
            passages = embedded_passages(what, self._embedder)
            return NewRecord(what, False, True, now_s, now_s, place, thumbnail, passages)

        # Embedded before the store is held against others.
        new = unseen() if self._seen_at(what, place) is None else None
        with self._writing() as connection:  # from the look on: another might see it too, or forget it
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
        """Forget records for good, in the file too; how many there were.

        Raises NotErasedError where they are forgotten, but another process keeps their bytes in the file.
        """
        with self._writing() as connection:
            forgotten = delete_records(connection, list(ids), FORGOTTEN)
        if not self._erase(self._forget_wait_ms):
            self._keep_erasing()
            raise NotErasedError(self.path, forgotten)
        return forgotten

    def forget_matching(self, words: str, *others: str) -> int:
        """Forget every record that holds all the words of one of some texts.

        StoreInputError where the first has none, and no record is found.
        """
        found = set().union(*map(self.holding, (words, *others)))
        if not found and not own_words(words):
            raise StoreInputError(f"{words!r} holds no word to go by: give one of what is to be forgotten")
        return self.forget(found)

    def forget_all(self) -> int:
        """Deletes all records; returns their number."""
        with self._reading() as connection:
            ids = [row[0] for row in connection.execute("SELECT id FROM records")]
        return self.forget(ids)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[apsw.Connection]:
        """One transaction, which holds the store against other processes from its beginning."""
        with self._lock, translated(self.path), transaction(self._connection):
            yield self._connection

    def _erase(self, wait_ms: int, least: int = EVICTED) -> bool:
        """Let nothing of what went stay in the file or its log; whether that is so now.

        What went for a lesser reason than `least` waits.
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
        while not self._closing.wait(self._erase_period_s):
            is_due = time.monotonic() - erased_s >= self._evicted_erase_s
            done = self._try_to_erase(EVICTED if is_due else FORGOTTEN)
            if done and self._limits is None:
                return
            if done and is_due:
                erased_s = time.monotonic()
