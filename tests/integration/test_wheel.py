"""The wheel contains the pair: installed into a new environment without ROS, it runs the demo."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("src", "models", "config", "launch", "benchmarks", "resource")
FILES = ("setup.py", "setup.cfg", "pyproject.toml", "package.xml", "LICENSE", "README.md")
NOT_HERE = ("rclpy", "outrider_interfaces")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a wheel built from a copy, because setuptools writes next to its sources."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in SOURCES:
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(ROOT / name, folder / "copy" / name, ignore=ignored)
    for name in FILES:
        shutil.copy(ROOT / name, folder / "copy" / name)
    pip("wheel", "--no-deps", "--no-build-isolation", "-w", str(folder), str(folder / "copy"))
    return next(folder.glob("outrider-*.whl"))


def pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=clean_environment())
    assert done.returncode == 0, done.stdout + done.stderr


def clean_environment() -> dict[str, str]:
    """Returns an environment without this checkout and without ROS."""
    hidden = ("PYTHONPATH", "AMENT_PREFIX_PATH", "LD_LIBRARY_PATH", "ROS_DISTRO", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if name not in hidden}


@pytest.mark.slow
def test_the_wheel_holds_the_pair_and_the_types(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    share = f"{wheel.name.removesuffix('-py3-none-any.whl')}.data/data/share/outrider"
    for name in ("target/model.safetensors", "draft/model.safetensors", "tokenizer/tokenizer.json"):
        assert f"{share}/models/{name}" in names
    assert f"{share}/config/links.yaml" in names
    assert {"outrider/py.typed", "outrider/console/static/index.html"} <= set(names)
    assert wheel.stat().st_size < 25e6


@pytest.mark.slow
def test_installed_without_ros_it_runs_the_demo(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    python = environment / "bin" / "python"
    pip("--python", str(python), "install", "--no-deps", "--no-index", str(wheel))
    packages = next(environment.glob("lib/python*/site-packages"))
    # Dependencies come from this environment, without a download; ROS packages are hidden.
    others = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    (packages / "others.pth").write_text("\n".join(others) + "\n")
    for name in NOT_HERE:
        (packages / f"{name}.py").write_text(f"raise ImportError('{name} is not installed')\n")
    command = [environment / "bin" / "outrider", "demo", "--no-ros", "--placement", "in_view"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=clean_environment())
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((tmp_path / "out" / "demo" / "report.json").read_text())
    assert report["verdict"] == "success" and report["draft_model"].startswith(str(environment))
    assert (tmp_path / "out" / "demo" / "run.mp4").stat().st_size > 10_000
