# SPDX-License-Identifier: Apache-2.0
"""`outrider demo`: the whole graph in simulation, from instruction to report."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from outrider.core.errors import ConfigError, OutriderError
from outrider.core.files.private_files import make_private_folder
from outrider.core.files.terminal import say
from outrider.core.files.writing import checked_animation, make_folder, writing_to
from outrider.decoding.config import DecodingConfig, drafter_names
from outrider.runtime.common.ending_signals import (
    COULD_NOT_START,
    NOT_REACHED,
    STOPPED,
    stopping_on_signals,
)
from outrider.runtime.common.json_figures import REPORT_FILE, amend_figures
from outrider.runtime.common.links import LOOPBACK, load_network
from outrider.runtime.common.made_with import made_with
from outrider.runtime.common.paths import config_file, models_folder
from outrider.runtime.common.ports import check_endpoint_free, free_port
from outrider.runtime.common.process_memory import PeakMemory
from outrider.runtime.mission.words import check_for_pair
from outrider.runtime.node_graph.namespaces import apart, checked_namespace
from outrider.runtime.node_graph.node_graphs import SIM_GRAPH, Graph, wanted_nodes
from outrider.runtime.node_graph.node_specs import MEMORY, NAVIGATOR
from outrider.runtime.node_graph.observer_specs import CONSOLE
from outrider.runtime.node_graph.parameter_values import (
    graph_parameters,
    laid_over,
    read_parameter_file,
    write_parameter_file,
)
from outrider.runtime.node_graph.parameters import Value
from outrider.runtime.processes.ros_env import check_ros, free_domain, ros_environment
from outrider.runtime.processes.supervisor import Supervisor
from outrider.runtime.reports.left_report import BEFORE_A_GOAL, leave_report
from outrider.runtime.reports.recording import check_new
from outrider.simulation.homes.vocabulary import target_of

MISSION_END_S = 30.0
MISSION = "mission"
OWN_STORE = "demo-memory.db"


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
    """Run the whole simulated graph, from instruction to report.

    Returns 0 if the goal was reached, 1 if not, 130 after a signal. `models` is a folder with target/,
    draft/ and tokenizer/ that replaces the shipped one. Without a `memory_store` the robot begins with an
    empty one, so an earlier run changes nothing. `arguments` are further ones of the simulated graph
    (`node_graphs.SIM_GRAPH`); None means the default. Raises InstructionError and ConfigError for a bad
    argument, OutriderError if a node dies.
    """
    plan = check_for_pair(instruction, models, remembers=bool(memory_store))
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
        "link_profile": arguments.get("link_profile") or (LOOPBACK if arguments.get("console") else None),
        "console_port": _console_port(arguments.get("console_port"), namespace),
    }
    namespace = checked_namespace(namespace)
    set_arguments = {name: value for name, value in arguments.items() if value is not None}
    parameters = _parameters_of(SIM_GRAPH, set_arguments, namespace)
    _check_values(parameters, record)
    checked_animation(animation)
    _prepare(out, parameters, has_own_store=not memory_store)
    if parameters[CONSOLE.name]["serve"]:
        say(f"console: http://127.0.0.1:{parameters[CONSOLE.name]['port']}/")
    status = _run_to_report(parameters, out, namespace, made_with(models))
    return NOT_REACHED if status == COULD_NOT_START else status


def _prepare(out: Path, parameters: Mapping[str, Mapping[str, Value]], has_own_store: bool) -> None:
    """Remove an earlier run's files from the folder. Raises if this run could not write there."""
    with writing_to(out / REPORT_FILE):
        (out / REPORT_FILE).unlink(missing_ok=True)  # an earlier run's report must not count as this one's
        if has_own_store:
            remove_store(out / OWN_STORE)
    make_folder(out)
    _check_store(parameters[MEMORY.name])


