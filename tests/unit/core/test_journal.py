"""The journal: any change made without its key is named."""

from __future__ import annotations

import random
import stat
from pathlib import Path

import msgspec
import pytest
from journals import SAID, crash, lines_of

from outrider.core.files.journal import TORN, Journal
from outrider.core.files.journal_files import (
    CONTINUED,
    Head,
    changed_of,
    full_of,
    hash_of,
    head_of,
    key_of,
    write_head,
)
from outrider.core.files.journal_proof import prove


def test_what_was_written_is_proven_in_order(journal: Path) -> None:
    proof = prove(journal)
    assert proof.holds and proof.first.reason == ""
    assert [(entry.who, entry.did, entry.what) for entry in proof.entries] == SAID * 4
    assert [entry.n for entry in proof.entries] == list(range(1, 13))


def test_journal_and_key_are_private_from_their_first_byte(journal: Path) -> None:
    for file in (journal, key_of(journal), head_of(journal)):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_any_changed_byte_is_named_by_its_line(journal: Path) -> None:
    content, rng = journal.read_bytes(), random.Random(7)
    for place in rng.sample(range(len(content)), 300):
        changed = bytearray(content)
        changed[place] ^= 1 << rng.randrange(8)
        journal.write_bytes(changed)
        proof = prove(journal)
        assert proof.first.line == 1 + content[:place].count(b"\n")
        assert proof.first.reason.startswith("its signature does not fit")


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
    assert (prove(journal).holds, prove(journal).first.line) == (False, line)


