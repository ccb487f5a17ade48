"""The journal: whatever is changed in it without its key is named."""

from __future__ import annotations

import multiprocessing
import random
import stat
from pathlib import Path

import msgspec
import pytest

from outrider.core.errors import ConfigError
from outrider.core.files import journal as journal_module
from outrider.core.files.journal import CONTINUED, MOST_CHARACTERS, Journal, key_of, prove
from outrider.core.files.writing import replace_file

SAID = [("viewer 1", "say", "find(red chair)"), ("agent 2", "say", "turn(90)"), ("viewer 1", "e_stop", "")]


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    path = tmp_path / "of a robot.journal"
    writer = Journal(path)
    for entry in SAID * 4:
        writer.write(*entry)
    return path


def test_what_was_written_is_proven_in_order(journal: Path) -> None:
    proof = prove(journal)
    assert proof.holds and proof.reason == ""
    assert [(entry.who, entry.did, entry.what) for entry in proof.entries] == SAID * 4
    assert [entry.n for entry in proof.entries] == list(range(1, 13))


def test_journal_and_key_are_private_from_their_first_byte(journal: Path) -> None:
    for file in (journal, key_of(journal)):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_any_changed_byte_is_named_by_its_line(journal: Path) -> None:
    content, rng = journal.read_bytes(), random.Random(7)
    for place in rng.sample(range(len(content)), 300):
        changed = bytearray(content)
        changed[place] ^= 1 << rng.randrange(8)
        journal.write_bytes(changed)
        proof = prove(journal)
        assert proof.line == 1 + content[:place].count(b"\n")
        assert proof.reason.startswith("its signature does not fit")


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda lines: lines[:4] + lines[5:], 5),
        (lambda lines: [*lines[:4], lines[5], lines[4], *lines[6:]], 5),
        (lambda lines: [*lines[:4], lines[3], *lines[4:]], 5),
        (lambda lines: [*lines, lines[-1]], 13),
        (lambda lines: [*lines[:-1], lines[-1][:-1]], 12),
        (lambda lines: [*lines, b"{}\n"], 13),
        (lambda lines: [*lines, b"\xff\x00" * 50], 13),
        (lambda lines: [b'{"n":' + b"[" * 100_000, *lines], 1),
    ],
    ids=["left out", "swapped", "repeated", "replayed", "cut in a line", "empty", "no text", "deep"],
)
def test_lines_left_out_put_in_or_moved_are_named(journal: Path, change, line: int) -> None:
    journal.write_bytes(b"".join(change(journal.read_bytes().splitlines(keepends=True))))
    assert (prove(journal).holds, prove(journal).line) == (False, line)


def test_another_key_proves_nothing(journal: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.journal"
    Journal(other).write("x", "say")
    assert prove(journal, key_of(other)).line == 1


def test_a_closing_line_tells_of_lines_cut_off(journal: Path) -> None:
    assert not prove(journal).is_closed
    Journal(journal).write("console", "closed")
    assert prove(journal).is_closed
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:-2]))
    assert prove(journal).holds and not prove(journal).is_closed


def test_a_full_journal_goes_on_in_a_new_file_and_stays_bounded(tmp_path: Path) -> None:
    path = tmp_path / "small.journal"
    writer = Journal(path, most_bytes=2000)
    for n in range(60):
        writer.write("viewer 1", "say", f"turn({n})")
    files = sorted(tmp_path.glob("small.journal*"))
    assert {file.name for file in files} == {"small.journal", "small.journal.1", "small.journal_key"}
    assert all(file.stat().st_size < 2500 for file in files)
    proof = prove(path)
    assert proof.holds and proof.entries[-1].what == "turn(59)" and proof.entries[0].n > 1
    lines = files[1].read_bytes().splitlines(keepends=True)
    files[1].write_bytes(b"".join(lines[:-1]))
    assert (prove(path).file, prove(path).line) == (path, 1)


@pytest.mark.parametrize("end", [b"torn", b'{"n":1}\n', b"\n"])
def test_a_journal_whose_end_was_changed_is_kept_and_a_new_one_says_so(journal: Path, end: bytes) -> None:
    changed = journal.read_bytes() + end
    journal.write_bytes(changed)
    Journal(journal).write("viewer 1", "say", "stop")
    assert journal.with_name(f"{journal.name}.changed").read_bytes() == changed
    proof = prove(journal)
    assert proof.holds and [entry.did for entry in proof.entries] == [CONTINUED, "say"]


def _write_many(path: Path, most_bytes: int) -> None:
    for n in range(50):
        Journal(path, most_bytes).write("writer", "say", str(n))


def test_no_moment_is_without_the_file_while_a_full_one_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "full.journal"
    Journal(path, most_bytes=300).write("first", "say", "x" * 100)
    seen: list[bytes] = []

    def watched(file: Path, content: bytes) -> None:
        seen.append(path.read_bytes())
        replace_file(file, content)
        seen.append(path.read_bytes())

    monkeypatch.setattr(journal_module, "replace_file", watched)
    Journal(path, most_bytes=300).write("second", "say", "y")
    assert len(seen) == 4 and all(seen)
    assert prove(path).holds and [entry.did for entry in prove(path).entries] == ["say", CONTINUED, "say"]


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
    assert prove(path).holds and len(prove(path).entries) == 1
    Journal(path, most_bytes=300).write("third", "say", "z")
    assert prove(path).holds and prove(path).entries[-1].what == "z"


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
    assert proof.holds and sum(e.did == "say" for e in proof.entries) <= 150 <= proof.entries[-1].n


@pytest.mark.parametrize("text", ["\x00\x1b[31m", "a\nb\r\n\u2028c", "\ud800", "🤖" * 500, '"}\n{"n":2,"'])
def test_any_text_makes_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "odd.journal"
    Journal(path).write(text, "say", text)
    Journal(path).write("viewer 1", "say")
    assert prove(path).holds and len(prove(path).entries) == 2
    assert len(prove(path).entries[0].what) <= MOST_CHARACTERS


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


def test_an_entry_says_when_in_utc(journal: Path) -> None:
    entry = msgspec.json.decode(journal.read_bytes().splitlines()[0])
    assert entry["at"].endswith("+00:00") and entry["before"] == (
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"  # SHA-256 of nothing
    )
