# SPDX-License-Identifier: Apache-2.0
"""The store's file: opens it with its key, checks its version, and creates it if it is missing.

SQLite runs in WAL mode, so that several processes may read and write one store: writers wait for each other
up to `BUSY_TIMEOUT_MS`. A write counts once it is on the disk (`synchronous = FULL`). Deleted records are
overwritten (`secure_delete`), and the file is rewritten (`erasing`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import sqlite_vec

from outrider.core.errors import ConfigError, MemoryStoreError, StoreInputError
from outrider.core.files.given_file import check_file
from outrider.core.files.private_files import keep_private, make_private_folder, open_private
from outrider.core.files.writing import alone_in
from outrider.core.ports import Embedder
from outrider.memory.store.keyfile import make_key, read_key

SCHEMA_VERSION = 3
APPLICATION_ID = 0x4F757472
BUSY_TIMEOUT_MS = 5000
LOG_SUFFIX = "-wal"
SIDE_FILES = LOG_SUFFIX, "-shm", "-journal"
HEADER, HEADER_BYTES, PAGES_AT, APPLICATION_AT = b"SQLite format 3\0", 100, 28, 68
"""The first bytes of an SQLite file, and where its header holds the number of pages and the application."""
NO_STORE = "{} is a database, but not a store of memories: give another path"
CACHE_KIB = 65_536
WRONG_FILE = (apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError, apsw.NotADBError)
"""SQLite's errors that another path or key resolves."""

# `told` and `shareable` are 0 or 1. x, y and home are the place. Without a place x and y are NULL here and
# NOWHERE in `codes`, whose columns hold no NULL. `words` are the text's in the form of `language.words`.
# `turn` numbers the making or renewal of records, and `lived_s` is `store.ageing`'s time of it: neither
# depends on stamps. A passage is a part of a text with its embedding (float16). A code is an embedding's
# signs, one bit each. `unerased` is EVICTED or FORGOTTEN while bytes of deleted records may be in the file,
# else 0.
NOWHERE = 1e12
EVICTED, FORGOTTEN = 1, 2
_TABLES = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE records (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    text TEXT NOT NULL,
    words TEXT NOT NULL,
    told INTEGER NOT NULL,
    shareable INTEGER NOT NULL,
    created_s REAL NOT NULL,
    updated_s REAL NOT NULL,
    turn INTEGER NOT NULL,
    lived_s REAL NOT NULL,
    x REAL,
    y REAL,
    home TEXT NOT NULL,
    thumbnail BLOB
);
CREATE TABLE passages (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    record INTEGER NOT NULL,
    start INTEGER NOT NULL,
    stop INTEGER NOT NULL,
    embedding BLOB NOT NULL
);
CREATE INDEX passages_by_record ON passages (record);
CREATE TABLE state (turn INTEGER NOT NULL, clock_s REAL, lived_s REAL NOT NULL, unerased INTEGER NOT NULL);
INSERT INTO state VALUES (0, NULL, 0.0, 0);
CREATE TABLE totals (records INTEGER NOT NULL);
INSERT INTO totals VALUES (0);
CREATE TRIGGER records_counted AFTER INSERT ON records BEGIN
    UPDATE totals SET records = records + 1;
END;
CREATE TRIGGER records_discounted AFTER DELETE ON records BEGIN
    UPDATE totals SET records = records - 1;
