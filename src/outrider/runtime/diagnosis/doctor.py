# SPDX-License-Identifier: Apache-2.0
"""`outrider doctor`: checks the installation, the ROS graph and the link, and gives remedies."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from outrider.core.errors import KeyRefusedError, LinkError, ModelError, OutriderError
from outrider.core.files.terminal import Pulse, make_console
from outrider.runtime.common.paths import models_folder
from outrider.runtime.diagnosis.graph_health import Check, Grade
from outrider.runtime.node_graph.distros import FIRST_PYTHON, LAST_PYTHON
from outrider.runtime.processes.ros_env import ros_environment
from outrider.runtime.wiring.probe import probe_verifier
from outrider.simulation.looks.opengl import drawing_remedy

CHILD_TIMEOUT_S = 60.0
PACKAGES = ("torch", "transformers", "mujoco", "pyzmq", "msgspec", "numpy", "opencv-python-headless")
SETUP_ADVICE = "run `make setup` in the checkout"
VERIFIER_ADVICE = "start one, or give its --key-file; for the simulation `outrider demo` brings its own"
KEYS_ADVICE = (
    "compare both key files: `server` in the robot's must be `public` in the verifier's, and the robot's "
    "`public` one of `robots` there"
)
RENDERING = """
import mujoco
model = mujoco.MjModel.from_xml_string("<mujoco><worldbody><geom size='1'/></worldbody></mujoco>")
renderer = mujoco.Renderer(model, 32, 32)
data = mujoco.MjData(model)
mujoco.mj_forward(model, data)
renderer.update_scene(data)
print(renderer.render().shape)
"""
ROS_IMPORT = """
import rclpy
from outrider_interfaces.action import Navigate
from tf2_msgs.msg import TFMessage
rclpy.init()
rclpy.create_node("outrider_doctor_import")
print(rclpy.get_rmw_implementation_identifier())
"""
_STYLES = {Grade.OK: "green", Grade.WARN: "yellow", Grade.FAIL: "red"}


def run(endpoint: str, key_file: Path | None = None) -> int:
    """Print all checks. Returns 1 if one failed."""
    console = make_console()
    checks: list[Check] = []
    with Pulse("looking"):
        for group in _groups(endpoint, key_file):
            checks += group()
    console.print(_table(checks))
    return int(any(check.grade is Grade.FAIL for check in checks))


def _groups(endpoint: str, key_file: Path | None) -> list[Callable[[], list[Check]]]:
    return [
        check_python,
        check_packages,
        check_models,
        check_rendering,
        check_ros,
        check_graph,
        lambda: check_verifier(endpoint, key_file),
    ]


def check_python() -> list[Check]:
    """Check that this Python's version is supported."""
    version = ".".join(str(part) for part in sys.version_info[:3])
    if FIRST_PYTHON <= sys.version_info[:2] <= LAST_PYTHON:
        return [Check("Python", Grade.OK, version)]
    return [Check("Python", Grade.FAIL, version, "Outrider needs 3.10 to 3.14: make setup PYTHON=python3.12")]


def check_packages(required: Sequence[str] = PACKAGES) -> list[Check]:
    """Check that the required packages are installed."""
    missing = [name for name in required if not _version(name)]
    if missing:
        return [Check("packages", Grade.FAIL, f"missing: {', '.join(missing)}", SETUP_ADVICE)]
    return [
        Check("packages", Grade.OK, f"torch {_version('torch')}, transformers {_version('transformers')}")
    ]


def check_models() -> list[Check]:
    """Check that every file of the pair exists and can be opened."""
    try:
        folder = models_folder()
        return [_check_model(folder / role) for role in ("target", "draft")]
    except OutriderError as error:
        return [Check("models", Grade.FAIL, str(error), "restore the folder models/ of the checkout")]


def check_rendering() -> list[Check]:
    """Check that pictures can be rendered without a screen."""
    return [_child_check("rendering without a screen", ["-c", RENDERING], "EGL works", drawing_remedy())]


def check_ros(timeout_s: float = CHILD_TIMEOUT_S) -> list[Check]:
    """Check that rclpy and the messages can be imported within `timeout_s` seconds."""
    advice = f"{SETUP_ADVICE}, or source your ROS 2 and build with colcon"
    return [_child_check("ROS 2", ["-c", ROS_IMPORT], "", advice, timeout_s)]


def check_graph() -> list[Check]:
    """Check the running graph, in a child process that may import ROS."""
    try:
        output = _child(["-m", "outrider.nodes.bringup.graph_check"])
        return [Check(**{**entry, "grade": Grade(entry["grade"])}) for entry in json.loads(output)]
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return [Check("ROS graph", Grade.FAIL, f"cannot be looked at: {_last_line(error)}", SETUP_ADVICE)]


def check_verifier(endpoint: str, key_file: Path | None = None) -> list[Check]:
    """Check the verifier. A wrong key or endpoint is a failure; a missing verifier may be intended."""
    try:
        card = probe_verifier(endpoint, key_file=key_file)
    except KeyRefusedError as error:
        return [Check("verifier", Grade.FAIL, str(error), KEYS_ADVICE)]
    except LinkError as error:
        advice = KEYS_ADVICE if key_file else VERIFIER_ADVICE
        return [Check("verifier", Grade.WARN, str(error), advice)]
    except OutriderError as error:
        return [Check("verifier", Grade.FAIL, str(error), "correct --endpoint or --key-file")]
    sessions = f"{card.open_sessions} of {card.max_sessions} sessions"
    detail = f"{card.model} at {endpoint}, {sessions}, round trip {card.round_trip_s * 1000:.1f} ms"
    return [Check("verifier", Grade.OK, detail)]


def _check_model(folder: Path) -> Check:
    from outrider.models.checkpoint.files import check_weight_files, weight_files
    from outrider.models.checkpoint.headers import read_headers

    name = f"models/{folder.name}"
    if not (folder / "config.json").is_file():
        return Check(name, Grade.FAIL, f"{folder} lacks config.json", "restore it from the checkout")
    try:
        check_weight_files(folder)
    except ModelError as error:
        return Check(name, Grade.FAIL, str(error), "restore it from the checkout")
    return Check(name, Grade.OK, f"{len(list(read_headers(weight_files(folder))))} tensors")


def _child_check(
    name: str, arguments: list[str], detail: str, advice: str, timeout_s: float = CHILD_TIMEOUT_S
) -> Check:
    try:
        output = _child(arguments, timeout_s)
    except (OSError, subprocess.SubprocessError) as error:
        return Check(name, Grade.FAIL, _last_line(error), advice)
    return Check(name, Grade.OK, detail or output.strip().splitlines()[-1])


def _child(arguments: list[str], timeout_s: float = CHILD_TIMEOUT_S) -> str:
    """Returns a Python child's output. A crash in a graphics or DDS library must not end the doctor."""
    command = [sys.executable, *arguments]
    result = subprocess.run(
        command, env=ros_environment(), capture_output=True, text=True, timeout=timeout_s, check=True
    )
    return result.stdout


def _last_line(error: BaseException) -> str:
    output = getattr(error, "stderr", None) or str(error)
    lines = [line for line in str(output).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _table(checks: list[Check]) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("", "check", "found", "what to do"):
        table.add_column(title, overflow="fold")
    for check in checks:
        style = _STYLES[check.grade]
        advice = check.advice if check.grade is not Grade.OK else ""
        table.add_row(Text(check.grade.value, style), check.name, check.detail, advice)
    return table
