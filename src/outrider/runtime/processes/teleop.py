# SPDX-License-Identifier: Apache-2.0
"""`outrider console`: the web console for nodes that already run, or with a whole simulated robot."""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from outrider.runtime.common.ending_signals import stopping_on_signals
from outrider.runtime.common.links import LOOPBACK
from outrider.runtime.common.paths import config_file
from outrider.runtime.common.ports import free_port
from outrider.runtime.node_graph.namespaces import checked_namespace
from outrider.runtime.node_graph.node_graphs import SIM_GRAPH, wanted_nodes
from outrider.runtime.node_graph.observer_specs import CONSOLE, MISSION
from outrider.runtime.node_graph.parameter_values import (
    graph_parameters,
    read_parameter_file,
    write_parameter_file,
)
from outrider.runtime.node_graph.parameters import Value
from outrider.runtime.processes.ros_env import free_domain, ros_environment
from outrider.runtime.processes.supervisor import Supervisor
from outrider.runtime.wiring.binding import check_console


def run_console(settings: Mapping[str, Value], namespace: str = "") -> int:
    """Run the console alone, in this terminal's ROS domain, until interrupted. Returns the exit status.

    `settings` are its parameters, `namespace` is that of its robot. Raises ConfigError for a wrong value.
    """
    parameters = {CONSOLE.name: CONSOLE.checked(settings)}
    namespace = checked_namespace(namespace)
    check_console(parameters[CONSOLE.name])
    return _run((CONSOLE.name,), parameters, ros_environment(), namespace)


def run_simulated(settings: Mapping[str, Value], simulation: Mapping[str, Value]) -> int:
    """Run a simulated robot that waits for commands from its console, until interrupted.

    `simulation` are arguments of the simulated graph. Returns the exit status. Raises ConfigError for a
    wrong value, OutriderError if a node dies.
    """
    base: dict[str, dict[str, Any]] = read_parameter_file(config_file(SIM_GRAPH.parameter_file))
    base[CONSOLE.name] = {**base.get(CONSOLE.name, {}), **settings}
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    arguments = {"endpoint": endpoint, "console": True, "link_profile": LOOPBACK, **simulation}
    parameters = graph_parameters(SIM_GRAPH, base, arguments)
    check_console(parameters[CONSOLE.name])
    names = tuple(name for name in wanted_nodes(SIM_GRAPH, parameters) if name != MISSION.name)
    return _run(names, parameters, ros_environment(free_domain()))


def _run(
    names: tuple[str, ...],
    parameters: Mapping[str, Mapping[str, Value]],
    env: Mapping[str, str],
    namespace: str = "",
) -> int:
    """Start nodes and wait; the robot's side is stopped first. Returns 0 if it was interrupted."""
    stopping = threading.Event()
    with tempfile.TemporaryDirectory(prefix="outrider-") as folder:
        logs = Path(folder)
        parameter_file = logs / "parameters.yaml"
        write_parameter_file(parameter_file, parameters, namespace)
        with stopping_on_signals(stopping), Supervisor(logs, env, namespace=namespace) as supervisor:
            for name in names:
                supervisor.start(name, parameter_file, to_terminal=name == CONSOLE.name)
            supervisor.wait(None, stopping)
            if stopping.is_set():
                print("stopping", file=sys.stderr)
            supervisor.stop("action")
            supervisor.stop("navigator")
    return 0 if stopping.is_set() else 1
