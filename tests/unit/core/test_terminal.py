"""Tables and the progress of long work, on a terminal and in a pipe."""

from __future__ import annotations

import time

import pytest
from rich.table import Table

from outrider.core.files.terminal import Pulse, loading, make_console, print_rows, printable, tracked


def test_a_piped_table_is_not_cut(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    table = Table(*(f"tokens per round of column {number}" for number in range(6)))
    make_console().print(table)
    printed = capsys.readouterr().out
    assert all(f"tokens per round of column {number}" in printed for number in range(6))


def test_a_width_that_is_asked_for_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "44")
    assert make_console().width == 44


@pytest.mark.parametrize("width", [20, 40, 60, 80, 240])
def test_rows_can_be_read_at_any_width(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    headings = ("id", "text", "visibility", "when", "place", "likeness", "matched")
    text = "my keys hang by the silver lamp in the hall, beside the coats"
    print_rows(make_console(), headings, [("1", text, "private", "2026-11-30", "", "0.64", text)] * 2)
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= width
    assert all(printed.count(word) == 4 for word in text.split() if word not in ("the",))
    assert printed.count("0.64") == printed.count("private") == 2


def test_words_longer_than_a_terminal_is_wide_lose_no_letter(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    print_rows(make_console(), ("entry", "what"), [("1", "0123456789" * 10)])
    assert "".join(filter(str.isdigit, capsys.readouterr().out)) == "1" + "0123456789" * 10


def test_piped_work_says_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    deadline_s = time.monotonic() + 20.0
    printed = ""
    for item in tracked([1, 2, 3], "frames", line_period_s=0.02):
        while item == 2 and "frames: 1 of 3 after 0 s" not in printed and time.monotonic() < deadline_s:
            time.sleep(0.01)
            printed += capsys.readouterr().err
    assert "frames: 1 of 3 after 0 s" in printed


def test_short_work_says_nothing_and_gives_every_item(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(tracked(iter("abc"), "letters", total=3)) == ["a", "b", "c"]
    with Pulse("waiting"):
        pass
    assert capsys.readouterr().err == ""


def test_what_loads_says_so_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    with loading("both models"):
        assert capsys.readouterr().err == "loading both models\n"
    assert capsys.readouterr().err == ""


def test_work_without_a_bar_is_seen_on_a_terminal_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    deadline_s, printed = time.monotonic() + 20.0, ""
    assert make_console(stderr=True).is_terminal
    with Pulse("words", with_bar=False, line_period_s=0.02):
        while "words: after 0 s" not in printed and time.monotonic() < deadline_s:
            time.sleep(0.01)
            printed += capsys.readouterr().err
    assert "words: after 0 s" in printed


def test_the_innermost_work_speaks_for_all(capsys: pytest.CaptureFixture[str]) -> None:
    deadline_s, printed = time.monotonic() + 20.0, ""
    with Pulse("bench", with_bar=False, line_period_s=0.02):
        with Pulse("frames", line_period_s=0.02):
            while printed.count("frames: after") < 3 and time.monotonic() < deadline_s:
                time.sleep(0.01)
                printed += capsys.readouterr().err
        assert "bench" not in printed.split("frames: after", 2)[2]
        while "bench: after" not in printed and time.monotonic() < deadline_s:
            time.sleep(0.01)
            printed += capsys.readouterr().err
    assert printed.count("frames: after") >= 3 and "bench: after 0 s" in printed


def test_an_error_in_the_work_ends_the_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ZeroDivisionError), Pulse("work"):
        raise ZeroDivisionError


def test_texts_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("text")
    said = "[/b] my [red]keys[/red] :smile: are by [1] the door"
    table.add_row(said)
    make_console().print(table)
    make_console().print(said)
    assert capsys.readouterr().out.count(said) == 2


def test_control_characters_in_foreign_text_do_not_reach_the_terminal() -> None:
    assert printable("turn left\n\x1b]0;title\x07 \u202eback\x9b2J") == "turn left\n?]0;title? ?back?2J"
