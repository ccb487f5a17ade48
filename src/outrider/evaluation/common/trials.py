# SPDX-License-Identifier: Apache-2.0
"""Runs trials that use ROS in a separate process, which does not outlive this one."""

from __future__ import annotations

import subprocess
import sys
import threading

from outrider.runtime.common.ending_signals import belonging_to_this_process, stopping_on_signals
from outrider.runtime.processes.ros_env import check_ros, ros_environment

POLL_S = 0.1
# For the trials, and every process that they started, to end in order.
END_S = 30.0


def run_trials(module: str, *arguments: str) -> int:
    """Run `python -m module` with this process's output; return its exit status.

    A signal that asks this process to end is passed on, waited for, and raised as KeyboardInterrupt. The
    trials have a session of their own, so that Ctrl-C reaches them once and in order. Raises ConfigError
    without ROS.
    """
    stopping = threading.Event()
    env = belonging_to_this_process(ros_environment())
    check_ros(env)
    command = [sys.executable, "-m", module, *arguments]
    with stopping_on_signals(stopping):
        with subprocess.Popen(command, env=env, start_new_session=True) as trials:
            while trials.poll() is None and not stopping.wait(POLL_S):
                pass
            _end(trials)
        if stopping.is_set():
            raise KeyboardInterrupt
    return trials.returncode


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()  # the nodes end with it