def _check_values(parameters: Mapping[str, Mapping[str, Value]], record: Path | None) -> None:
    """Raise ConfigError for a value that the nodes would refuse after their start."""
    navigator = parameters[NAVIGATOR.name]
    DecodingConfig(strategy=str(navigator["strategy"]), drafters=drafter_names(str(navigator["drafters"])))
    if navigator["link_profile"]:
        load_network(str(navigator["link_profile"]))
    if record is not None:
        check_new(record)
    if parameters[CONSOLE.name]["serve"]:
        from outrider.runtime.wiring.binding import check_console  # slow to import

        check_console(parameters[CONSOLE.name])


def _check_store(memory: Mapping[str, Value]) -> None:
    """Raise MemoryStoreError for a store or a key that the memory node would refuse."""
    if memory["memory_key_file"] or Path(str(memory["memory_store"])).name != OWN_STORE:
        from outrider.runtime.wiring.memory_stores import open_memory

        open_memory(str(memory["memory_store"]), str(memory["memory_key_file"])).close()


def _run_to_report(
    parameters: Mapping[str, Mapping[str, Value]], out: Path, namespace: str, made: Mapping[str, str]
) -> int:
    """Returns the exit status of the run. A report is written however it ends, except after a refusal."""
    report, memory, stopping = out / REPORT_FILE, PeakMemory(), threading.Event()
    began_s = time.time()
    conditions = {**_conditions(parameters), "made_with": made}
    task = str(parameters[MISSION]["instruction"]), str(parameters[NAVIGATOR.name]["strategy"])
    with stopping_on_signals(stopping):
        try:
            status = run_graph(SIM_GRAPH, parameters, out / "logs", memory, stopping, namespace, report)
        except ConfigError:
            raise
        except OutriderError as error:
            leave_report(report, str(error), *task, conditions)
            raise
        if status not in (0, NOT_REACHED):
            is_stopped = status == STOPPED
            why = BEFORE_A_GOAL if is_stopped else "the mission could not start"
            leave_report(report, why, *task, conditions)
        # A mission that ended before it met the other nodes has not recorded the conditions.
        known = {**conditions, "peak_memory_mb": round(memory.peak_bytes / 1e6)}
        amend_figures(report, known | _seconds_to(report, began_s))
    return status


def _seconds_to(report: Path, began_s: float) -> dict[str, float]:
    """Returns the time from the start of the nodes to the report, which is written with the verdict."""
    return {"to_verdict_s": round(report.stat().st_mtime - began_s, 2)} if report.is_file() else {}


def _console_port(port: int | None, namespace: str) -> int | None:
    """Returns the port of a demo's console; None for the usual one.

    A robot in a namespace takes a free one, to leave the usual one to others.
    """
    return free_port() if port == 0 or (port is None and namespace) else port


def remove_store(path: Path) -> None:
    """Remove a store of memories, with the files that SQLite keeps next to it."""
    for suffix in ("", "-wal", "-shm"):
        path.with_name(f"{path.name}{suffix}").unlink(missing_ok=True)


def _conditions(parameters: Mapping[str, Mapping[str, Value]]) -> dict[str, Value | None]:
    """Returns what the figures depend on besides instruction, versions and machine."""
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
    """Returns all parameters of all nodes of a graph in a namespace."""
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
    """Start every node of a graph and wait for its mission. Returns its exit status, or STOPPED.

    `memory` measures all of its processes. Once the `report` exists the goal has ended. Then all but the
    mission are stopped; the mission may still draw pictures.
    """
    check_endpoint_free(str(parameters["verifier"]["endpoint"]))
    env = ros_environment(free_domain())
    check_ros(env)
    parameter_file = log_folder / "parameters.yaml"
    make_private_folder(log_folder)
    write_parameter_file(parameter_file, parameters, namespace)
    names = wanted_nodes(graph, parameters)
    say(f"starting {', '.join(names)}: some 10 s on two cores; logs in {log_folder}")
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
    """Stop the nodes that move the robot, before the others end."""
    supervisor.stop("action")
    supervisor.stop("navigator")
