"""Files that cannot be opened, keys, versions, full disks, and several processes on one store."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import apsw
import pytest
from support.memories import WordEmbedder

from outrider.core.errors import ConfigError, MemoryStoreError, StoreInputError
from outrider.core.values import Place
from outrider.memory.store import schema
from outrider.memory.store.eviction import StoreLimits
from outrider.memory.store.records import RecordFilter
from outrider.memory.store.store import MemoryStore

PAGE_BYTES = 4096


def open_store(path: Path, key_file: Path | None = None, limits: StoreLimits | None = None) -> MemoryStore:
    return MemoryStore(path, WordEmbedder(), key_file=key_file, limits=limits)


def test_an_encrypted_store_opens_with_its_key_alone(tmp_path: Path) -> None:
    path, key = tmp_path / "m.db", tmp_path / "keys" / "memory.key"
    with open_store(path, key) as store:
        store.add("my passport lies in the drawer")
    assert key.stat().st_mode & 0o777 == 0o600
    assert not any(b"passport" in file.read_bytes() for file in tmp_path.iterdir() if file.is_file())
    with open_store(path, key) as store:
        assert store.recall("passport")[0].record.text.startswith("my passport")
    other = tmp_path / "other.key"
    open_store(tmp_path / "other.db", other).close()
    for wrong in (None, other):
        with pytest.raises(StoreInputError, match="key is missing or wrong"):
            open_store(path, wrong)


def test_a_key_is_neither_replaced_nor_taken_from_an_open_file(tmp_path: Path) -> None:
    path, key = tmp_path / "m.db", tmp_path / "memory.key"
    open_store(path, key).close()
    key.chmod(0o644)
    with pytest.raises(StoreInputError, match="chmod 600"):
        open_store(path, key)
    key.chmod(0o600)
    key.write_text("short")
    with pytest.raises(StoreInputError, match="64 hexadecimal"):
        open_store(path, key)
    key.unlink()
    with pytest.raises(StoreInputError, match="cannot be read"):
        open_store(path, key)
    assert not key.exists(), "a lost key is not silently made anew"


def test_a_key_that_an_editor_has_saved_is_the_same(tmp_path: Path) -> None:
    path, key = tmp_path / "m.db", tmp_path / "memory.key"
    with open_store(path, key) as store:
        store.add("my passport lies in the drawer")
    key.write_bytes(f"\ufeff{key.read_text().strip().upper()}\r\n".encode())
    with open_store(path, key) as store:
        assert store.count() == 1


def test_a_newer_store_a_foreign_one_and_garbage_are_refused(tmp_path: Path) -> None:
    newer = tmp_path / "newer.db"
    open_store(newer).close()
    with sqlite3.connect(newer) as raw:
        raw.execute(f"PRAGMA user_version = {schema.SCHEMA_VERSION + 1}")
    raw.close()
    with pytest.raises(StoreInputError, match="newer Outrider"):
        open_store(newer)
    foreign = tmp_path / "foreign.db"
    with sqlite3.connect(foreign) as raw:
        raw.execute("CREATE TABLE mine (x)")
    raw.close()
    with pytest.raises(StoreInputError, match="not a store of memories"):
        open_store(foreign)
    garbage = tmp_path / "garbage.db"
    garbage.write_bytes(bytes(range(256)) * 64)
    with pytest.raises(StoreInputError, match="no store of memories"):
        open_store(garbage)
    assert garbage.read_bytes() == bytes(range(256)) * 64


def test_a_store_of_other_embeddings_is_refused(tmp_path: Path) -> None:
    class OtherEmbedder(WordEmbedder):
        name = "other"

    open_store(tmp_path / "m.db").close()
    with pytest.raises(StoreInputError, match="embeddings of words"):
        MemoryStore(tmp_path / "m.db", OtherEmbedder())


def test_a_pipe_or_a_device_in_place_of_a_store_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.db")
    for path, kind in ((tmp_path / "pipe.db", "a pipe"), (Path("/dev/null"), "a device")):
        with pytest.raises(StoreInputError, match=f"cannot be opened: it is {kind}, and no file"):
            open_store(path)
    assert [file.name for file in tmp_path.iterdir()] == ["pipe.db"]


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    for path in (Path("/sys/outrider/m.db"), file / "m.db", tmp_path):
        with pytest.raises(StoreInputError, match=str(path)):
            open_store(path)


def test_a_name_that_is_not_in_utf_8_is_refused_and_nothing_is_made(tmp_path: Path) -> None:
    with pytest.raises(StoreInputError, match="UTF-8"):
        open_store(tmp_path / os.fsdecode(b"folder\xff") / "m.db")
    assert not list(tmp_path.iterdir())


def test_a_store_that_may_only_be_read_refuses_to_remember(tmp_path: Path) -> None:
    with open_store(tmp_path / "m.db") as store:
        store.add("kept")
        store._connection.pragma("query_only", True)
        with pytest.raises(MemoryStoreError, match="may not be written"):
            store.add("lost")
        assert store.recall("kept")[0].record.text == "kept" and store.count() == 1


def test_a_full_disk_is_said_and_harms_nothing(tmp_path: Path) -> None:
    with open_store(tmp_path / "m.db") as store:
        store.add("kept")
        store._connection.pragma("max_page_count", store._connection.pragma("page_count") + 2)
        with pytest.raises(MemoryStoreError, match="disk is full") as full:
            for number in range(1000):
                store.add(f"{number} " + "words " * 300)
        assert not isinstance(full.value, ConfigError), "no other value mends it"
        acknowledged = store.count()
        store.verify()
        store._connection.pragma("max_page_count", 1_000_000)
        store.add("after")
        store.verify()
        assert store.count() == acknowledged + 1


def test_a_write_waits_for_another_process_only_so_long(tmp_path: Path) -> None:
    with open_store(tmp_path / "m.db") as store:
        store._connection.set_busy_timeout(20)
        other = apsw.Connection(str(store.path))
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(MemoryStoreError, match="another process"):
            store.add("x")
        assert store.count() == 0, "reading goes on"
        other.execute("ROLLBACK")
        store.add("x")
        other.close()


def test_what_one_process_forgets_is_gone_although_another_has_the_store_open(tmp_path: Path) -> None:
    with open_store(tmp_path / "m.db") as store, open_store(tmp_path / "m.db") as other:
        store.add("my passport lies in the drawer")
        assert other.recall("passport")[0].record.text.startswith("my passport")
        assert other.newest(1) and store.forget_matching("passport") == 1
        assert other.recall("passport") == [] and other.count() == 0
        assert not any(b"passport" in file.read_bytes() for file in tmp_path.iterdir())


def add_many(path: str, name: str, number: int) -> None:
    with open_store(Path(path)) as store:
        for index in range(number):
            store.add(f"{name} {index}")


FIRST = """
import sys
from pathlib import Path
from support.memories import WordEmbedder
from outrider.memory.store.store import MemoryStore
print(flush=True)
sys.stdin.readline()
with MemoryStore(Path(sys.argv[1]), WordEmbedder(), key_file=Path(sys.argv[2])) as store:
    store.add("a note")
