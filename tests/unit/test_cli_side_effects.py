"""A mistyped command line creates nothing: no folder, no file, no key."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest
from support.commands import command_line
from typer.testing import CliRunner

from outrider import cli
from outrider.core.errors import ConfigError

PLACES = {
    "--json": "new/figures.json",
    "--plots": "new/plots",
    "--run": "new/run",
    "--out": "new/out",
    "--store": "new/memory.db",
    "--store-key-file": "new/memory.key",
    "--corpus": "new/corpus.db",
    "--record": "new/run.mcap",
    "--animation": "new/run.webp",
    "--token-file": "new/token",
    "--weights": "new/stops.safetensors",
}
"""Options that name what a command writes, with a path for each."""
WORDS = {"robots": "go2-b", "words": "kiosk", "ids": "1", "role": "draft"}


def leaves(words: tuple[str, ...], command: Any) -> list[tuple[tuple[str, ...], Any]]:
    """Returns every command below a group, with its words."""
    below = getattr(command, "commands", None)
    if below is None:
        return [(words, command)]
    return [one for name, inner in below.items() for one in leaves((*words, name), inner)]


COMMANDS = dict(leaves((), command_line()))


def called(words: tuple[str, ...]) -> list[str]:
    """Returns a command with all of its arguments, and with a path for everything that it can write."""
    line = list(words)
    for one in COMMANDS[words].params:
        if one.param_type_name == "argument":
            line.append(WORDS.get(one.name, "new/argument"))
        elif one.opts[0] in PLACES:
            line += [one.opts[0], PLACES[one.opts[0]]]
    return line


@pytest.fixture(autouse=True)
def empty_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(line: list[str], home: Path) -> bool:
    """Returns whether a command line is wrong usage and leaves an empty home empty."""
    result = CliRunner().invoke(cli.app, line)
    is_refused = result.exit_code == 2 or isinstance(result.exception, ConfigError)
    return is_refused and list(home.iterdir()) == []


@pytest.mark.lengthy
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_mistyped_option_makes_nothing(words: tuple[str, ...], empty_home: Path) -> None:
    assert refused([*called(words), "--no-such-option"], empty_home)


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("words", "option"),
    [
        (words, one.opts[0])
        for words, command in COMMANDS.items()
        for one in command.params
        if one.opts[0] in ("--seed", "--link", "--models", "--model", "--regime", "--temperature")
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_a_mistyped_value_makes_nothing(words: tuple[str, ...], option: str, empty_home: Path) -> None:
    line = [*called(words), option, "no-such-value"]
    if words == ("train", "tokenizer") or words[:2] == ("train", "reader"):
        pytest.skip("--models is where these write")
    assert refused(line, empty_home)


@pytest.mark.parametrize("command", ["lst", "keys", "mak", "remove"])
def test_a_mistyped_command_of_keys_makes_none(command: str, empty_home: Path) -> None:
    assert refused(["keys", command], empty_home)
    assert refused(["keys", command, "folder"], empty_home)


@pytest.mark.lengthy
@pytest.mark.parametrize("command", sorted(command_line().commands))
def test_a_mistyped_command_makes_nothing(command: str, empty_home: Path) -> None:
    assert refused([f"{command}x", "new"], empty_home)


def test_no_command_writes_its_figures_over_what_it_reads(tmp_path: Path) -> None:
    journal = tmp_path / "robot.journal"
    journal.write_text("lines")
    result = CliRunner().invoke(cli.app, ["replay", str(journal), "--json", str(journal)])
    assert isinstance(result.exception, ConfigError) and "choose another file" in str(result.exception)
    assert journal.read_text() == "lines" and "figures" not in result.output


def typed_alike(kind: type) -> list[tuple[tuple[str, ...], Any]]:
    """Returns every command with each of its parameters of a type."""

    def has(hint: Any) -> bool:
        return hint is kind or any(map(has, get_args(hint)))

    return [(w, one) for w, c in COMMANDS.items() for one in c.params if has(one.type_descriptor.annotation)]


def refusal(words: tuple[str, ...], parameter: Any, value: str) -> str:
    """Returns a command's refusal of a value, which is given as often as the parameter takes one."""
    line = list(words)
    for one in COMMANDS[words].params:
        if one.name == parameter.name:
            line += [one.opts[0]] * (one.param_type_name == "option") + [value] * abs(one.nargs)
        elif one.param_type_name == "argument":
            line.append(WORDS.get(one.name, "x"))
    result = CliRunner().invoke(cli.app, line)
    assert result.exit_code == 2
    return result.output


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("words", "parameter", "value"),
    [
        (words, parameter, value)
        for number, (words, parameter) in enumerate(typed_alike(float))
        for value in (("inf", "nan") if number else ("inf", "-inf", "nan", "1e999"))
    ],
    ids=str,
)
def test_a_number_that_is_not_finite_is_refused(
    words: tuple[str, ...], parameter: Any, value: str, empty_home: Path
) -> None:
    if value == str(parameter.default):  # the default is allowed, even if it is infinite
        return
    assert "no finite number" in refusal(words, parameter, value)
    assert list(empty_home.iterdir()) == []


@pytest.mark.lengthy
@pytest.mark.parametrize(("words", "parameter"), typed_alike(int), ids=str)
def test_a_number_that_nothing_counts_up_to_is_refused(
    words: tuple[str, ...], parameter: Any, empty_home: Path
) -> None:
    assert "too large" in refusal(words, parameter, "9" * 20)
    assert list(empty_home.iterdir()) == []


@pytest.mark.lengthy
@pytest.mark.parametrize(("words", "parameter"), typed_alike(Path), ids=str)
def test_an_empty_path_is_not_the_current_folder(
    words: tuple[str, ...], parameter: Any, empty_home: Path
) -> None:
    assert "it is empty" in refusal(words, parameter, "")
    assert list(empty_home.iterdir()) == []


@pytest.mark.lengthy
@pytest.mark.parametrize("words", ["words", "verifier", "plan x", "mcp", "eval voice"])
def test_an_empty_name_of_a_model_is_not_the_current_folder(words: str) -> None:
    result = CliRunner().invoke(cli.app, [*words.split(), "--model", ""])
    assert result.exit_code == 2 and "--model" in result.output and "it is empty" in result.output