END;
CREATE INDEX records_by_age ON records (told, lived_s, turn);
CREATE INDEX records_by_turn ON records (turn);
CREATE INDEX records_by_place ON records (home, x, y) WHERE x IS NOT NULL;
CREATE INDEX records_seen ON records (text, home) WHERE told = 0;
CREATE VIRTUAL TABLE texts USING fts5(
    words, content = 'records', content_rowid = 'id', tokenize = 'porter ascii'
);
INSERT INTO texts(texts, rank) VALUES ('secure-delete', 1);
CREATE VIRTUAL TABLE codes USING vec0(
    id INTEGER PRIMARY KEY, code bit[{size}],
    told boolean, shareable boolean, updated_s float, x float, y float, home text
);
"""


def open_store(path: Path, key_file: Path | None, embedder: Embedder) -> apsw.Connection:
    """Opens the store at `path`. A missing store is created, and so is a missing key of a new store.

    It does not migrate a store of an earlier version. Raises MemoryStoreError for a name that is not UTF-8,
    a folder that cannot be written, a file that is no store of this embedder, or of a later version, and a
    missing, wrong or superfluous key.
    """
    try:
        str(path).encode()
    except UnicodeEncodeError:  # SQLite takes names in UTF-8
        raise StoreInputError(f"{str(path)!r} is no name in UTF-8: give another file") from None
    with translated(path):
        make_private_folder(path.parent)
        # Only one process at a time may create a store. The key is combined with random bytes of the file: if
        # two processes created both, one could not read it.
        with alone_in(path.parent) if _is_new(path) else contextlib.nullcontext():
            return _opened(path, key_file, embedder)


def _is_new(path: Path) -> bool:
    return not path.exists() or path.stat().st_size == 0


def _opened(path: Path, key_file: Path | None, embedder: Embedder) -> apsw.Connection:
    if path.exists():
        check_file(path)
    is_new = _is_new(path)
    if not is_new:
        _refuse_foreign(path, key_file is not None)
    key = _key_of(key_file, is_new)
    make_files_private(path)
    connection = apsw.Connection(str(path))
    try:
        _prepare(connection, key)
        _create_or_check(connection, path, embedder)
    except BaseException:
        close_store(connection)
        raise
    return connection


def close_store(connection: apsw.Connection) -> None:
    """Close the connection. Ignores statements that sqlite-vec keeps open after it has met damage.

    The damage was reported when it was met, and the statements end with the process.
    """
    with contextlib.suppress(apsw.BusyError):
        connection.close()


def _refuse_foreign(path: Path, has_key: bool) -> None:
    """Raise StoreInputError for a file that is no store by its header, before it is changed."""
    with path.open("rb") as file:
        header = file.read(HEADER_BYTES)
    if not header.startswith(HEADER):
        if not has_key:  # with a key these bytes are encrypted
            raise StoreInputError(f"{path}: {_advice(apsw.NotADBError())}")
        return
    pages, application = (int.from_bytes(header[at : at + 4], "big") for at in (PAGES_AT, APPLICATION_AT))
    # A store that is being created may have its last writes only in its log.
    begun = application == 0 and (pages <= 1 or path.with_name(path.name + LOG_SUFFIX).exists())
    if application != APPLICATION_ID and not begun:
        raise StoreInputError(NO_STORE.format(path))


def make_files_private(path: Path) -> None:
    """Make the file, if it is new, and its side files private.

    SQLite gives its log and the log's index the permissions of the file.
    """
    with contextlib.suppress(FileExistsError):
        open_private(path, "x").close()
    for suffix in ("", *SIDE_FILES):
        keep_private(path.with_name(path.name + suffix))


def _key_of(key_file: Path | None, is_new: bool) -> str:
    if key_file is None:
        return ""
    return make_key(key_file) if is_new and not key_file.exists() else read_key(key_file)


def _prepare(connection: apsw.Connection, key: str) -> None:
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    if key:
        connection.pragma("hexkey", key)
    connection.enable_load_extension(True)
    connection.load_extension(sqlite_vec.loadable_path())
    connection.enable_load_extension(False)
    connection.pragma("secure_delete", True)
    connection.pragma("synchronous", "FULL")
    connection.pragma("cache_size", -CACHE_KIB)
    connection.pragma("temp_store", "MEMORY")
    # The first read: it fails if the file is no database, or the key is wrong.
    connection.pragma("user_version")
    connection.pragma("auto_vacuum", "INCREMENTAL")
    connection.pragma("journal_mode", "WAL")


def _create_or_check(connection: apsw.Connection, path: Path, embedder: Embedder) -> None:
    with transaction(connection):
        if connection.pragma("user_version") == 0 and not list(
            connection.execute("SELECT 1 FROM sqlite_schema")
        ):
            create_tables(connection, embedder.size)
            connection.execute("INSERT INTO facts VALUES ('embedder', ?)", (embedder.name,))
            connection.pragma("application_id", APPLICATION_ID)
    if connection.pragma("application_id") != APPLICATION_ID:
        raise StoreInputError(NO_STORE.format(path))
    version = connection.pragma("user_version")
    if version > SCHEMA_VERSION:
        raise StoreInputError(
            f"{path} was written by a newer Outrider (its version {version}, known here {SCHEMA_VERSION}): "
            "update Outrider, or give another path"
        )
    made_by = connection.execute("SELECT value FROM facts WHERE name = 'embedder'").get
    if made_by != embedder.name:
        raise StoreInputError(
            f"{path} was made with the embeddings of {made_by}, these are {embedder.name}: give another path"
        )


def create_tables(connection: apsw.Connection, size: int) -> None:
    """Create the empty tables of this version, for embeddings of `size` numbers."""
    connection.execute(_TABLES.format(size=size))
    connection.pragma("user_version", SCHEMA_VERSION)


@contextlib.contextmanager
def transaction(connection: apsw.Connection) -> Iterator[None]:
    """Runs its body as one transaction that locks out other writers. Nested, it is part of the outer one."""
    if connection.in_transaction:
        yield
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # After some errors, such as a full disk, SQLite has rolled back by itself.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextlib.contextmanager
def translated(path: Path) -> Iterator[None]:
    """Translates SQLite's and the system's errors to MemoryStoreError with a remedy.

    It raises StoreInputError if another path or key would help.
    """
    try:
        yield
    except apsw.Error as error:
        kind = StoreInputError if isinstance(error, WRONG_FILE) else MemoryStoreError
        raise kind(f"{path}: {_advice(error)}") from error
    except MemoryStoreError:
        raise
    except UnicodeDecodeError as error:  # SQLite has no checksums of its pages: a text may be corrupt
        raise MemoryStoreError(f"{path}: {_advice(apsw.CorruptError())}") from error
    except UnicodeEncodeError as error:
        raise StoreInputError(f"{error.object!r} holds bytes that are no text: use plain words") from error
    except ConfigError as error:
        raise StoreInputError(f"{path} cannot be opened: {error}") from error
    except OSError as error:
        raise StoreInputError(f"{path} cannot be opened: {error.strerror or error}") from error


@contextlib.contextmanager
def as_damage() -> Iterator[None]:
    """Treats values in a row that cannot be read as damage: SQLite has no checksums of its pages.

    Use it only around code that reads a row. Otherwise an error in the program would be reported as a
    damaged store.
    """
    try:
        yield
    except (TypeError, ValueError, OverflowError) as error:
        raise apsw.CorruptError(str(error)) from error


def _advice(error: apsw.Error) -> str:
    advice: dict[Any, str] = {
        apsw.FullError: "the disk is full: free some space, or lower max_mb and max_records",
        apsw.IOError: "the disk refuses to be read or written: check it, and its free space",
        apsw.ReadOnlyError: "may not be written: check the rights of the file and its folder",
        apsw.CantOpenError: "cannot be opened: check that the folder exists and may be written",
        apsw.PermissionsError: "may not be opened: check the rights of the file and its folder",
        apsw.BusyError: f"another process has kept it busy for {BUSY_TIMEOUT_MS // 1000} s: end it or wait",
        apsw.LockedError: "another part of this process is writing: try again",
        apsw.NotADBError: "no store of memories, or its key is missing or wrong: give another file or key",
        apsw.CorruptError: "it is damaged: move it away, and begin a new store",
    }
    known = next((text for kind, text in advice.items() if isinstance(error, kind)), None)
    return known or f"the store failed: {error}"
