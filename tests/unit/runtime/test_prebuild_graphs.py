"""`outrider graphs` makes what the robot's draft needs, and each refusal is one line."""

from __future__ import annotations

from pathlib import Path
from typing import get_args, get_type_hints

import pytest
from support.tiny_models import TinySize, build_tiny_model
from typer.testing import CliRunner

from outrider import cli
from outrider.cli.servers import graphs
from outrider.core.errors import ConfigError
from outrider.core.model_options import PRECISIONS, PROVIDERS
from outrider.models import load_graph_model
from outrider.runtime.node_graph.node_specs import NODES


@pytest.mark.lengthy
def test_what_is_built_ahead_is_what_a_robot_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "120")
    folder = build_tiny_model(tmp_path / "models" / "draft", TinySize(hidden=64, layers=3))
    done = CliRunner().invoke(cli.app, ["graphs", str(folder), "--max-length", "300"])
    assert done.exit_code == 0, done.output
    (built,) = (tmp_path / "cache" / "graphs").iterdir()
    assert f" MB in {built}" in done.output and "128 tokens on the first" in done.output
    before = {path: path.stat().st_mtime_ns for path in built.iterdir()}
    [precision] = [p.default for p in NODES["navigator"].parameters if p.name == "precision"]
    assert load_graph_model(folder, precision=precision, max_length=300).language.folder == built
    assert before == {path: path.stat().st_mtime_ns for path in built.iterdir()}


def test_a_missing_provider_is_refused_before_anything_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTRIDER_CACHE", str(tmp_path))
    done = CliRunner().invoke(cli.app, ["graphs", "--provider", "qnn"])
    assert isinstance(done.exception, ConfigError) and "onnxruntime-qnn" in str(done.exception)
    assert not list(tmp_path.iterdir())


def test_the_command_has_every_precision_and_provider() -> None:
    hints = get_type_hints(graphs)
    assert (get_args(hints["precision"]), get_args(hints["provider"])) == (PRECISIONS, PROVIDERS)
