"""No library reports its use, or leaves a device id in the home folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

RUNS = """
from pathlib import Path
from {module} import {name} as opened
import onnx
from onnx import TensorProto, helper
value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "ab"]
graph = helper.make_graph([helper.make_node("Abs", ["a"], ["b"])], "g", value[:1], value[1:])
path = Path("graph.onnx")
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
opened({arguments})
"""
OPENED = [
    ("outrider.voice.moonshine_encoder", "session", "path"),
    ("outrider.memory.embedding", "_open_session", "1"),
    ("outrider.models.onnx.providers", "open_graph", "path, find_provider('cpu'), 1"),
    ("outrider.simulation.legs", "GaitPolicy", "path"),
]


def run(code: str, home: Path) -> str:
    """Returns the output of a program with its home and temporary files in `home`, without such settings."""
    told = {name: value for name, value in os.environ.items() if "TELEMETRY" not in name}
    for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        told[name] = str(home)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=home, env=told, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.lengthy
@pytest.mark.parametrize(("module", "name", "arguments"), OPENED)
def test_a_graph_that_is_opened_writes_no_device_id_and_no_events(
    module: str, name: str, arguments: str, tmp_path: Path
) -> None:
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    code = RUNS.format(module=module, name=name, arguments=arguments)
    if "find_provider" in arguments:
        code = f"from outrider.models.onnx.providers import find_provider\n{code}"
    run(code, tmp_path)
    assert [path.name for path in tmp_path.rglob("*")] == ["graph.onnx"]


def test_what_is_downloaded_by_name_is_asked_for_without_telemetry(tmp_path: Path) -> None:
    code = "import outrider; from huggingface_hub import constants; print(constants.HF_HUB_DISABLE_TELEMETRY)"
    assert run(code, tmp_path).strip() == "True"


def test_ray_collects_no_figures_of_use(tmp_path: Path) -> None:
    code = "import outrider, os; print(os.environ['RAY_USAGE_STATS_ENABLED'])"
    assert run(code, tmp_path).strip() == "0"
