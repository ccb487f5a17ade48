# SPDX-License-Identifier: Apache-2.0
"""Starts a graph of nodes as processes, watches them, and ends them all when one ends: `outrider demo`."""

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
from typing import Any

from outrider.core.errors import ConfigError, OutriderError
from outrider.core.files.private_files import make_private_folder, open_private
from outrider.core.files.writing import checked_animation, checked_folder, writing_to
from outrider.decoding.config import DecodingConfig, drafter_names
from outrider.runtime.common.endings import COULD_NOT_START, belonging_to_this_process, stopping_on_signals
from outrider.runtime.common.json_figures import REPORT_FILE, amend_figures
from outrider.runtime.common.links import load_network
from outrider.runtime.common.paths import config_file, models_folder
from outrider.runtime.common.ports import check_endpoint_free, free_port
from outrider.runtime.common.process_memory import PeakMemory
from outrider.runtime.mission.words import check_told
from outrider.runtime.node_graph.namespaces import apart, checked_namespace
from outrider.runtime.node_graph.node_graphs import SIM_GRAPH, Graph, wanted_nodes
from outrider.runtime.node_graph.node_specs import CONSOLE, NAVIGATOR, NODES, RECORD
from outrider.runtime.node_graph.parameter_values import (
    graph_parameters,
    laid_over,
    read_parameter_file,
    write_parameter_file,
)
from outrider.runtime.node_graph.parameters import Value
from outrider.runtime.node_graph.restarts import Restarts
from outrider.runtime.node_graph.ros_env import check_ros, free_domain, ros_environment
from outrider.runtime.reports.conditions import host, versions
from outrider.runtime.reports.recording import check_new
from outrider.simulation.vocabulary import target_of

POLL_S = 0.1
STOP_TIMEOUT_S = 5.0
MISSION_END_S = 30.0
LOG_TAIL_LINES = 15
MISSION = "mission"
OWN_STORE = "demo-memory.db"
NOT_REACHED, STOPPED = 1, 130
BEFORE_A_GOAL = "interrupted before there was a goal"


@dataclass
class _Child:
    name: str
    process: subprocess.Popen[bytes]
    log: Path | None
    command: list[str]
    restarts: Restarts


class Supervisor:
    """The processes of one graph. Use as a context manager: leaving it ends every process it started."""

    def __init__(
        self,
        log_folder: Path,
        env: Mapping[str, str],
        memory: PeakMemory | None = None,
        namespace: str = "",
    ) -> None:
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
        """Start a node, with more ROS arguments if any; its output goes to its log, or to the terminal.

        A `wrapper` is a module that runs the node's own, which is its argument.
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
            # A session of its own: Ctrl-C must not reach the nodes before the robot has been stopped.
            return subprocess.Popen(
                command, env=self._env, stdout=output, stderr=output, start_new_session=True
            )

    def wait(
        self, last: str | None, stopping: threading.Event, is_over: Callable[[], bool] = lambda: False
    ) -> int | None:
        """Until `last` ends, or a node whose output the terminal has could not start: its exit status;
        130 when stopped, None once `is_over`.

        A node that ends before is started again where its specification says so; otherwise OutriderError.
        """
        while not stopping.wait(POLL_S):
            self._memory.look([os.getpid(), *self.pids().values()])
            for child in self._children:
                status = child.process.poll()
                told_why = status == COULD_NOT_START and child.log is None
                if status is not None and (child.name == last or told_why):
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
        """A new process of a node that has ended."""
        child = self._child(name)
        child.process = self._spawn(child.command, child.log)

    def _child(self, name: str) -> _Child:
        return next(child for child in self._children if child.name == name)

    def stop_all(self, but: str = "") -> None:
        """End all but one, in the reverse order of starting; what does not end in time is killed."""
        children = [child for child in reversed(self._children) if child.name != but]
        self._children = [child for child in self._children if child.name == but]
        running = [child.process for child in children if child.process.poll() is None]
        for process in running:
            process.terminate()
        deadline_s = time.monotonic() + STOP_TIMEOUT_S
        for process in running:
            _end(process, max(0.1, deadline_s - time.monotonic()))

    def log_tail(self, name: str) -> list[str]:
        """The last lines of a node's log; none of a node that was not started here."""
        return [
            line for child in self._children if child.name == name for line in _tail(child.log).splitlines()
        ]

    def pids(self) -> dict[str, int]:
        """The process of each node."""
        return {child.name: child.process.pid for child in self._children}