def test_another_key_proves_nothing(journal: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.journal"
    Journal(other).write("x", "say")
    assert prove(journal, key_of(other)).first.line == 1


def test_a_closing_line_shows_that_the_writer_has_ended(journal: Path) -> None:
    assert not prove(journal).is_closed
    Journal(journal).write("console", "closed")
    assert prove(journal).is_closed


@pytest.mark.parametrize("count", range(1, 13))
def test_lines_cut_at_the_end_are_named_until_the_last(journal: Path, count: int) -> None:
    journal.write_bytes(b"".join(lines_of(journal)[:-count]))
    proof = prove(journal)
    assert (proof.holds, proof.first.line, len(proof.entries)) == (False, 13 - count, 12 - count)
    assert "up to entry 12" in proof.first.reason


@pytest.mark.parametrize("count", range(1, 12))
def test_lines_cut_at_the_begin_are_named(journal: Path, count: int) -> None:
    journal.write_bytes(b"".join(lines_of(journal)[count:]))
    proof = prove(journal)
    assert (proof.holds, proof.first.line) == (False, 1) and f"it is entry {count + 1}" in proof.first.reason


def test_a_whole_session_taken_away_is_named(tmp_path: Path) -> None:
    path = tmp_path / "sessions.journal"
    for session in range(3):
        for did in ("opened", "say", "closed"):
            Journal(path).write("console", did, str(session))
    lines = lines_of(path)
    for kept in (lines[:6], lines[3:], [*lines[:3], *lines[6:]]):
        path.write_bytes(b"".join(kept))
        assert not prove(path).holds
    path.write_bytes(b"".join(lines))
    assert prove(path).holds and prove(path).is_closed


@pytest.mark.parametrize("kept", [b"", b"\0" * 300, b'{"n":1,"at":"'], ids=["emptied", "zeros", "begun"])
def test_a_journal_that_was_emptied_is_named(journal: Path, kept: bytes) -> None:
    journal.write_bytes(kept)
    assert (prove(journal).holds, prove(journal).first.line) == (False, 1)


@pytest.mark.parametrize(
    "head", [None, b"", b"{}\n", b'{"n":3}\n'], ids=["none", "empty", "unsigned", "no head"]
)
def test_without_its_head_nothing_is_proven(journal: Path, head: bytes | None) -> None:
    head_of(journal).unlink() if head is None else head_of(journal).write_bytes(head)
    assert not prove(journal).holds and head_of(journal).name in prove(journal).first.reason


def test_the_head_of_another_journal_proves_nothing(journal: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.journal"
    key_of(other).write_bytes(key_of(journal).read_bytes())
    key_of(other).chmod(0o600)
    for _ in range(3):
        Journal(other).write("x", "say")
    head_of(journal).write_bytes(head_of(other).read_bytes())
    assert "names an entry 3 that is not there" in prove(journal).first.reason


def test_a_new_journal_holds_before_its_first_line(tmp_path: Path) -> None:
    path = tmp_path / "new.journal"
    Journal(path)
    path.touch()
    assert prove(path).holds and prove(path).entries == ()


@pytest.mark.parametrize("notes", [1, 2, 40])
def test_a_writer_killed_before_it_wrote_the_head_leaves_an_honest_journal(
    journal: Path, monkeypatch: pytest.MonkeyPatch, notes: int
) -> None:
    crash(Journal(journal), monkeypatch, notes)
    assert prove(journal).holds and len(prove(journal).entries) == 12 + notes
    Journal(journal).write("next", "say")
    proof = prove(journal)
    assert proof.holds and proof.entries[-1].n == 13 + notes and not changed_of(journal).exists()


def test_a_writer_killed_before_its_first_head_leaves_an_honest_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "first.journal"
    crash(Journal(path), monkeypatch)
    assert prove(path).holds and len(prove(path).entries) == 1
    Journal(path).write("next", "say")
    assert prove(path).holds and len(prove(path).entries) == 2


@pytest.mark.parametrize("whole", [0, 1, 5], ids=["alone", "after one", "after several"])
@pytest.mark.parametrize("length", [1, 10, 200, -1])
@pytest.mark.parametrize("zeros", [0, 100])
def test_a_line_that_was_not_written_to_its_end_makes_no_journal_look_forged(
    journal: Path, monkeypatch: pytest.MonkeyPatch, whole: int, length: int, zeros: int
) -> None:
    crash(Journal(journal), monkeypatch, whole + 1)
    lines = lines_of(journal)
    journal.write_bytes(b"".join(lines[:-1]) + lines[-1][:length] + b"\0" * zeros)
    proof = prove(journal)
    assert proof.holds and proof.torn and len(proof.entries) == 12 + whole
    Journal(journal).write("next", "say")
    proof = prove(journal)
    assert proof.holds and not proof.torn and not changed_of(journal).exists()
    assert [(e.did, e.what) for e in proof.entries[-2:]] == [("lost", TORN), ("say", "")]


def test_what_was_cut_is_named_though_a_writer_goes_on(journal: Path) -> None:
    """Otherwise the next line would hide the cut."""
    journal.write_bytes(b"".join(lines_of(journal)[:-4]))
    Journal(journal).write("next", "say")
    proof = prove(journal)
    assert [entry.did for entry in proof.entries[8:]] == [CONTINUED, "say"] and proof.entries[8].n == 13
    assert changed_of(journal).name in proof.entries[8].what and len(lines_of(changed_of(journal))) == 8
    assert not proof.holds and "has no entries 9 to 12" in proof.first.reason and proof.first.after == 8
    changed_of(journal).unlink()
    assert "has no entries 1 to 12" in prove(journal).first.reason and prove(journal).first.after == 0


@pytest.mark.parametrize("lost", ["head", "journal", "journal emptied"])
def test_what_was_taken_away_is_named_though_a_writer_goes_on(journal: Path, lost: str) -> None:
    if lost == "head":
        head_of(journal).unlink()
    elif lost == "journal":
        journal.unlink()
    else:
        journal.write_bytes(b"")
    Journal(journal).write("next", "say")
    assert [entry.did for entry in prove(journal).entries[-2:]] == [CONTINUED, "say"]
    assert not prove(journal).holds and changed_of(journal).exists()


def test_a_full_file_that_was_taken_away_is_named(tmp_path: Path) -> None:
    path = tmp_path / "full.journal"
    writer = Journal(path, most_bytes=1000)
    while not full_of(path).exists() or len(lines_of(path)) < 2:
        writer.write("viewer 1", "say")
    assert prove(path).holds
    full = full_of(path).read_bytes()
    for kept in (b"", b"".join(full.splitlines(keepends=True)[:-1]), path.read_bytes()):
        full_of(path).write_bytes(kept)
        assert not prove(path).holds
    full_of(path).unlink()
    assert (prove(path).holds, prove(path).first.line) == (False, 1)
    assert f"it continues {full_of(path)}" in prove(path).first.reason


def test_an_older_head_lets_no_line_be_cut_before_it(journal: Path) -> None:
    lines = lines_of(journal)
    key = key_of(journal).read_text().strip().encode()
    write_head(journal, 7, hash_of(lines[6]), key)
    assert prove(journal).holds
    journal.write_bytes(b"".join(lines[:6]))
    assert "up to entry 7" in prove(journal).first.reason
    write_head(journal, 7, Head().line, key)
    journal.write_bytes(b"".join(lines))
    assert "names an entry 7" in prove(journal).first.reason


def test_an_entry_has_its_time_in_utc(journal: Path) -> None:
    entry = msgspec.json.decode(journal.read_bytes().splitlines()[0])
    assert entry["at"].endswith("+00:00") and entry["before"] == (
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"  # SHA-256 of nothing
    )
