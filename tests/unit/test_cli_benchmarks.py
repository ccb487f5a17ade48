"""Rules for every `outrider bench ...` and `outrider eval ...`."""

import ast
import io
import json
from collections import Counter
from pathlib import Path

import pytest
import typer
from rich.console import Console
from support.commands import command_line
from typer.testing import CliRunner

from outrider import cli
from outrider.cli.benchmarks import app as bench
from outrider.cli.evaluations import app as evaluations
from outrider.cli.options import Json, Models, Plots
from outrider.evaluation.common.legends import LEGENDS, legend
from outrider.evaluation.common.tables import figure_text, in_words, results_table

ROOM = Path(cli.__file__).parents[1] / "evaluation"
COMMANDS = [
    f"{name} {one.name}"
    for name, app in (("bench", bench), ("eval", evaluations))
    for one in app.registered_commands
]


def options_of(command: str) -> set[str]:
    found = command_line()
    for word in command.split():
        found = found.commands[word]
    return {option for parameter in found.params for option in parameter.opts}


@pytest.mark.lengthy
@pytest.mark.parametrize("command", COMMANDS)
def test_every_benchmark_keeps_its_figures_and_explains_its_columns(command):
    assert {"--json", "--explain"} <= options_of(command)
    told = CliRunner().invoke(cli.app, [*command.split(), "--explain"])
    assert told.exit_code == 0, told.output
    for heading, meaning in LEGENDS[command].items():
        assert heading in told.output and meaning.split(",")[0] in told.output


def test_there_is_a_legend_for_every_benchmark_and_for_nothing_else():
    assert set(LEGENDS) == set(COMMANDS)


@pytest.mark.parametrize("command", LEGENDS)
def test_headings_are_words(command):
    """No heading is an abbreviation that only its author understands."""
    for heading in LEGENDS[command]:
        assert heading not in {"tau", "miss", "exit", "pass", "up", "down", "model", "mend", "tok/s", "p90"}
    assert all(line.split("  ", 1)[1].strip() for line in legend(command).splitlines())


@pytest.mark.lengthy
def test_one_place_makes_the_tables_and_prints_them():
    for path in sorted(ROOM.rglob("*.py")):
        name = path.relative_to(ROOM).as_posix()
        if name == "common/tables.py":
            continue
        calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        made = [call for call in calls if getattr(call.func, "id", "") == "Table"]
        shown = [call for call in calls if getattr(call.func, "id", "") == "print_results"]
        assert not made, f"{name} makes a table of its own"
        assert len(shown) <= 1, f"{name} prints more than one table"
        assert "make_console" not in path.read_text(), f"{name} prints beside its table"


def app_with(body) -> typer.Typer:
    app = typer.Typer()
    app.command()(body)
    return app


def test_where_figures_and_pictures_went_is_told_at_the_end(tmp_path):
    (tmp_path / "plots").mkdir()

    def measure(json_file: Json = None, plots: Plots = None) -> None:
        for file in (json_file, plots and plots / "a.png"):
            if file is not None:
                file.write_text("{}")
        typer.echo("the table")

    asked = ["--json", str(tmp_path / "f.json"), "--plots", str(tmp_path / "plots")]
    told = CliRunner().invoke(app_with(measure), asked).output.splitlines()
    assert told[0] == "the table"
    assert {f"figures: {tmp_path / 'f.json'}", f"pictures: {tmp_path / 'plots'}"} == set(told[1:])
    assert CliRunner().invoke(app_with(measure), []).output == "the table\n"


def test_a_file_of_figures_says_what_it_was_made_with(tmp_path):
    def measure(json_file: Json = None, models: Models = None) -> None:
        json_file.write_text('{"speed": 1.5}')

    weights = tmp_path / "models" / "draft" / "model.safetensors"
    weights.parent.mkdir(parents=True)
    (tmp_path / "models" / "tokenizer").mkdir()
    asked, made = ["--json", str(tmp_path / "f.json")], []
    for content, more in ((b"", []), (b"one", ["--models"]), (b"two", ["--models"])):
        weights.write_bytes(content)
        named = [*asked, *more, *[str(tmp_path / "models")][: len(more)]]
        assert CliRunner().invoke(app_with(measure), named).exit_code == 0
        figures = json.loads((tmp_path / "f.json").read_text())
        assert figures["speed"] == 1.5
        made.append(figures["made_with"])
    shipped, one, two = made
    assert shipped["engine"] == one["engine"] == two["engine"] and shipped["outrider"]
    assert len({shipped["pair"], one["pair"], two["pair"]}) == 3


def test_a_file_that_was_not_written_is_not_told_of(tmp_path):
    def measure(json_file: Json = None) -> None:
        raise typer.Exit(1)

    assert CliRunner().invoke(app_with(measure), ["--json", str(tmp_path / "f.json")]).output == ""


def test_a_table_is_whole_at_any_width():
    words = ("conditions", "tokens a round", "95 % interval", "passes a token", "speed over ar")
    table = results_table("title", *words)
    row = ("fsd-go2, shipped pair", "1.25", "0.98 to 1.02", "0.77", "123.45")
    table.add_row(*row)
    for width in (40, 80, 240):
        console = Console(file=io.StringIO(), width=width)
        console.print(table)
        shown = console.file.getvalue()
        assert "…" not in shown
        assert Counter(shown) >= Counter("".join((*words, *row)).replace(" ", ""))


def test_names_of_figures_become_words():
    assert in_words("recall_p99_ms") == "recall p99, ms" and in_words("kills") == "kills"
    assert figure_text([1, 0.12345]) == "1, 0.123" and figure_text(True) == "True"
