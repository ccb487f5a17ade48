"""Third-party programs end with the process they belong to, and so does all that they start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from outrider.runtime.common.ending_signals import PARENT_VARIABLE

# Starts another program, as Gazebo's program does.
PROGRAM = ["sh", "-c", "sleep 60 & echo started; wait"]
# Ignores signals, as Gazebo's server does when it hangs while ending.
DEAF = ["sh", "-c", "trap '' INT TERM; echo started; sleep 60; sleep 60"]


def run_tied(parent: int, command: list[str]) -> subprocess.Popen[str]:
    env = {**os.environ, PARENT_VARIABLE: str(parent)}
    tied = [sys.executable, "-m", "outrider.runtime.common.tied", *command]
    return subprocess.Popen(tied, env=env, stdout=subprocess.PIPE, text=True)


@pytest.mark.lengthy
@pytest.mark.parametrize(
    "end",
    [
        lambda parent, tied: parent.kill(),
        lambda parent, tied: tied.send_signal(signal.SIGTERM),
        lambda parent, tied: tied.send_signal(signal.SIGINT),
    ],
    ids=["parent killed", "SIGTERM", "SIGINT"],
)
@pytest.mark.parametrize("program", [PROGRAM, DEAF], ids=["heeds signals", "is deaf"])
def test_all_processes_of_a_program_end(end: Callable[..., None], program: list[str]) -> None:
    with subprocess.Popen(["sleep", "60"]) as parent:
        tied = run_tied(parent.pid, program)
        assert tied.stdout is not None and tied.stdout.readline() == "started\n"
        begun_s = time.monotonic()
        end(parent, tied)
        tied.communicate(timeout=30.0)  # returns once no process holds the pipe
        parent.kill()
    assert tied.returncode != 0 and time.monotonic() - begun_s < 20.0


def test_a_program_keeps_its_exit_status() -> None:
    tied = run_tied(os.getpid(), ["sh", "-c", "exit 7"])
    assert tied.wait(20.0) == 7
    assert tied.stdout is not None
    tied.stdout.close()
