"""The console's journal: who asked for what and what was done, with a proof for each line."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from support.consoles import FakeRobot, Page, wait_until
from typer.testing import CliRunner

from outrider import cli
from outrider.console import messages as m
from outrider.console.limits import ConsoleLimits
from outrider.console.robot import GoalEnd
from outrider.console.server import ConsoleServer, ConsoleSettings
from outrider.core.files.journal import Journal, Note
from outrider.core.files.journal_files import Entry
from outrider.core.files.journal_proof import prove
from outrider.core.files.notary import Notary
from outrider.core.language.sentences.planner import brief

PATIENT_S = 60.0
"""Timeout of a notary that reads its first sentence and loads the grammar for it."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "robot.journal"


@pytest.fixture
def notary(path: Path) -> Iterator[Notary]:
    notary = Notary(Journal(path), "console", brief, close_s=PATIENT_S)
    yield notary
    notary.close()


def entries(path: Path, did: str) -> list[Entry]:
    return [entry for entry in prove(path).entries if entry.did == did]


def test_a_journal_tells_who_asked_for_what_and_what_was_done(path: Path, notary: Notary) -> None:
    robot = FakeRobot()
    server = ConsoleServer(robot, ConsoleSettings(port=0), notary.note)
    first, second = Page(server).seated(), Page(server)
    first.send(do="say", text="turn left 90 degrees")
    wait_until(lambda: robot.goals, "the command")
    second.send(do="say", text="find the red chair")
    second.read("notice")
    server.show(m.Motion("s", 1, "TURN_LEFT", "completed", ""))
    robot.goals[0][1](GoalEnd(True, "private"))
    second.send(do="e_stop", engaged=True)
    wait_until(lambda: robot.e_stops, "the stop")
    server.close()
    notary.close()
    proof = prove(path)
    assert proof.holds and proof.is_closed
    told = [(e.who, e.did, e.what) for e in proof.entries]
    for expected in [
        ("viewer 1", "take", ""),
        ("viewer 1", "say", "turn(90)"),
        ("viewer 2", "refused", "viewer 1 has the driver's seat"),
        ("action", "moved", "TURN_LEFT: completed"),
        ("navigator", "done", "turn(90)"),
        ("viewer 2", "e_stop", ""),
    ]:
        assert expected in told


def test_the_plan_that_was_carried_out_is_noted_once(path: Path, notary: Notary) -> None:
    """Even if a sentence can be read only with a model's words, or corrects the one before."""
    server = ConsoleServer(FakeRobot(), ConsoleSettings(port=0), notary.note)
    notary.note("viewer 1", "say", said="the red ball, then turn left")
    steps, targets = ("find the red ball", "turn left 30 degrees"), ("red ball", "")
    for current in range(3):
        server.show(m.Plan(steps, current, current < 2, targets))
    server.show(m.Plan(("walk to my pin 1234567890",), 0, True, ("walk to my pin 1234567890",)))
    server.close()
    notary.close()
    told = ["find the red ball; turn left 30 degrees", "follow what was said"]
    assert [entry.what for entry in entries(path, "plan")] == told
    assert [entry.what for entry in entries(path, "say")] == ["a sentence of 28 characters"]
    assert b"1234567890" not in path.read_bytes()


def test_what_concerns_memory_is_not_written_down(path: Path, notary: Notary) -> None:
    for said in (
        "remember that my pin is 1234567890",
        "forget my pin 1234567890",
        "where is my pin 1234567890",
        "my pin is 1234567890",
        "go to my pin 1234567890",
    ):
        notary.note("viewer 1", "say", said=said)
    notary.close()
    assert b"1234567890" not in path.read_bytes() and len(entries(path, "say")) == 5


@pytest.mark.lengthy
def test_a_held_key_and_a_repeated_stop_are_written_once(path: Path, notary: Notary) -> None:
    robot, settings = FakeRobot(), ConsoleSettings(port=0, limits=ConsoleLimits(hold_s=60.0))
    server = ConsoleServer(robot, settings, notary.note)
    page = Page(server).seated()
    for _ in range(5):
        page.drive(forward=1.0)
    for _ in range(5):
        page.send(do="e_stop", engaged=True)
    wait_until(lambda: len(robot.e_stops) == 5, "the stops")
    server.close()
    notary.close()
    assert len(entries(path, "e_stop")) == 1 and len(entries(path, "drive")) <= 2


def test_a_journal_that_cannot_be_written_is_said_once_and_delays_nobody(
    path: Path, notary: Notary, caplog: pytest.LogCaptureFixture
) -> None:
    wait_until(lambda: path.exists(), "the first line")
    path.unlink()
    path.mkdir()
    with caplog.at_level(logging.ERROR):
        for _ in range(3000):
            notary.note("viewer 1", "cancel")
        wait_until(lambda: "robot.journal" in notary.fault, "the fault")
    assert 1 <= sum("journal is not written" in record.message for record in caplog.records) <= 2


def test_replay_proves_a_journal_and_names_the_line_that_was_changed(path: Path, notary: Notary) -> None:
    notary.note("viewer 1", "say", said="find the red chair")
    notary.note("\x1b[31mviewer", "say", "[bold]")
    notary.close()
    runner = CliRunner()
    whole = runner.invoke(cli.app, ["replay", str(path)])
    assert whole.exit_code == 0 and "every line is as it was written" in whole.output
    assert "find(red chair)" in whole.output and "\x1b[31mviewer" not in whole.output
    written = path.read_bytes()
    path.write_bytes(b"".join(written.splitlines(keepends=True)[:-1]))
    cut = runner.invoke(cli.app, ["replay", str(path)])
    assert cut.exit_code == 1 and f"line 4 of {path} is not as it was written: it is not there" in cut.output
    path.write_bytes(written.replace(b"red chair", b"red table"))
    changed = runner.invoke(cli.app, ["replay", str(path)])
    assert changed.exit_code == 1 and f"line 2 of {path} is not as it was written" in changed.output


def test_a_full_queue_is_counted_in_the_journal(tmp_path: Path) -> None:
    class Slow(Journal):
        def write_all(self, notes: Sequence[Note]) -> None:
            wait_until(lambda: ready, "the test")
            super().write_all(notes)

    ready: list[int] = []
    path = tmp_path / "slow.journal"
    notary = Notary(Slow(path), "console", brief, close_s=PATIENT_S)
    for _ in range(1100):
        notary.note("viewer 1", "cancel")
    assert notary.fault
    ready.append(1)
    notary.close()
    written = prove(path).entries
    lost = [int(entry.what.split()[0]) for entry in written if entry.did == "lost"]
    assert len(lost) == 1 and lost[0] + sum(entry.did == "cancel" for entry in written) in (1100, 1101)
