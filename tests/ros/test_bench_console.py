"""The console's benchmark runs end to end, on a small scale, with tiny random models."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from outrider.core.errors import ConfigError
from outrider.evaluation.robot.bench_console import bench_console

pytestmark = pytest.mark.ros


def test_the_benchmark_watches_drives_and_stops(tiny_model_folder: Path, tmp_path: Path) -> None:
    json_file = tmp_path / "console.json"
    bench_console(2, 1, 1, 2, models=tiny_model_folder, json_file=json_file)
    figures = json.loads(json_file.read_text())
    assert figures["viewers"] == 2 and figures["e_stops"] == 2
    positive = ("text_alone_ms", "text_watched_ms", "slowdown", "e_stop_ms", "silence_ms")
    assert all(figures[name] > 0.0 for name in positive)
    assert figures["e_stop_worst_ms"] >= figures["e_stop_ms"]


def test_nobody_watching_is_no_measurement(tiny_model_folder: Path) -> None:
    with pytest.raises(ConfigError, match="viewers"):
        bench_console(0, 1, 1, 1, models=tiny_model_folder)
