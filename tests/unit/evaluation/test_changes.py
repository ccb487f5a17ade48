"""Sessions during changes: the windows of speed, the printed and written figures, and refused options."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from outrider.cli.benchmarks import app
from outrider.core.errors import ConfigError
from outrider.evaluation.decoding import changes
from outrider.evaluation.decoding.changes import BACK, CHANGES, figures_after, window_speeds

STEP_S = 0.5


def steady(tokens: int, steps: float, count: int = 200) -> changes.Commits:
    """Returns `count` commits of `tokens` tokens each, each `steps` steps of the target after the last."""
    return [(STEP_S * steps * number, tokens) for number in range(count)]


@pytest.mark.parametrize(("tokens", "steps", "speed"), [(1, 1.0, 1.0), (2, 1.0, 2.0), (1, 2.0, 0.5)])
def test_a_window_counts_the_tokens_of_its_steps(tokens: int, steps: float, speed: float) -> None:
    assert set(window_speeds(steady(tokens, steps), STEP_S, 0)) == {speed}


def test_what_comes_before_a_change_has_settled_does_not_count() -> None:
    slow, fast = steady(1, 2.0, 31), steady(1, 1.0, 100)
    text = slow + [(slow[-1][0] + at_s, count) for at_s, count in fast[1:]]
    figures = figures_after([text, steady(2, 1.0)], STEP_S)
    assert (figures.slowest, figures.median, figures.share_below) == (1.0, 1.5, 0.0)
    assert figures.at_change == 0.5


def test_slow_windows_are_counted() -> None:
    figures = figures_after([steady(1, 1.0, 141), steady(1, 1.25, 113)], STEP_S)
    assert figures.slowest == pytest.approx(0.8)
    assert figures.share_below == pytest.approx(33 / 74), "of 41 and 33 windows"


@pytest.mark.lengthy
def test_the_command_prints_and_writes_every_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = ("server 3 times slower", "drafts 5 % right")
    some = {name: CHANGES[name] for name in kept}
    monkeypatch.setattr(changes, "bench_changes", partial(changes.bench_changes, changes=some))
    file = tmp_path / "figures.json"
    arguments = ["decoding", "--changes", "1", "--seed", "3", "--ablate", "restart", "--json", str(file)]
    told = CliRunner().invoke(app, arguments)
    assert told.exit_code == 0, told.output
    windows = json.loads(file.read_text())["windows"]
    assert list(windows) == ["full", "without restart"]
    for drafts in windows.values():
        assert list(drafts) == ["both ends", "robot"]
        for figures in drafts.values():
            assert list(figures) == [*kept, BACK]
            assert figures["server 3 times slower"]["slowest"] > 1.0
    for name in (*kept, BACK, "without restart"):
        assert name in told.output


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--changes", "0"], "changes=0 must be a number from 1"),
        (["--changes", "2", "--regime", "lan"], "--regime cannot go with --changes"),
        (["--changes", "2", "--alternatives"], "--alternatives cannot go with --changes"),
        (["--changes", "2", "--live"], "--changes cannot go with --live"),
        (["--changes", "2", "--ablate", "frob"], "no mechanism frob"),
    ],
)
def test_wrong_options_are_refused(arguments: list[str], told: str) -> None:
    result = CliRunner().invoke(app, ["decoding", *arguments])
    assert isinstance(result.exception, ConfigError) and told in str(result.exception)
