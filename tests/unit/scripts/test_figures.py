"""Every measured figure and every picture in the documents is that of a committed result."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from support.commands import command_line

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "scripts" / "figures"))

from figure_age import outdated  # noqa: E402
from figure_decoding import conditions_ahead, gain_span, lte_best_other  # noqa: E402
from figure_plots import PICTURES, draw  # noqa: E402
from figure_results import Results, formatted, value_text  # noqa: E402
from figure_robot import records_lost  # noqa: E402

RESULTS = Results()
PICTURE_FOLDER = ROOT / "docs" / "pictures"
MAX_PICTURE_BYTES = 150_000
DOCUMENTS = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
MARKED = re.compile(r"<!--fig:(.+?)-->(.*?)<!--/fig-->", re.DOTALL)


def load_main() -> dict[str, Any]:
    """Runs scripts/figures/__main__.py as a module. Returns its names."""
    import runpy

    return runpy.run_path(str(ROOT / "scripts" / "figures" / "__main__.py"), run_name="figures")


MAIN = load_main()
UNKNOWN = (
    ("no_result", "frames"),
    ("code", "no_package.NAME"),
    ("code", "core.values.NO_NAME"),
    ("parameter", "navigator.no_parameter"),
    ("parameter", "no_node.rate_hz"),
)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda file: str(file.relative_to(ROOT)))
def test_a_document_has_the_figures_of_the_results(document: Path) -> None:
    text = document.read_text()
    assert MAIN["rendered"](RESULTS, text) == text, "run: make figures"


NO_PROSE = re.compile(
    r"```.*?```"  # code blocks, settings and commands
    r"|^ {4}.*$"
    r"|`[^`]*`"
    r"|\]\([^)]*\)"
    r"|https?://\S+",
    re.DOTALL | re.MULTILINE,
)
NAMES = re.compile(
    r"(?:arXiv|Debian|FFmpeg|Python|Qwen|SDF|Ubuntu|capability|has|section) ?[\d./]+(?: (?:to|or) [\d.]+)?"
)
"""Numbers that belong to a name: versions, papers, a GPU's compute capability."""
UNITS = r"%|MB|GB|Hz|M parameters|ms|s|minutes?|hours?|days?|cm|m|m/s|rad/s|degrees|times"
TYPED = re.compile(rf"(?<![\w.])(?:\d+\.\d+(?![\w.])|\d[\d,]*\s?(?:{UNITS})(?!\w))")


def typed_figures(text: str) -> list[str]:
    """Returns a document's decimals and quantities with a unit that are prose without a figure's mark."""
    prose = NO_PROSE.sub("", MARKED.sub("", text)).replace("95 %", "")  # the level of every interval
    return TYPED.findall(NAMES.sub("", prose))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda file: str(file.relative_to(ROOT)))
def test_no_figure_and_no_setting_is_typed_by_hand(document: Path) -> None:
    assert typed_figures(document.read_text()) == []


def test_a_typed_figure_is_found() -> None:
    text = "It takes 0.3 s, 29MB and 5 % of `0.5` on Python 3.10 to 3.14 (95 %).\n\n    0.7 s\n"
    assert typed_figures("<!--fig:missed-->7 s<!--/fig--> [1.5](x.md#2.5)") == ["1.5"]
    assert typed_figures(text) == ["0.3", "29MB", "5 %"]


def test_a_figure_that_differs_is_found_and_an_unknown_one_is_named() -> None:
    text = "<!--fig:lossless:frames:d-->1<!--/fig--> <!--fig:missed-->7<!--/fig-->"
    assert MAIN["rendered"](RESULTS, text) != text
    with pytest.raises(KeyError, match="nothing_of_this_name"):
        MAIN["rendered"](RESULTS, "<!--fig:nothing_of_this_name--><!--/fig-->")
    for result, path in UNKNOWN:
        with pytest.raises(KeyError):
            value_text(RESULTS, result, path, "d")


def test_a_setting_is_the_code_s_own() -> None:
    assert value_text(RESULTS, "code", "navigation.limits.MotionLimits.forward_mps", "g") == "0.6"
    assert value_text(RESULTS, "code", "core.language.actions.ActionTable().forward_m.2", "g") == "0.75"
    steps = value_text(RESULTS, "code", "navigation.goal.navigator.NavigatorSettings().max_steps", "d")
    assert value_text(RESULTS, "parameter", "navigator.max_steps", "d") == steps == "300"


