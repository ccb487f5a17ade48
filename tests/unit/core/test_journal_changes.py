"""A journal that was changed while its robot went on writing: the proof names the change in any case."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from outrider.core.files.journal import Journal
from outrider.core.files.journal_files import CONTINUED, FULL, changed_of, full_of, head_of, key_of
from outrider.core.files.journal_proof import Proof, prove
from outrider.runtime.reports.journal_report import SHOWN, print_proof, verdict

LINES = 12


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    path = tmp_path / "robot.journal"
    write(path, LINES)
    return path


def write(path: Path, count: int, most_bytes: int = 1 << 20) -> None:
    writer = Journal(path, most_bytes)
    for n in range(count):
        writer.write("viewer 1", "say", f"turn({n})")


def change_end(path: Path) -> None:
    """Change a letter of the last line, without the key."""
    content = path.read_bytes()
    place = content.rindex(b"viewer")
    path.write_bytes(content[:place] + b"V" + content[place + 1 :])


def another(journal: Path) -> bytes:
    """Return the file of another journal with the same key, such as that of the owner's other robot."""
    other = journal.with_name("other.journal")
    shutil.copy(key_of(journal), key_of(other))
    write(other, LINES)
    return other.read_bytes()


def foreign(journal: Path) -> bytes:
    other = journal.with_name("foreign.journal")
    write(other, LINES)
    return other.read_bytes()


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


AFTERWARDS: dict[str, Callable[[Path], bytes | None]] = {
    "left": lambda journal: changed_of(journal).read_bytes(),
    "removed": lambda journal: None,
    "emptied": lambda journal: b"",
    "anything": lambda journal: b"anything",
    "cut": lambda journal: b"".join(lines_of(changed_of(journal))[:5]),
    "its begin cut": lambda journal: b"".join(lines_of(changed_of(journal))[5:]),
    "only the changed line left out": lambda journal: b"".join(lines_of(changed_of(journal))[:-1]),
    "the newer file": lambda journal: journal.read_bytes(),
    "another journal's": another,
    "a foreign journal's": foreign,
    "too large": lambda journal: b"x" * (17 << 20),
}


@pytest.mark.lengthy
@pytest.mark.parametrize("afterwards", AFTERWARDS)
@pytest.mark.parametrize("since", [1, SHOWN + 5])
def test_a_change_is_named_whatever_becomes_of_the_changed_file(
    journal: Path, afterwards: str, since: int, capsys: pytest.CaptureFixture[str]
) -> None:
    change_end(journal)
    write(journal, since)
    content = AFTERWARDS[afterwards](journal)
    changed_of(journal).unlink() if content is None else changed_of(journal).write_bytes(content)
    proof, report = prove(journal), journal.with_name("report.json")
    assert not proof.holds and not print_proof(journal, json_file=report)
    said = capsys.readouterr().out
    assert changed_of(journal).name in said and "is not as it was written" in said
    assert f"After it entries {LINES + 1} to {LINES + 1 + since} are as they were written." in said
    assert json.loads(report.read_text())["faults"][0]["reason"] == proof.first.reason
    assert proof.first.after == (
        LINES - 1
        if afterwards in ("left", "only the changed line left out")
        else 5
        if afterwards == "cut"
        else proof.first.after
    )


def test_a_changed_file_is_reported_with_its_line(journal: Path) -> None:
    change_end(journal)
    write(journal, 1)
    proof = prove(journal)
    assert (proof.first.file, proof.first.line, proof.first.after) == (changed_of(journal), LINES, LINES - 1)
    assert verdict(proof).startswith(f"line {LINES} of {changed_of(journal)} is not as it was written: its")
    assert "The 11 lines before it are proven. After it entries 13 to 14 are" in verdict(proof)


def test_a_change_that_was_made_good_is_named_all_the_same(journal: Path) -> None:
    before = journal.read_bytes()
    change_end(journal)
    write(journal, 1)
    changed_of(journal).write_bytes(before)
    proof = prove(journal)
    assert (proof.holds, proof.first.file, proof.first.line) == (False, journal, 1)
    assert "does not show how" in proof.first.reason and len(proof.entries) == LINES + 2


def test_each_of_several_changes_is_named(journal: Path) -> None:
    for _ in range(3):
        change_end(journal)
        write(journal, 2)
    proof = prove(journal)
    assert [(one.file, one.line) for one in proof.faults] == [
        (changed_of(journal), 1),
        (changed_of(journal), 3),
    ]
    assert "which has gone" in proof.first.reason and verdict(proof).count("not as it was written") == 2


@pytest.mark.parametrize("remove", [False, True])
def test_a_change_is_named_for_as_long_as_what_follows_it_is_kept(tmp_path: Path, remove: bool) -> None:
    """Both while its file is the newest, and once that file is full and another one is the newest."""
    path, most_bytes = tmp_path / "robot.journal", 1500
    write(path, 5, most_bytes)
    change_end(path)
    states = []
    for _ in range(25):
        write(path, 1, most_bytes)
        if remove:
            changed_of(path).unlink(missing_ok=True)
        proof = prove(path, most_bytes=most_bytes)
        states.append((proof.holds, any(e.did == CONTINUED and e.what != FULL for e in proof.entries)))
        assert proof.goes_on and proof.entries[-1].n >= 5
    assert set(states) == {(False, True), (True, False)} and states == sorted(states)


