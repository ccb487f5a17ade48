"""The environment of child processes, and the choice of unused domains."""

from __future__ import annotations

import os
import shlex
import socket
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from outrider.cli import app
from outrider.core.errors import ConfigError
from outrider.runtime.processes import ros_env


def test_children_find_this_prefix_and_stay_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMENT_PREFIX_PATH", "/somewhere")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/a:/b")
    monkeypatch.delenv("ROS_DISTRO", raising=False)
    env = ros_env.ros_environment(domain_id=42)
    assert env["AMENT_PREFIX_PATH"].split(os.pathsep) == [sys.prefix, "/somewhere"]
    assert env["LD_LIBRARY_PATH"].split(os.pathsep)[1:] == ["/a", "/b"]
    assert (env["ROS_DOMAIN_ID"], env["ROS_AUTOMATIC_DISCOVERY_RANGE"]) == ("42", "LOCALHOST")
    assert env["OMP_WAIT_POLICY"] == "PASSIVE"


def test_humble_is_kept_local_in_its_own_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMENT_PREFIX_PATH", "/opt/ros/humble")
    monkeypatch.setenv("ROS_DISTRO", "humble")
    assert ros_env.ros_environment(domain_id=3)["ROS_LOCALHOST_ONLY"] == "1"


def test_without_a_domain_the_user_s_own_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMENT_PREFIX_PATH", "/somewhere")
    monkeypatch.setenv("ROS_DOMAIN_ID", "17")
    assert ros_env.ros_environment()["ROS_DOMAIN_ID"] == "17"


def test_a_free_domain_is_one_whose_discovery_port_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ros_env.random, "shuffle", lambda _: None)
    first = ros_env.free_domain()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 7400 + 250 * first + 10))
        assert ros_env.free_domain() != first


def test_without_rclpy_a_run_of_nodes_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(ros_env, "find_spec", lambda name: None)
    for folders in ("", str(tmp_path), f"{tmp_path}:/nowhere"):
        with pytest.raises(ConfigError, match=r"ROS 2 is not installed .*outrider demo --no-ros"):
            ros_env.check_ros({"PYTHONPATH": folders})
    (tmp_path / "rclpy").mkdir()
    ros_env.check_ros({"PYTHONPATH": f"/nowhere:{tmp_path}"})


@pytest.mark.lengthy
@pytest.mark.parametrize(
    "words",
    [
        "demo 'turn left' --no-video",
        "console --port 0",
        "console --sim --port 0",
        "record run.mcap",
        "bench idle --seconds 5",
        "bench console --frames 1",
        "eval safety --injections 1",
        "eval kills",
        "eval kills --hedged 1",
    ],
)
def test_without_rclpy_a_command_with_nodes_starts_none(
    words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ros_env, "find_spec", lambda name: None)
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, shlex.split(words))
    assert isinstance(result.exception, ConfigError), result.output
    assert "ROS 2 is not installed for this Python" in str(result.exception)
    assert "Traceback" not in capfd.readouterr().err and not (tmp_path / "run.mcap").exists()


def test_an_environment_that_has_rclpy_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ros_env, "find_spec", lambda name: object())
    ros_env.check_ros({})