def test_every_result_is_listed_with_a_command_that_exists() -> None:
    files = {path.stem for path in (ROOT / "benchmarks" / "results").glob("*.json")}
    assert files == {name for name in RESULTS if "file" not in RESULTS.index[name]}
    assert all(RESULTS.path(name).is_file() for name in RESULTS)
    for name in RESULTS:
        program, *words = shlex.split(RESULTS.command(name))
        if program == "make":
            assert f"\n{words[0]}:" in (ROOT / "Makefile").read_text()
            continue
        command: click.Command = command_line()
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]  # type: ignore[attr-defined]
        known = {one for parameter in command.params for one in (*parameter.opts, *parameter.secondary_opts)}
        assert {word for word in words if word.startswith("--")} <= known, name
        assert "--json" in known or name == "demo" or "file" in RESULTS.index[name]


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_shows_the_results_and_is_small(name: str) -> None:
    path = PICTURE_FOLDER / f"{name}.svg"
    assert RESULTS.digest(*PICTURES[name].reads) in path.read_text(), "run: make figures"
    assert path.stat().st_size < MAX_PICTURE_BYTES
    assert any(f"pictures/{name}.svg" in document.read_text() for document in DOCUMENTS)


def test_a_lead_is_one_over_others_with_their_best_draft_length() -> None:
    """`csd` and `ar` do not draft on the robot, so they are not among the others."""
    lengths = {"picospec": 1.2, "fsd": 0.9, "outrider": 1.1, "csd 5%": 3.0, "ar": 1.0}
    behind = {"strategies": {name: {"speedup_vs_ar": speed} for name, speed in lengths.items()}}
    behind["best_paper"] = "picospec"
    ahead = {"strategies": {"sd": {"speedup_vs_ar": 0.5}, "outrider": {"speedup_vs_ar": 1.0}}}
    results: Any = {
        "alternatives": {"conditions": {"lte, shipped pair": behind, "lte": ahead}},
        "decoding": {},  # has each strategy with the draft length of its paper
    }
    assert conditions_ahead(results) == "1 of 2"
    assert gain_span(results) == "0.92 to 2.00"
    assert lte_best_other(results) == "1.20"


def test_records_are_lost_by_kills_and_kills_are_the_trials() -> None:
    results: Any = {"memory": {"lost_records": 0, "kills": 100, "acknowledged_records": 1395}}
    assert records_lost(results) == "0 | 100 kills | 0.000 to 0.037"


@pytest.mark.lengthy
def test_every_picture_can_be_drawn_anew(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for name in PICTURES:
        assert draw(RESULTS, name, tmp_path / f"{name}.svg")
        assert not draw(RESULTS, name, tmp_path / f"{name}.svg")


@pytest.mark.lengthy
def test_make_figures_runs_as_a_command() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "figures")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == ""


@pytest.mark.parametrize(
    ("value", "form", "text"), [(0.0205, "ms", "20"), (0.5, "pct", "50 %"), (1.266, ".2f", "1.27")]
)
def test_numbers_take_their_form(value: float, form: str, text: str) -> None:
    assert formatted(value, form) == text


def test_results_of_another_engine_or_pair_are_named(tmp_path: Path) -> None:
    now = {"outrider": "1", "engine": "e", "pair": "p"}
    made = {"new": now, "old": {**now, "pair": "q"}, "older": {"engine": "f"}, "oldest": None}
    (tmp_path / "results").mkdir()
    for name, one in made.items():
        figures = {} if one is None else {"made_with": one}
        (tmp_path / "results" / f"{name}.json").write_text(json.dumps(figures))
    (tmp_path / "index.yaml").write_text("".join(f"{name}: {{command: x}}\n" for name in made))
    results = Results(tmp_path / "results", tmp_path / "index.yaml")
    assert outdated(results, now) == {
        "another pair": ["old"],
        "another engine and another pair": ["older"],
        "an engine and a pair that they do not name": ["oldest"],
    }
