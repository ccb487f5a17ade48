"""`outrider demo --no-ros`: the goal loop, verdict and files are those of the nodes, in this process."""

from __future__ import annotations

import contextlib
import json
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from outrider import cli
from outrider.core.errors import ConfigError, InstructionError, OutriderError
from outrider.decoding.config import DecodingConfig
from outrider.runtime.datasets import held_out
from outrider.runtime.no_ros import one_process
from outrider.runtime.no_ros.one_process import run_in_one_process
from outrider.runtime.pictures import run_pictures
from outrider.runtime.reports import report
from outrider.runtime.reports.live_view import LiveView

PAIR = DecodingConfig(drafters=("model", "suffix"))
FILES = {"report.json", "rounds.jsonl", "trajectory.png"}


def report_of(folder: Path) -> dict:
    return json.loads((folder / "report.json").read_text())


def test_the_pair_finds_the_requested_thing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_in_one_process("find the silver bottle", PAIR, out=tmp_path, placement="in_view") == 0
    assert {file.name for file in tmp_path.iterdir()} == FILES | {"run.mp4"}
    report = report_of(tmp_path)
    assert report["verdict"] == "success" and report["checked"] and report["target_distance_m"] < 1.2
    assert report["seed"] == 1 and report["ros"] is False and report["link_states"] == ["local"]
    assert list(report["stages_s"]) == ["models loaded", "goal given", "first motion", "verdict"]
    steps = report["step_log"]
    assert all(step["frame_s"] <= step["action_s"] <= step["finished_s"] <= step["moved_s"] for step in steps)
    assert report["duration_s"] >= steps[-1]["moved_s"] and 0.0 < report["decision_latency_s"] < 10.0
    assert len((tmp_path / "rounds.jsonl").read_text().splitlines()) == report["rounds"] > 0
    assert "SUCCESS: " in capsys.readouterr().out


def test_two_runs_are_the_same_run(tmp_path: Path) -> None:
    runs = []
    for folder in (tmp_path / "one", tmp_path / "two"):
        run_in_one_process("find the silver bottle", PAIR, out=folder, placement="in_view", video=False)
        report = report_of(folder)
        actions = [step["action"] for step in report["step_log"]]
        runs.append((actions, report["path_m"], report["target_distance_m"], report["collisions"]))
    assert runs[0] == runs[1]


def test_what_nobody_can_measure_is_done_and_not_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = run_in_one_process("turn left", DecodingConfig(strategy="ar"), out=tmp_path, video=False)
    report = report_of(tmp_path)
    assert report["checked"] is False and {file.name for file in tmp_path.iterdir()} == FILES
    assert (status, report["verdict"]) in ((0, "done"), (1, "failed"))
    assert "(not checked): " in capsys.readouterr().out or status == 1


def test_a_signal_ends_the_run_with_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextlib.contextmanager
    def at_once(stopping: threading.Event) -> Iterator[None]:
        stopping.set()
        yield

    monkeypatch.setattr(one_process, "stopping_on_signals", at_once)
    assert run_in_one_process("find the silver bottle", PAIR, out=tmp_path) == 130
    report = report_of(tmp_path)
    assert report["outcome"] == "cancelled" and report["steps"] == 0 and not report["success"]
    assert "interrupted before there was a goal" in report["message"]


@pytest.mark.parametrize("when", ["on the way", "with the verdict", "in the film"])
def test_a_signal_at_any_time_leaves_a_report_and_no_film(
    when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[threading.Event] = []

    @contextlib.contextmanager
    def kept(stopping: threading.Event) -> Iterator[None]:
        asked.append(stopping)
        yield

    owner, name = {
        "on the way": (LiveView, "show"),
        "with the verdict": (report, "write_summary"),
        "in the film": (run_pictures, "write_video"),
    }[when]
    called = getattr(owner, name)

    def interrupted(*arguments: Any) -> Any:
        asked[0].set()
        return called(*arguments)

    monkeypatch.setattr(owner, name, interrupted)
    monkeypatch.setattr(one_process, "stopping_on_signals", kept)
    assert run_in_one_process("turn left", DecodingConfig(strategy="ar"), out=tmp_path) == 130
    left = report_of(tmp_path)
    assert left["verdict"] == ("failed" if when == "on the way" else "done")
    assert {file.name for file in tmp_path.iterdir()} == FILES
    assert "the film is not made" in capsys.readouterr().out


@pytest.mark.parametrize("library", [None, RuntimeError], ids=["Python", "a library in C"])
def test_a_signal_breaks_off_the_loading_of_the_pair(
    library: type[Exception] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(folder: Path) -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt as error:
            raise library or error from None
        raise AssertionError("it went on")

    monkeypatch.setattr(held_out, "load_pair", load)
    assert run_in_one_process("find the silver bottle", PAIR, out=tmp_path) == 130
    assert "interrupted before there was a goal" in report_of(tmp_path)["message"]


def test_a_pair_that_cannot_be_loaded_leaves_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(folder: Path) -> None:
        raise OutriderError("no memory is left")

    monkeypatch.setattr(held_out, "load_pair", fail)
    (tmp_path / "report.json").write_text('{"success": true}')
    with pytest.raises(OutriderError, match="no memory is left"):
        run_in_one_process("find the silver bottle", PAIR, out=tmp_path)
    assert report_of(tmp_path)["message"] == "no memory is left"


@pytest.mark.parametrize(
    ("instruction", "said"),
    [
        ("find the silver unicorn", "unicorn"),
        ("walk home to me", "home"),
        ("", "empty"),
        ("remember that my keys hang by the door", "no memory"),
        ("where did you last see my phone?", "no memory"),
    ],
)
def test_a_sentence_is_refused_before_anything_is_loaded(
    instruction: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_out, "load_pair", lambda folder: pytest.fail("loaded"))
    with pytest.raises(InstructionError, match=said):
        run_in_one_process(instruction, PAIR, out=tmp_path)
    assert not (tmp_path / "report.json").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"placement": "upstairs"}, "upstairs"),
        ({"seed": -1}, "seed"),
    ],
)
def test_a_bad_option_is_named(options: dict, said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=said):
        run_in_one_process("find the silver bottle", PAIR, out=tmp_path, **options)


@pytest.mark.parametrize(
    "options",
    [
        ["--link", "lte"],
        ["--endpoint", "tcp://127.0.0.1:5757"],
        ["--record", "run.mcap"],
        ["--console"],
        ["--namespace", "go2"],
        ["--store", "memory.db"],
        ["--real-time-factor", "2"],
    ],
)
def test_what_needs_nodes_is_refused(options: list[str]) -> None:
    result = CliRunner().invoke(cli.app, ["demo", "--no-ros", *options])
    assert isinstance(result.exception, ConfigError)
    assert f"{options[0]} cannot go with --no-ros" in str(result.exception)