def test_a_change_of_a_file_that_followed_a_full_one_leaves_the_full_one_proven(tmp_path: Path) -> None:
    path, most_bytes = tmp_path / "robot.journal", 1500
    while not full_of(path).exists() or len(lines_of(path)) < 3:
        write(path, 1, most_bytes)
    before = prove(path, most_bytes=most_bytes)
    assert before.holds
    change_end(path)
    write(path, 2, most_bytes)
    proof = prove(path, most_bytes=most_bytes)
    last = len(lines_of(changed_of(path)))
    assert (proof.first.file, proof.first.line) == (changed_of(path), last) and len(proof.faults) == 1
    assert proof.entries[: proof.first.after] == before.entries[:-1]
    changed_of(path).write_bytes(b"")
    proof = prove(path, most_bytes=most_bytes)
    assert (proof.first.file, proof.first.line) == (path, 1) and "has no entries" in proof.first.reason


@pytest.mark.parametrize("size", [1600, 12 << 20])
def test_a_change_cannot_be_rolled_out_of_the_journal(tmp_path: Path, size: int) -> None:
    """Two full files later it would be dropped as too old. So nobody can fill a file without the key."""
    path, most_bytes = tmp_path / "robot.journal", 1500
    for _ in range(3):
        write(path, 3, most_bytes)
        lines = lines_of(path)
        path.write_bytes(b"".join(lines[:-1]) + b"x" * size + b"\n" + lines[-1])
    write(path, 1, most_bytes)
    before = full_of(path).exists() and full_of(path).read_bytes()
    while not full_of(path).exists() or full_of(path).read_bytes() == before:
        assert_unproven(prove(path, most_bytes=most_bytes))
        write(path, 1, most_bytes)
    assert_unproven(prove(path, most_bytes=most_bytes))


def crashed(path: Path, notes: int) -> None:
    """Write like a process that is killed after its lines and before the head."""
    head = head_of(path).read_bytes()
    write(path, notes)
    head_of(path).write_bytes(head)


@pytest.mark.parametrize("notes", [1, 5])
def test_a_kill_after_an_older_change_is_no_other_change(journal: Path, notes: int) -> None:
    change_end(journal)
    write(journal, 2)
    kept = changed_of(journal).read_bytes()
    crashed(journal, notes)
    with journal.open("ab") as file:
        file.write(b'{"n":')
    assert prove(journal).goes_on
    write(journal, 1)
    proof = prove(journal)
    assert changed_of(journal).read_bytes() == kept and len(proof.faults) == 1
    assert proof.entries[-1].n == LINES + 1 + 2 + notes + 2


def assert_unproven(proof: Proof) -> None:
    assert not proof.holds and proof.first.reason


@pytest.mark.lengthy
def test_whatever_is_done_to_the_files_without_the_key_is_named(tmp_path: Path) -> None:
    """Seeded: a robot's journal is changed, the robot goes on, and then any of its files is changed again."""
    for seed in range(60):
        rng, path = random.Random(seed), tmp_path / str(seed) / "robot.journal"
        path.parent.mkdir()
        write(path, rng.randrange(3, 8), 1 << 12)
        change_end(path)
        write(path, rng.randrange(1, 6), 1 << 12)
        for file in rng.sample([changed_of(path), path, head_of(path)], rng.randrange(0, 3)):
            content = file.read_bytes()
            place = rng.randrange(len(content))
            kept = rng.choice([b"", content[:place], content[place:], b"x" + content, content + content])
            file.write_bytes(kept)
        assert_unproven(prove(path, most_bytes=1 << 12))
        write(path, 2, 1 << 12)
        assert_unproven(prove(path, most_bytes=1 << 12))


BEYOND = 17 << 20
"""More bytes than are read of a journal's file."""


@pytest.mark.parametrize("begin", [b"", b'{"n":13,"at":"2026'])
def test_a_journal_that_somebody_has_made_too_large_is_named_and_goes_on(journal: Path, begin: bytes) -> None:
    with journal.open("ab") as file:
        file.write(begin + b"x" * BEYOND)
    assert (prove(journal).first.line, prove(journal).first.after) == (LINES + 1, LINES)
    write(journal, 3)
    proof = prove(journal)
    assert (proof.first.file, proof.first.line) == (changed_of(journal), LINES + 1) and proof.goes_on
    assert proof.entries[-1].n == LINES + 4 and changed_of(journal).stat().st_size > BEYOND


def test_a_full_file_that_is_too_large_is_named(journal: Path) -> None:
    full_of(journal).write_bytes(b"x" * BEYOND)
    assert (prove(journal).first.file, prove(journal).first.line) == (full_of(journal), 1)


def partial_of(journal: Path) -> Path:
    return journal.with_name(f"{changed_of(journal).name}.partial")


@pytest.mark.parametrize("at", [changed_of, partial_of])
def test_a_pipe_in_the_changed_files_place_holds_no_writer_up(
    journal: Path, at: Callable[[Path], Path]
) -> None:
    os.mkfifo(at(journal))
    change_end(journal)
    write(journal, 1)
    assert changed_of(journal).is_file() and prove(journal).goes_on
