# SPDX-License-Identifier: Apache-2.0
"""Starts nodes as processes, watches and restarts them, and ends them all."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from outrider.core.errors import OutriderError
from outrider.core.files.private_files import make_private_folder, open_private
from outrider.runtime.common.ending_signals import (
    COULD_NOT_START,
    STOPPED,
    belonging_to_this_process,
    stopping_on_signals,
)
from outrider.runtime.common.process_memory import PeakMemory
from outrider.runtime.node_graph.node_specs import NODES
from outrider.runtime.node_graph.observer_specs import RECORD
from outrider.runtime.node_graph.parameter_values import (
    write_parameter_file,
)
from outrider.runtime.node_graph.restarts import Restarts
from outrider.runtime.processes.ros_env import check_ros, ros_environment
from outrider.runtime.reports.recording import check_new

POLL_S = 0.1
STOP_TIMEOUT_S = 5.0
LOG_TAIL_LINES = 15


@dataclass
class _Child:
    name: str
    process: subprocess.Popen[bytes]
    log: Path | None
    command: list[str]
    restarts: Restarts


class Supervisor:
    """The processes of one graph, as a context manager: its exit ends every process that it started."""

    def __init__(
        self,
        log_folder: Path,
        env: Mapping[str, str],
        memory: PeakMemory | None = None,
        namespace: str = "",
    ) -> None:
        check_ros(env)
        self._log_folder = log_folder
        self._placed = ["-r", f"__ns:={namespace}"] if namespace else []
        self._memory = memory or PeakMemory()
        self._env = belonging_to_this_process(env)
        self._children: list[_Child] = []

    def __enter__(self) -> Supervisor:
        make_private_folder(self._log_folder)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop_all()

    def start(
        self,
        name: str,
        parameter_file: Path,
        to_terminal: bool = False,
        arguments: Sequence[str] = (),
        wrapper: Sequence[str] = (),
    ) -> None:
        """Start a node, with further ROS arguments if any. Its output goes to its log, or to the terminal.

        `wrapper` is a module, with its arguments, that runs the node's module, its last argument.
        """
        spec = NODES[name]
        command = [sys.executable, "-m", *wrapper, spec.module]
        command += ["--ros-args", "--params-file", str(parameter_file), *self._placed, *arguments]
        log = None if to_terminal else self._log_folder / f"{name}.log"
        if log is not None:
            log.unlink(missing_ok=True)
        self._children.append(_Child(name, self._spawn(command, log), log, command, Restarts(spec)))

    def _spawn(self, command: list[str], log: Path | None) -> subprocess.Popen[bytes]:
        with contextlib.ExitStack() as stack:
            output = stack.enter_context(open_private(log, "ab")) if log else None
            # A separate session: Ctrl-C must not reach the nodes before the robot has been stopped.
            return subprocess.Popen(
                command, env=self._env, stdout=output, stderr=output, start_new_session=True
            )

    def wait(
        self, last: str | None, stopping: threading.Event, is_over: Callable[[], bool] = lambda: False
    ) -> int | None:
        """Wait for `last` to end. Returns its exit status; 130 when stopped, None once `is_over`.

        It also returns the status of a node that could not start and wrote why to the terminal. Another
        node that ends is restarted if its specification allows it; otherwise OutriderError is raised.
        """
        while not stopping.wait(POLL_S):
            self._memory.look([os.getpid(), *self.pids().values()])
            for child in self._children:
                status = child.process.poll()
                wrote_reason = status == COULD_NOT_START and child.log is None
                if status is not None and (child.name == last or wrote_reason):
                    return status
                if status is not None:
                    self._replace(child, status)
            if is_over():
                return None
        return STOPPED

    def _replace(self, child: _Child, status: int) -> None:
        if not child.restarts.allow(status):
            raise OutriderError(f"{child.name} ended with exit status {status}:\n{_tail(child.log)}")
        print(f"{child.name} ended with exit status {status}: starting it again", file=sys.stderr)
        self.start_again(child.name)

    def stop(self, name: str, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Ask a node to end, and wait for it."""
        for child in self._children:
            if child.name == name:
                _end(child.process, timeout_s)

    def kill(self, name: str) -> None:
        """End a node as kill -9 does; it may be started again."""
        child = self._child(name)
        child.process.kill()
        child.process.wait()

    def start_again(self, name: str) -> None:
        """Start a new process of a node that has ended."""
        child = self._child(name)
        child.process = self._spawn(child.command, child.log)

    def _child(self, name: str) -> _Child:
        return next(child for child in self._children if child.name == name)

    def stop_all(self, but: str = "") -> None:
        """End all nodes except `but`, in reverse order of their start.

        Those that do not end in time are killed.
        """
        children = [child for child in reversed(self._children) if child.name != but]
        self._children = [child for child in self._children if child.name == but]
        running = [child.process for child in children if child.process.poll() is None]
        for process in running:
            process.terminate()
        deadline_s = time.monotonic() + STOP_TIMEOUT_S
        for process in running:
            _end(process, max(0.1, deadline_s - time.monotonic()))

    def log_tail(self, name: str) -> list[str]:
        """Returns the last lines of a node's log; none for a node that was not started here."""
        return [
            line for child in self._children if child.name == name for line in _tail(child.log).splitlines()
        ]

    def pids(self) -> dict[str, int]:
        """Returns the process id of each node."""
        return {child.name: child.process.pid for child in self._children}


def run_recorder(file: Path, namespace: str = "") -> int:
    """Record on the domain of ROS_DOMAIN_ID until a signal. Returns the recorder's exit status.

    Raises ConfigError if the file exists already.
    """
    check_new(file)
    stopping = threading.Event()
    with tempfile.TemporaryDirectory() as folder, stopping_on_signals(stopping):
        parameter_file = Path(folder) / "parameters.yaml"
        parameters = {RECORD.name: RECORD.checked({"file": str(file.resolve())})}
        write_parameter_file(parameter_file, parameters, namespace)
        with Supervisor(Path(folder), ros_environment(), namespace=namespace) as supervisor:
            supervisor.start(RECORD.name, parameter_file, to_terminal=True)
            print(f"recording to {file} until Ctrl-C", flush=True)
            status = supervisor.wait(RECORD.name, stopping)
    return 0 if stopping.is_set() else status or 0


def _end(process: subprocess.Popen[bytes], timeout_s: float) -> None:
    """Terminate a process. After the timeout, kill it and its process group."""
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _tail(log: Path | None) -> str:
    if log is None or not log.is_file():
        return "(its output is above)"
    lines = log.read_text(errors="replace").splitlines()
    return "\n".join([*lines[-LOG_TAIL_LINES:], f"(the whole log: {log})"])
