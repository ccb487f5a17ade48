"""The set-up script's decisions; what it installs is tested by running it."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "setup_env.py"


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("setup_env", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "setup_env", module)
    spec.loader.exec_module(module)
    for name in ("VENV", "STAMPS", "LOG_DIR"):
        monkeypatch.setattr(module, name, tmp_path / name)
    return module


def test_a_step_runs_once_for_the_same_inputs(script: ModuleType) -> None:
    done: list[str] = []
    for key in ("a", "a", "b"):
        script.run_step(1, "a step", key, lambda key=key: done.append(key))
    assert done == ["a", "b"]


def test_a_report_holds_the_seconds_of_the_steps_and_the_size(script: ModuleType) -> None:
    script.VENV.mkdir(parents=True, exist_ok=True)
    (script.VENV / "package").write_bytes(bytes(1000))
    steps_s = script.run_step(2, "virtual environment", "key", lambda: None)
    script.write_report(steps_s)
    report = json.loads((script.LOG_DIR / "report.json").read_text())
    assert list(report["steps_s"]) == ["virtual environment"]
    assert report["environment_bytes"] >= 1000
    assert script.run_step(2, "virtual environment", "key", lambda: None) == {}


@pytest.mark.parametrize(
    ("name", "sign"),
    [
        ("vidéos", "é"),
        ("狗", "狗"),
        ("Rex's", "'"),
        ('so "named"', '"'),
        ("a;b", ";"),
        ("new (2)", "( )"),
        ("[old]", "[ ]"),
        ("R&D", "&"),
        ("$HOME", "$"),
        ("a\\b", "\\"),
    ],
)
def test_a_place_that_messages_cannot_be_built_in_is_refused_before_anything_is_done(
    script: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    sign: str,
) -> None:
    place = tmp_path / name
    for part in ("VENV", "STAMPS", "LOG_DIR"):
        monkeypatch.setattr(script, part, place / part)
    assert script.main() == 1
    told = capsys.readouterr()
    assert f"reads no path with {sign} in it: move {place}" in told.err and not told.out
    assert not place.exists()


def test_a_place_with_blanks_is_taken(script: ModuleType, tmp_path: Path) -> None:
    script.check_place(tmp_path / "my robots, new-2.0_b" / ".venv")


def test_a_place_that_cannot_be_written_is_named(
    script: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    script.STAMPS.touch()
    monkeypatch.setattr(script, "install_system_packages", lambda: None)
    assert script.main() == 1
    assert f"error: {script.STAMPS}: File exists" in capsys.readouterr().err


def test_a_failed_step_is_tried_again(script: ModuleType) -> None:
    def fail() -> None:
        raise script.SetupError("no")

    with pytest.raises(script.SetupError):
        script.run_step(1, "a step", "a", fail)
    done: list[str] = []
    script.run_step(1, "a step", "a", lambda: done.append("now"))
    assert done == ["now"]


def test_a_failed_command_shows_the_end_of_its_log_and_where_the_rest_is(script: ModuleType) -> None:
    command = [sys.executable, "-c", "print('the reason'); raise SystemExit(3)"]
    with pytest.raises(script.SetupError) as raised:
        script.run_logged("thing", command)
    assert all(part in str(raised.value) for part in ("thing", "3", "the reason", "thing.log"))


def test_missing_system_packages_are_named_with_the_command(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    need = script.SystemNeed("EGL library", "libegl1", lambda: False)
    monkeypatch.setattr(script, "system_needs", lambda: (need,))
    monkeypatch.setattr(script.os, "geteuid", lambda: 1000)
    with pytest.raises(script.SetupError, match=r"EGL library.*sudo apt-get install -y libegl1"):
        script.install_system_packages()


def test_an_installed_ros_is_sourced_and_one_for_another_python_refused(
    script: ModuleType, tmp_path: Path
) -> None:
    ros = tmp_path / "ros"
    (ros / "lib" / "python2.7").mkdir(parents=True)
    with pytest.raises(script.SetupError, match=r"not made for python3.*/usr/bin/python3"):
        script.check_python_of_ros(ros)
    (ros / "local" / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}").mkdir(parents=True)
    script.check_python_of_ros(ros)
    (ros / "setup.bash").write_text("export AMENT_PREFIX_PATH=/from/ros TWO_LINES=$'a\nb=c'\n")
    environment = script.ros_environment(ros)
    assert environment["AMENT_PREFIX_PATH"] == "/from/ros" and environment["TWO_LINES"] == "a\nb=c"
    (ros / "setup.bash").write_text("echo broken >&2; return 1\n")
    with pytest.raises(script.SetupError, match="cannot be sourced: broken"):
        script.ros_environment(ros)


def test_the_digest_sees_contents_and_names_nothing_else(script: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("1")
    before = script.digest("x", tmp_path / "f")
    assert script.digest("x", tmp_path / "f") == before
    (tmp_path / "f").write_text("2")
    assert script.digest("x", tmp_path / "f") != before


def test_the_wheels_exports_are_pointed_to_this_python(script: ModuleType) -> None:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    tag = f"cp{version.replace('.', '')}"
    export = script.VENV / "share" / "p" / "cmake" / "e.cmake"
    export.parent.mkdir(parents=True)
    export.write_text(
        f"/opt/python/{tag}-{tag}/include/python{version};/opt/python/{tag}-{tag}/lib/python{version}/site-packages/numpy"
    )
    script.rewrite_cmake_exports()
    assert "/opt/python" not in export.read_text()
    assert f"{script.VENV}/lib/python{version}/site-packages/numpy" in export.read_text()


def test_wheels_are_those_of_the_distribution_asked_for(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    for wanted, distro in (("", "jazzy"), ("jazzy", "jazzy"), ("kilted", "kilted"), ("humble", "jazzy")):
        monkeypatch.setenv("ROS_DISTRO", wanted)
        wheels = script.ros_wheels()
        assert f"ros-{distro}-rclpy" in wheels and all(w.startswith(f"ros-{distro}-") for w in wheels)
        assert len(set(wheels)) == len(wheels)


def test_a_distribution_asked_for_is_not_replaced_by_another_that_is_installed(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed: set[str] = set()
    monkeypatch.setattr(script.Path, "is_file", lambda path: path.parent.name in installed)
    monkeypatch.setenv("ROS_DISTRO", "kilted")
    assert script.installed_ros() is None
    installed.add("jazzy")
    assert script.installed_ros() is None
    installed.add("kilted")
    assert script.installed_ros() == Path("/opt/ros/kilted")
    monkeypatch.setenv("ROS_DISTRO", "")
    assert script.installed_ros() == Path("/opt/ros/jazzy")


def test_a_command_that_takes_long_prints_lines_meanwhile(
    script: ModuleType, capfd: pytest.CaptureFixture[str]
) -> None:
    script.run_logged("thing", [sys.executable, "-c", "import time; time.sleep(0.3)"], line_period_s=0.05)
    printed = capfd.readouterr().out.splitlines()
    assert printed[0].strip() == "thing ..." and len(printed) >= 3
    assert all(line.strip().startswith("thing: after ") for line in printed[1:])
