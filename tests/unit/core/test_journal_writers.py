"""Journals that are full, changed or written by several processes continue."""

from __future__ import annotations

import multiprocessing
import threading
from pathlib import Path
from typing import BinaryIO

import pytest

from outrider.core.errors import ConfigError
from outrider.core.files import journal as journal_module
from outrider.core.files import journal_proof
from outrider.core.files.given_file import open_file
from outrider.core.files.journal import MAX_CHARACTERS, Journal
from outrider.core.files.journal_files import (
    CONTINUED,
    changed_of,
    full_of,
    head_of,
    key_of,
)
from outrider.core.files.journal_proof import prove
from outrider.core.files.writing import replace_file


def test_a_full_journal_goes_on_in_a_new_file_and_stays_bounded(tmp_path: Path) -> None:
    path = tmp_path / "small.journal"
    writer = Journal(path, most_bytes=2000)
    for n in range(60):
        writer.write("viewer 1", "say", f"turn({n})")
    files = sorted(tmp_path.glob("small.journal*"))
    assert {file.name for file in files} == {
        "small.journal",
        "small.journal.1",
        "small.journal_key",
        "small.journal_head",
    }
    assert all(file.stat().st_size < 2500 for file in files)
    proof = prove(path)
    assert proof.holds and proof.entries[-1].what == "turn(59)" and proof.entries[0].n > 1
    lines = files[1].read_bytes().splitlines(keepends=True)
    files[1].write_bytes(b"".join(lines[:-1]))
    assert (prove(path).first.file, prove(path).first.line) == (path, 1)


@pytest.mark.parametrize("end", [b"torn", b'{"n":1}\n', b"\n"])
def test_a_journal_whose_end_was_changed_is_kept_and_a_new_one_says_so(journal: Path, end: bytes) -> None:
    changed = journal.read_bytes() + end
    journal.write_bytes(changed)
    Journal(journal).write("viewer 1", "say", "stop")
    assert journal.with_name(f"{journal.name}.changed").read_bytes() == changed
    proof = prove(journal)
    assert [entry.did for entry in proof.entries[12:]] == [CONTINUED, "say"] and proof.goes_on
    assert not proof.holds and (proof.first.file, proof.first.line) == (changed_of(journal), 13)


def _write_many(path: Path, most_bytes: int) -> None:
    for n in range(15):
        Journal(path, most_bytes).write("writer", "say", str(n))


def test_no_moment_is_without_the_file_while_a_full_one_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "full.journal"
    Journal(path, most_bytes=300).write("first", "say", "x" * 100)
    seen: list[bytes] = []

    def watched(file: Path, content: bytes) -> None:
        assert file != head_of(path)
        seen.append(path.read_bytes())
        replace_file(file, content)
        seen.append(path.read_bytes())

    monkeypatch.setattr(journal_module, "replace_file", watched)
    Journal(path, most_bytes=300).write("second", "say", "y")
    assert len(seen) == 4 and all(seen)
    assert prove(path).holds and [entry.did for entry in prove(path).entries] == ["say", CONTINUED, "say"]


def test_who_writes_while_a_full_file_is_replaced_waits_for_its_head(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "full.journal"
    Journal(path, most_bytes=300).write("first", "say", "x" * 100)
    others = threading.Thread(target=lambda: [Journal(path).write("others", "say", str(n)) for n in range(3)])

    def watched(file: Path, content: bytes) -> None:
        replace_file(file, content)
        if file == path:
            others.start()
            others.join(0.3)  # long enough for a race to show

    with monkeypatch.context() as patched:
        patched.setattr(journal_module, "replace_file", watched)
        Journal(path, most_bytes=300).write("second", "say", "y")
    others.join(60)
    assert prove(path).holds
    assert [entry.who for entry in prove(path).entries] == ["first", "journal", "second"] + ["others"] * 3


def test_a_journal_that_is_put_aside_while_it_is_proven_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, written = tmp_path / "full.journal", []
    writer = Journal(path, most_bytes=1000)
    while not full_of(path).exists():
        writer.write("first", "say", "x" * 100)

    def watched(file: Path) -> BinaryIO:
        if file == full_of(path) and not written:  # the file that follows it has been read by now
            before = file.stat().st_ino
            while file.stat().st_ino == before:
                written.append(writer.write("second", "say", "y" * 100))
        return open_file(file)

    with monkeypatch.context() as patched:
        patched.setattr(journal_proof, "open_file", watched)
        proof = prove(path, most_bytes=1000)
    assert len(written) > 1 and proof.holds and proof.entries[-1].who == "second"


def test_a_kill_between_two_files_leaves_a_chain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "killed.journal"
    Journal(path, most_bytes=300).write("first", "say", "x" * 100)

    def killed(file: Path, content: bytes) -> None:
        if file == path:
            raise KeyboardInterrupt
        replace_file(file, content)

    with monkeypatch.context() as patched:
        patched.setattr(journal_module, "replace_file", killed)
        with pytest.raises(KeyboardInterrupt):
            Journal(path, most_bytes=300).write("second", "say", "y")
    assert prove(path, most_bytes=300).holds and len(prove(path, most_bytes=300).entries) == 1
    assert not prove(path).holds, "a copy beside a file that is not full is none of the writer's"
    Journal(path, most_bytes=300).write("third", "say", "z")
    assert prove(path).holds and prove(path).entries[-1].what == "z"


@pytest.mark.lengthy
@pytest.mark.parametrize("most_bytes", [700, 6000])
def test_several_processes_write_one_chain(tmp_path: Path, most_bytes: int) -> None:
    path = tmp_path / "shared.journal"
    Journal(path).write("first", "opened")
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write_many, args=(path, most_bytes)) for _ in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
        assert writer.exitcode == 0
    proof = prove(path)
    assert proof.holds and sum(e.did == "say" for e in proof.entries) <= 45 <= proof.entries[-1].n


@pytest.mark.parametrize("text", ["\x00\x1b[31m", "a\nb\r\n\u2028c", "\ud800", "🤖" * 500, '"}\n{"n":2,"'])
def test_any_text_makes_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "odd.journal"
    Journal(path).write(text, "say", text)
    Journal(path).write("viewer 1", "say")
    assert prove(path).holds and len(prove(path).entries) == 2
    assert len(prove(path).entries[0].what) <= MAX_CHARACTERS


def test_what_cannot_be_used_is_named(tmp_path: Path, journal: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read the journal"):
        prove(tmp_path / "none.journal", key_of(journal))
    with pytest.raises(ConfigError, match="journal's key"):
        prove(journal, tmp_path / "no.key")
    key_of(journal).chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        Journal(journal)
    key_of(journal).chmod(0o600)
    journal.unlink()
    journal.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="is a link"):
        Journal(journal).write("viewer 1", "say")
