"""Lines that a disk or another process keeps from the journal are counted in it, and reported meanwhile."""

from __future__ import annotations

import fcntl
import os
import random
import time
from pathlib import Path
from typing import Any

import pytest
from support.consoles import wait_until

from outrider.core.errors import ConfigError
from outrider.core.files import journal as journal_module
from outrider.core.files.journal import Journal
from outrider.core.files.journal_files import LOST, key_of
from outrider.core.files.journal_proof import prove
from outrider.core.files.notary import HELD_UP, Notary


def lost_in(path: Path) -> int:
    return sum(int(entry.what.split()[0]) for entry in prove(path).entries if entry.did == LOST)


class Disk:
    """A disk with `room` bytes left, for lines and heads alike; it may cut a write short."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.room = 1 << 30
        self._write, self._name = os.write, Journal._name
        monkeypatch.setattr(journal_module.os, "write", self.write)
        disk = self

        def name(journal: Journal, newest: Any) -> None:
            if disk.room < 100:
                raise ConfigError("cannot write the head: no space left")
            disk._name(journal, newest)

        monkeypatch.setattr(Journal, "_name", name)

    def write(self, descriptor: int, content: Any) -> int:
        if self.room <= 0:
            raise OSError(28, "No space left on device")
        count = self._write(descriptor, content[: self.room])
        self.room -= count
        return count


@pytest.mark.parametrize("seed", range(6))
def test_every_line_is_written_or_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    rng, disk, path = random.Random(seed), Disk(monkeypatch), tmp_path / "r.journal"
    notary = Notary(Journal(path), "console", str)
    noted = 0
    for _ in range(4):
        disk.room = rng.randrange(0, 20_000)
        while not notary.fault:
            for _ in range(rng.randrange(1, 40)):
                notary.note("viewer 1", "drive", "x" * rng.randrange(150))
                noted += 1
            wait_until(notary._waiting.empty, "all is taken")
        disk.room = 1 << 30
        notary.note("viewer 1", "drive")
        noted += 1
        wait_until(lambda: not notary.fault, "there is room again")
    notary.close()
    proof = prove(path)
    assert proof.holds and proof.is_closed
    written = sum(entry.did == "drive" for entry in proof.entries)
    assert lost_in(path) > 0 and written + lost_in(path) == noted


def test_a_journal_locked_by_another_process_is_reported_and_delays_no_exit(tmp_path: Path) -> None:
    path = tmp_path / "r.journal"
    notary = Notary(Journal(path), "console", str, slow_s=0.05, close_s=0.3)
    wait_until(lambda: path.exists() and prove(path).entries, "its first line")
    with key_of(path).open("rb") as key:
        fcntl.flock(key, fcntl.LOCK_EX)
        notary.note("viewer 1", "drive")
        wait_until(lambda: notary.fault == HELD_UP, "the fault")
        for _ in range(1200):
            notary.note("viewer 1", "drive")
        began_s = time.monotonic()
        notary.close()
        assert time.monotonic() - began_s < 2.0
    wait_until(lambda: sum(one.did == "drive" for one in prove(path).entries) >= 1000, "what waited")
    assert prove(path).holds


@pytest.mark.parametrize("kind", ["folder", "pipe", "/dev/full", "/dev/null"])
def test_what_is_no_file_is_refused(tmp_path: Path, kind: str) -> None:
    path = Path(kind) if kind.startswith("/") else tmp_path / "r.journal"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    with pytest.raises(ConfigError, match="is no file"):
        Journal(path)
    assert not key_of(path).exists()