def run_demo(
    instruction: str,
    *,
    out: Path = Path("out/demo"),
    models: Path | None = None,
    memory_store: str = "",
    record: Path | None = None,
    animation: Path | None = None,
    namespace: str = "",
    **arguments: Any,
) -> int:
    """The whole graph in simulation, from instruction to report: 0 where the goal was reached, 1 where not,
    130 where a signal asked for the end.

    `models` is a folder with target/, draft/ and tokenizer/ in place of the shipped ones. Without a
    `memory_store` the robot begins with an empty one, so that two runs are the same run. `arguments` are more
    of the simulated graph's (`graphs.SIM_GRAPH`); None stands for the default.
    Raises InstructionError and ConfigError for a bad argument, OutriderError where a node dies.
    """
    plan = check_told(instruction, models, remembers=bool(memory_store))
    if models is not None:
        folder = models_folder(models.resolve())
        arguments |= {"draft_model": str(folder / "draft"), "model": str(folder / "target")}
    arguments |= {
        "instruction": instruction,
        "holds": arguments.get("holds") or (plan.intent if target_of(plan.intent) else None),
        "out": str(out.resolve()),
        "memory_store": str((Path(memory_store) if memory_store else out / OWN_STORE).resolve()),
        "record": str(record.resolve()) if record else None,
        "animation": str(animation.resolve()) if animation else None,
        "endpoint": arguments.get("endpoint") or f"tcp://127.0.0.1:{free_port()}",
        "console_port": _console_port(arguments.get("console_port"), namespace),
    }
    namespace = checked_namespace(namespace)
    given = {name: value for name, value in arguments.items() if value is not None}
    parameters = _parameters_of(SIM_GRAPH, given, namespace)
    _check_values(parameters, record)
    checked_animation(animation)
    checked_folder(out)
    with writing_to(out / REPORT_FILE):
        (out / REPORT_FILE).unlink(missing_ok=True)  # that of an earlier run must not pass for this one's
        if not memory_store:
            remove_store(out / OWN_STORE)
    if parameters[CONSOLE.name]["serve"]:
        print(f"console: http://127.0.0.1:{parameters[CONSOLE.name]['port']}/", flush=True)
    status = _run_to_report(parameters, out, namespace)
    return NOT_REACHED if status == COULD_NOT_START else status


def _check_values(parameters: Mapping[str, Mapping[str, Value]], record: Path | None) -> None:
    """Raises ConfigError for a value that the nodes would refuse after they have started."""
    navigator = parameters[NAVIGATOR.name]
    DecodingConfig(strategy=str(navigator["strategy"]), drafters=drafter_names(str(navigator["drafters"])))
    if navigator["link_profile"]:
        load_network(str(navigator["link_profile"]))
    if record is not None:
        check_new(record)


def _run_to_report(parameters: Mapping[str, Mapping[str, Value]], out: Path, namespace: str) -> int:
    """The exit status of the run; a report is left however it ends, but for what is refused before."""
    report, memory, stopping = out / REPORT_FILE, PeakMemory(), threading.Event()
    began_s = time.time()
    conditions = _conditions(parameters)
    told = str(parameters[MISSION]["instruction"]), str(parameters[NAVIGATOR.name]["strategy"])
    with stopping_on_signals(stopping):
        try:
            status = run_graph(SIM_GRAPH, parameters, out / "logs", memory, stopping, namespace, report)
        except ConfigError:
            raise
        except OutriderError as error:
            leave_report(report, str(error), *told, conditions)
            raise
        if status not in (0, NOT_REACHED):
            is_stopped = status == STOPPED
            why = BEFORE_A_GOAL if is_stopped else "the mission could not start"
            leave_report(report, why, *told, conditions)
        # A mission that ended before it had met the other nodes does not know the conditions.
        known = {**conditions, "peak_memory_mb": round(memory.peak_bytes / 1e6)}
        amend_figures(report, known | _seconds_to(report, began_s))
    return status


