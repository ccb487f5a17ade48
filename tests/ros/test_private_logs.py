"""The logs of nodes hold nothing that a person said, and only their owner can read them."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Client, NodeThread, wait_until
from fakes import WORDS, ScriptedDecoder
from outrider_interfaces.action import Navigate
from rcl_interfaces.msg import Log
from support_ros import EdgeNavigator, Goals

from outrider.nodes.common import qos
from outrider.runtime.wiring.robot_pair import Edge

pytestmark = pytest.mark.ros
SENTENCES = ["forget zq4723", "rememberr that my pin is zq4720", "forget what i said about zq4711"]
LOGGING = """
import os, rclpy
from outrider.nodes.common.running import init_ros
before = os.umask(0o022)
init_ros()
rclpy.logging.get_logger("x").error("a line")
rclpy.shutdown()
assert os.umask(0o022) == 0o022
"""


def test_a_refused_sentence_is_reported_to_its_sender_and_logged_by_its_length(
    run_node: Callable[..., NodeThread], client: Client
) -> None:
    lines = client.listen(Log, "/rosout", qos.EVENTS)
    run_node(lambda: EdgeNavigator({"use_memory": False}, Edge(ScriptedDecoder([]), WORDS)), threads=4)
    goals = Goals(client)
    for sentence in SENTENCES:
        result = goals.result(goals.send(sentence))
        assert result.error_code == Navigate.Result.BAD_INSTRUCTION and "zq" in result.message
        logged = f"a sentence of {len(sentence)} characters: bad instruction"
        wait_until(lambda logged=logged: any(one.msg == logged for one in lines), logged)
    assert not any("zq" in one.msg for one in lines)


def test_the_log_files_of_nodes_are_private(tmp_path: Path) -> None:
    """Under any umask, which the process keeps for all its other files."""
    folder = tmp_path / "log"
    done = subprocess.run(
        [sys.executable, "-c", LOGGING], env={**os.environ, "ROS_LOG_DIR": str(folder)}, timeout=60
    )
    assert done.returncode == 0
    (file,) = folder.iterdir()
    assert "a line" in file.read_text()
    assert [stat.S_IMODE(one.stat().st_mode) for one in (file, folder)] == [0o600, 0o700]
