"""Forgotten records are in no byte of the store, however they were dropped and whoever reads the file."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import pytest
from support.memories import WordEmbedder, another_reader

from outrider.core.errors import MemoryStoreError, NotErasedError
from outrider.core.values import Place
from outrider.memory.store import store
from outrider.memory.store.eviction import StoreLimits
from outrider.memory.store.ranking import sign_code
from outrider.memory.store.store import MemoryStore

SECRET = "spare key behind the brick 731"


def bytes_of(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(folder.iterdir()))


def gone(folder: Path, within_s: float = 10.0) -> bool:
    """Return whether the secret disappears from all files of the store within `within_s`."""
    deadline_s = time.monotonic() + within_s
    while SECRET.encode() in bytes_of(folder):
        if time.monotonic() > deadline_s:
            return False
        threading.Event().wait(0.02)
    return True


def opened(path: Path, erase_period_s: float = 0.05, **given: Any) -> MemoryStore:
    soon: dict[str, Any] = {"erase_period_s": erase_period_s, "evicted_erase_s": 0.2, "forget_wait_ms": 50}
    return MemoryStore(path, WordEmbedder(), **soon, **given)


def words(number: int, rng: random.Random) -> str:
    filler = " ".join(f"word{rng.randrange(1000)}" for _ in range(rng.choice([1, 5, 40, 200])))
    return f"secret{number:05d}x {filler}"


@pytest.mark.lengthy
@pytest.mark.parametrize("seed", range(3))
def test_nothing_of_many_forgotten_records_stays(seed: int, tmp_path: Path) -> None:
    """Neither where SQLite has moved a record from page to page, nor in the signs of its vectors."""
    rng = random.Random(seed)
    live: dict[int, str] = {}
    forgotten: list[str] = []
    with opened(tmp_path / "m.db") as memory:
        with memory.batch():
            for number in range(250):
                live[memory.add(words(number, rng)).id] = f"secret{number:05d}x"
        for _ in range(25):
            ids = rng.sample(sorted(live), 8)
            codes = [bytes(row[0]) for row in codes_of(memory, ids)]
            memory.forget(ids)
            forgotten += [live.pop(one) for one in ids]
            content = bytes_of(tmp_path)
            assert not [secret for secret in forgotten if secret.encode() in content]
            assert not [code for code in codes if code in content]
        memory.verify()
        assert all(secret.encode() in content for secret in live.values())


def codes_of(memory: MemoryStore, ids: list[int]) -> list[tuple[bytes]]:
    marks = ",".join(map(str, ids))
    rows = memory._connection.execute(f"SELECT embedding FROM passages WHERE record IN ({marks})")
    return [(sign_code(np.frombuffer(row[0], dtype=np.float16).astype(np.float32)),) for row in rows]


def test_beside_a_reader_it_is_said_and_gone_soon_after_the_reader(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    with opened(path) as memory:
        record = memory.add(SECRET)
        with another_reader(path):
            with pytest.raises(
                NotErasedError, match=r"1 now.*another process reads .*m\.db.*end it"
            ) as raised:
                memory.forget([record.id])
            assert raised.value.num_forgotten == 1 and memory.count() == 0
            assert SECRET.encode() in bytes_of(tmp_path), "else there was nothing to say"
            with pytest.raises(NotErasedError):
                memory.forget([record.id])
        assert gone(tmp_path) and memory.forget([record.id]) == 0


def test_a_command_beside_a_reader_leaves_the_rest_to_the_node(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    with opened(path, limits=StoreLimits()):
        with opened(path) as command:
            record = command.add(SECRET)
            with another_reader(path), pytest.raises(NotErasedError):
                command.forget([record.id])
            # The command ends before it could try again.
            command._closing.set()
        assert gone(tmp_path)


def test_without_a_node_the_next_opening_erases(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    with opened(path, 3600.0), another_reader(path):
        with opened(path, 3600.0) as memory:
            memory.add(SECRET)
        with another_reader(path), opened(path, 3600.0) as memory, pytest.raises(NotErasedError):
            memory.forget_matching("brick")
    opened(path, 3600.0).close()
    assert SECRET.encode() not in bytes_of(tmp_path)


@pytest.mark.parametrize("way", ["number", "megabytes", "age"])
def test_what_goes_by_the_limits_is_erased_too(way: str, tmp_path: Path) -> None:
    limits = {
        "number": StoreLimits(max_records=3),
        "megabytes": StoreLimits(max_mb=0.4),
        "age": StoreLimits(max_age_days=1.0),
    }[way]
    start_s = 1_700_000_000.0
    with opened(tmp_path / "m.db", limits=limits) as memory:
        memory.see(SECRET, Place(0.0, 0.0), time_s=start_s)
        number = 0
        while memory.holding("brick"):
            number += 1
            assert number < 200
            text = f"{number} " + ("long text " * 150 if way == "megabytes" else "other")
            memory.add(text, time_s=start_s + number * 0.4 * 86_400.0)
        assert gone(tmp_path)
        memory.verify()


def test_an_encrypted_store_is_rewritten_too(tmp_path: Path) -> None:
    with opened(tmp_path / "m.db", key_file=tmp_path / "key") as memory:
        memory.add("kept")
        memory.forget([memory.add(SECRET).id])
        memory.verify()
    with opened(tmp_path / "m.db", key_file=tmp_path / "key") as memory:
        assert [record.text for record in memory.newest()] == ["kept"]


def test_a_disk_without_room_to_erase_stops_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: object) -> None:
        raise apsw.FullError("database or disk is full")

    with opened(tmp_path / "m.db") as memory:
        record = memory.add(SECRET)
        with monkeypatch.context() as patched:
            patched.setattr(store, "erase", fails)
            with pytest.raises(MemoryStoreError, match="disk is full"):
                memory.forget([record.id])
            memory.add("kept")
            with opened(tmp_path / "m.db") as other:
                assert [one.text for one in other.newest()] == ["kept"]
        memory.add("later")
        assert SECRET.encode() not in bytes_of(tmp_path)


def test_in_a_batch_it_is_erased_after_it(tmp_path: Path) -> None:
    with opened(tmp_path / "m.db") as memory:
        record = memory.add(SECRET)
        with memory.batch():
            memory.forget([record.id])
            memory.add("other")
        assert SECRET.encode() not in bytes_of(tmp_path)