def _seconds_to(report: Path, began_s: float) -> dict[str, float]:
    """From the start of the nodes to the report, which is written with the verdict."""
    return {"to_verdict_s": round(report.stat().st_mtime - began_s, 2)} if report.is_file() else {}


def _console_port(asked: int | None, namespace: str) -> int | None:
    """The port of a demo's console; None for the usual one, which a robot in a namespace leaves to others."""
    return free_port() if asked == 0 or (asked is None and namespace) else asked


def remove_store(path: Path) -> None:
    """Remove a store of memories, with what SQLite keeps beside it."""
    for suffix in ("", "-wal", "-shm"):
        path.with_name(f"{path.name}{suffix}").unlink(missing_ok=True)


def leave_report(
    report: Path, reason: str, instruction: str, strategy: str, conditions: Mapping[str, Any]
) -> None:
    """Write the report of a run whose mission left none; does nothing where it did."""
    if report.is_file():
        return
    from outrider.runtime.reports.report import RunRecord, write_summary  # draws pictures too: slow to import

    known = {**conditions, "versions": versions(), "host": host()}
    record = RunRecord(instruction, False, "cancelled", reason, strategy, 0.0, conditions=known)
    print(f"report: {write_summary(record, report.parent)}", flush=True)


def _conditions(parameters: Mapping[str, Mapping[str, Value]]) -> dict[str, Value | None]:
    """What the figures of a simulated run depend on besides its instruction, versions and machine."""
    simulation, navigator = parameters["simulation"], parameters["navigator"]
    return {
        "seed": simulation["seed"],
        "placement": simulation["placement"],
        "link": navigator["link_profile"] or None,
        "drafters": navigator["drafters"],
        "draft_model": navigator["draft_model"],
        "temperature": navigator["temperature"],
        "sampling_seed": navigator["seed"],
    }


def _parameters_of(graph: Graph, arguments: Mapping[str, Any], namespace: str) -> dict[str, dict[str, Value]]:
    """Every parameter of every node of a graph in a namespace."""
    defaults = apart(graph, namespace, False, str(arguments["endpoint"]))
    base = laid_over(defaults, read_parameter_file(config_file(graph.parameter_file)))
    return graph_parameters(graph, base, arguments)


def run_graph(
    graph: Graph,
    parameters: Mapping[str, Mapping[str, Value]],
    log_folder: Path,
    memory: PeakMemory,
    stopping: threading.Event,
    namespace: str = "",
    report: Path | None = None,
) -> int:
    """Start every node of a graph and wait for its mission; its exit status, or STOPPED.

    `memory` sees all of its processes. Once the `report` is there the goal has ended, and all but the mission
    are stopped, which may draw pictures yet.
    """
    check_endpoint_free(str(parameters["verifier"]["endpoint"]))
    env = ros_environment(free_domain())
    check_ros(env)
    parameter_file = log_folder / "parameters.yaml"
    make_private_folder(log_folder)
    write_parameter_file(parameter_file, parameters, namespace)
    names = wanted_nodes(graph, parameters)
    print(f"starting {', '.join(names)}: some 10 s on two cores; logs in {log_folder}", flush=True)
    with Supervisor(log_folder, env, memory, namespace) as supervisor:
        for name in names:
            supervisor.start(name, parameter_file, to_terminal=name == MISSION)
        status = supervisor.wait(MISSION, stopping, lambda: report is not None and report.is_file())
        if status is None:
            _stop_base(supervisor)
            supervisor.stop_all(but=MISSION)
            status = supervisor.wait(MISSION, stopping)
        supervisor.stop(MISSION, MISSION_END_S)  # it cancels its goal and writes its report
        _stop_base(supervisor)
        return STOPPED if status is None else status


def _stop_base(supervisor: Supervisor) -> None:
    """The robot must stand before those are gone that its base listens to."""
    supervisor.stop("action")
    supervisor.stop("navigator")


def run_recorder(file: Path, namespace: str = "") -> int:
    """Record on the domain of ROS_DOMAIN_ID until a signal asks for the end; the recorder's exit status.

    Raises ConfigError where the file is there already.
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
    """Terminate, then kill with everything the process started."""
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
