"""A help page has every word of its command, in a pipe and in terminals of any width."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from support.commands import command_line


def below(context: Any) -> Iterator[Any]:
    """Yields the contexts of a command and of all its subcommands."""
    yield context
    for name, command in getattr(context.command, "commands", {}).items():
        yield from below(command.make_context(name, [], parent=context, resilient_parsing=True))


PAGES = list(below(command_line().make_context("outrider", [], resilient_parsing=True)))
"""The context of every help page."""


def told(context: Any) -> Iterator[str]:
    """Yields the texts that a page must have, each in one piece."""
    command = context.command
    yield context.command_path
    yield from inspect.cleandoc(command.help or "").split("\n\n")
    yield from (command.epilog or "").split("\n\n")
    for one in command.params:
        yield one.help or ""
        yield from one.opts if one.param_type_name == "option" else []
    for name, one in getattr(command, "commands", {}).items():
        yield name
        yield re.split(r"\.\s", one.help or "")[0].rstrip(".")


def unbroken(text: str) -> str:
    """Returns a text with single spaces, so that its line breaks do not matter."""
    return " ".join(text.split())


@pytest.mark.parametrize("columns", [24, 40, 60, 80, 200])
def test_a_help_page_cuts_nothing_and_ends_its_lines_between_words(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert len(PAGES) > 50
    for context in PAGES:
        page = context.get_help()
        assert [one for one in told(context) if unbroken(one) not in unbroken(page)] == []
        assert [line for line in page.splitlines() if len(line) > columns and len(line.split()) > 1] == []
        assert "…" not in page


@pytest.mark.lengthy
def test_a_help_page_is_whole_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    command = [sys.executable, "-m", "outrider", "bench", "weights", "-h"]
    page = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    context = next(one for one in PAGES if one.command_path == "outrider bench weights")
    assert [one for one in told(context) if unbroken(one) not in unbroken(page)] == []


def test_what_a_command_takes_is_read_once() -> None:
    """The command line asks for the types several times; evaluating them anew took a sixth of a start."""
    commands = [page.command for page in PAGES if not hasattr(page.command, "commands")]
    assert len(commands) > 50
    for command in commands:
        takes = inspect.unwrap(command.callback).__annotations__
        assert not [text for text in takes.values() if isinstance(text, str)], command.name