"""


@pytest.mark.lengthy
def test_an_encrypted_store_that_several_processes_make_at_once_is_one(tmp_path: Path) -> None:
    """As the memory node and the navigator do at the first start of a robot."""
    path, key = tmp_path / "m.db", tmp_path / "memory.key"
    command = [sys.executable, "-c", FIRST, str(path), str(key)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with contextlib.ExitStack() as ending:
        making = [
            ending.enter_context(subprocess.Popen(command, env=environment, **pipes))  # type: ignore[call-overload]
            for _ in range(5)
        ]
        for process in making:
            process.stdout.readline()
        for process in making:
            process.stdin.close()
    assert [process.returncode for process in making] == [0] * 5
    with open_store(path, key) as store:
        assert store.count() == 5


@pytest.mark.lengthy
def test_processes_share_a_store(tmp_path: Path) -> None:
    """Any of them may be the first, which creates the store."""
    path = tmp_path / "m.db"
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=add_many, args=(str(path), name, 20)) for name in ("a", "b", "c")]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120.0)
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    with open_store(path) as store:
        store.verify()
        assert {r.text for r in store.newest(100)} == {f"{n} {i}" for n in "abc" for i in range(20)}


def test_a_second_opening_leaves_the_first_its_locks(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    with open_store(path) as store, store.batch():
        store.add("being written")
        open_second = "import sys, apsw; c = apsw.Connection(sys.argv[1]); c.execute('BEGIN IMMEDIATE')"
        schema.make_files_private(path)  # another opening in this process begins with this
        tried = subprocess.run([sys.executable, "-c", open_second, str(path)], capture_output=True, text=True)
    assert "BusyError" in tried.stderr


@pytest.mark.parametrize("kind", ["database", "program"])
def test_a_file_of_somebody_else_stays_as_it_is(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "other"
    if kind == "database":
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE people (name)")
        connection.commit()
        connection.close()
    else:
        path.write_bytes(b"\x7fELF" + bytes(200))
    path.chmod(0o755)
    content = path.read_bytes()
    with pytest.raises(StoreInputError, match=r"another path|no store of memories"):
        open_store(path)
    assert path.read_bytes() == content and path.stat().st_mode & 0o777 == 0o755
    assert list(tmp_path.iterdir()) == [path]


def test_a_store_whose_making_was_broken_off_is_made_by_the_next_process(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    connection = apsw.Connection(str(path))
    connection.pragma("auto_vacuum", "INCREMENTAL")
    connection.pragma("journal_mode", "WAL")
    connection.close()
    assert path.stat().st_size > 0
    with open_store(path) as store:
        store.add("my passport lies in the drawer")
        assert store.count() == 1


def test_a_text_that_the_disk_has_changed_is_damage_and_not_an_error_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    with open_store(path) as store:
        store.add("the window is open")
    content = path.read_bytes()
    path.write_bytes(content.replace(b"the window is open", b"the window is ope\xee"))
    with open_store(path) as store:
        for look in (store.newest, lambda: store.recall("window"), lambda: list(store.export())):
            with pytest.raises(MemoryStoreError, match="is damaged"):
                look()


@pytest.mark.lengthy
def test_a_page_of_another_store_is_damage_and_not_an_error_of_ours(tmp_path: Path) -> None:
    """As after a disk has written to the wrong place: SQLite accepts many pages of another store."""
    contents = []
    for number in range(2):
        path = tmp_path / f"{number}.db"
        with open_store(path) as store:
            for place in range(12):
                store.add(f"key {place} of {number}", place=Place(place, number, "home"))
        contents.append(path.read_bytes())
    one, other = contents
    random = Random(7)
    for number in range(60):
        at, taken = (random.randrange(1, len(content) // PAGE_BYTES) * PAGE_BYTES for content in contents)
        path = tmp_path / f"mixed {number}.db"
        path.write_bytes(one[:at] + other[taken : taken + PAGE_BYTES] + one[at + PAGE_BYTES :])
        with contextlib.suppress(MemoryStoreError), open_store(path) as store:
            for look in (
                store.newest,
                lambda: store.recall("key"),
                lambda: list(store.export()),
                store.count,
            ):
                with contextlib.suppress(MemoryStoreError):
                    look()


@pytest.mark.parametrize("column", ["text", "created_s", "x", "home"])
def test_a_record_of_values_that_no_store_writes_is_damage(tmp_path: Path, column: str) -> None:
    path = tmp_path / "m.db"
    with open_store(path) as store:
        store.add("the window is open", place=Place(1.0, 2.0, "home"))
        store._connection.execute(f"UPDATE records SET {column} = x'00'")
        for look in (store.newest, lambda: list(store.export())):
            with pytest.raises(MemoryStoreError, match="is damaged"):
                look()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE records SET created_s = 1e300",
        "UPDATE records SET updated_s = 9e999",
        "UPDATE passages SET start = 'abc'",
        "UPDATE passages SET embedding = x'00'",
        "UPDATE totals SET records = 'x'",
        "INSERT OR REPLACE INTO facts VALUES ('forgotten', 'x')",
        "UPDATE state SET lived_s = 'a'",
        "UPDATE state SET clock_s = 'a'",
        "UPDATE state SET turn = 'a'",
        "DELETE FROM state",
    ],
)
def test_whatever_stands_in_a_row_is_damage_at_most(tmp_path: Path, change: str) -> None:
    path, told = tmp_path / "m.db", []
    with open_store(path) as store:
        store.add("the window is open", place=Place(1.0, 2.0, "home"))
        store._connection.execute(change)

    def look_at(store: MemoryStore) -> None:
        for look in (
            lambda: store.recall("window"),
            lambda: list(store.export()),
            store.num_forgotten,
            lambda: store.add("the door is shut"),
            store.verify,
        ):
            try:
                look()
            except MemoryStoreError as error:
                told.append(str(error))

    for limits in (None, StoreLimits()):
        with contextlib.suppress(MemoryStoreError), open_store(path, limits=limits) as store:
            look_at(store)
    assert not told or any("damaged" in words for words in told)


@pytest.mark.parametrize("data", ["x'00'", "'text'", "zeroblob(3)"])
def test_a_store_with_a_damaged_index_closes(tmp_path: Path, data: str) -> None:
    """sqlite-vec then leaves a statement open, and SQLite refuses to close."""
    path, here = tmp_path / "m.db", Place(1.0, 2.0, "a home of a name that is longer than twelve letters")
    with open_store(path) as store:
        store.see("red ball", here)
    with contextlib.closing(apsw.Connection(str(path))) as connection:
        connection.execute(f"UPDATE codes_metadatachunks05 SET data = {data}")
    with open_store(path) as store:
        for look in (lambda: store.see("green lamp", here), lambda: store.forget([1])):
            with contextlib.suppress(MemoryStoreError):
                look()


def test_what_a_caller_gives_wrongly_is_no_damage(tmp_path: Path) -> None:
    """A user who reads that a store is damaged moves it away, with all that is in it."""
    with open_store(tmp_path / "m.db") as store:
        store.add("the window is open", place=Place(1.0, 2.0, "home"))
        calls: list[Callable[[], object]] = [
            lambda: store.recall("window", only=RecordFilter(since_s="yesterday")),  # type: ignore[arg-type]
            lambda: store.recall("window", limit="3"),  # type: ignore[arg-type]
            lambda: store.seen(["window"]),  # type: ignore[arg-type]
        ]
        for call in calls:
            with pytest.raises((TypeError, ValueError)):
                call()
        for call in (lambda: store.seen("\udcff"), lambda: store.see("cup", Place(1.0, 2.0, "\udcff"))):
            with pytest.raises(StoreInputError, match="no text"):
                call()
        assert [record.text for record in store.newest()] == ["the window is open"]
