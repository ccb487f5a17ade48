# SPDX-License-Identifier: Apache-2.0
"""`outrider bench idle`: each node's share of a core while all sensors publish and no goal runs."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from outrider.core.errors import OutriderError
from outrider.core.sensors.camera import SIM_CAMERA
from outrider.evaluation.common.legends import LEGENDS
from outrider.evaluation.common.tables import print_results, results_table
from outrider.evaluation.robot.bench_console import processor_s
from outrider.runtime.common.json_figures import write_figures
from outrider.runtime.common.paths import config_file
from outrider.runtime.common.ports import free_port
from outrider.runtime.node_graph.node_graphs import SIM_GRAPH
from outrider.runtime.node_graph.node_specs import CAMERA, GO2_STATE, NODES
from outrider.runtime.node_graph.parameter_values import (
    graph_parameters,
    read_parameter_file,
    write_parameter_file,
)
from outrider.runtime.node_graph.parameters import Value
from outrider.runtime.processes.ros_env import free_domain, ros_environment
from outrider.runtime.processes.supervisor import Supervisor
from outrider.runtime.reports.mcap_file import message_rates

LIMITS = {"navigator": 0.03, **dict.fromkeys(("action", "memory", "console", "markers", "record"), 0.02)}
LIMITS |= {CAMERA.name: 0.02, GO2_STATE.name: 0.02}
"""The largest share of a core for each node that runs on a robot."""
NODES_WITHOUT_A_GOAL = (*(name for name in SIM_GRAPH.nodes if name != "mission"), CAMERA.name, GO2_STATE.name)
# The simulation publishes the same topics, so a robot's own nodes run with other topic names.
REMAPPED = {
    CAMERA.name: ("camera/image_raw:=own/image_raw", "camera/camera_info:=own/camera_info"),
    GO2_STATE.name: ("odom:=own/odom", "/tf:=own/tf", "/tf_static:=own/tf_static"),
}
RECORDING, SENSORS = "run.mcap", ("image_raw/compressed", "odom", "scan")
# A node has settled when its share of a core differs by less than STEADY between two windows.
WINDOW_S, STEADY, SETTLE_S = 3.0, 0.01, 120.0


def bench_idle(duration_s: float, json_file: Path | None) -> dict[str, Any]:
    """Start the nodes, let them settle, measure, print, write JSON. Raises OutriderError if a node ends."""
    with tempfile.TemporaryDirectory(prefix="outrider-") as name:
        folder = Path(name)
        parameter_file = folder / "parameters.yaml"
        write_parameter_file(parameter_file, _parameters(folder))
        with Supervisor(folder / "logs", ros_environment(free_domain())) as supervisor:
            for node in NODES_WITHOUT_A_GOAL:
                remapped = [word for rule in REMAPPED.get(node, ()) for word in ("-r", rule)]
                supervisor.start(node, parameter_file, arguments=remapped)
            _settle(supervisor)
            shares = _shares(supervisor, duration_s)
        rates = message_rates(folder / RECORDING, SENSORS)
    figures = {"duration_s": duration_s, "cores": os.cpu_count(), "rates_hz": rates, "shares": shares}
    rates_text = ", ".join(f"{name} {rate:.1f}" for name, rate in rates.items())
    title, rows = "without a goal, all sensors publishing", (_cells(*share) for share in shares.items())
    table = results_table(title, *LEGENDS["bench idle"], rows=rows)
    print_results(table, f"messages a second: {rates_text}")
    write_figures(json_file, figures | {"limits": LIMITS})
    return figures


def _parameters(folder: Path) -> dict[str, dict[str, Value]]:
    """The parameters of the simulated graph, with all that a robot may run in addition."""
    arguments = {
        "memory_store": str(folder / "memory.db"),
        "record": str(folder / RECORDING),
        "markers": True,
        "endpoint": f"tcp://127.0.0.1:{free_port()}",
        "console": True,
        "console_port": free_port(),
    }
    picture = folder / "picture.png"
    cv2.imwrite(str(picture), np.full((SIM_CAMERA.height, SIM_CAMERA.width, 3), 90, np.uint8))
    parameters = graph_parameters(
        SIM_GRAPH, read_parameter_file(config_file(SIM_GRAPH.parameter_file)), arguments
    )
    parameters[CAMERA.name] = NODES[CAMERA.name].checked({"source": "file", "path": str(picture)})
    parameters[GO2_STATE.name] = NODES[GO2_STATE.name].checked({})
    return parameters


def _settle(supervisor: Supervisor) -> None:
    """Wait until models are loaded and every node's share of a core is steady. Raises OutriderError."""
    deadline_s, before = time.monotonic() + SETTLE_S, _shares(supervisor, WINDOW_S)
    while time.monotonic() < deadline_s:
        now = _shares(supervisor, WINDOW_S)
        if all(abs(share - before[name]) < STEADY for name, share in now.items()):
            return
        before = now
    raise OutriderError(f"the nodes have not settled within {SETTLE_S:g} s: is the machine busy?")


def _shares(supervisor: Supervisor, duration_s: float) -> dict[str, float]:
    """Each node's share of a core during the next `duration_s` seconds."""
    pids = supervisor.pids()
    before, started_s = {name: processor_s(pid) for name, pid in pids.items()}, time.monotonic()
    _wait(supervisor, duration_s)
    elapsed_s = time.monotonic() - started_s
    return {name: (processor_s(pid) - before[name]) / elapsed_s for name, pid in pids.items()}


def _wait(supervisor: Supervisor, duration_s: float) -> None:
    ended = threading.Event()
    timer = threading.Timer(duration_s, ended.set)
    timer.start()
    try:
        supervisor.wait(None, ended)
    finally:
        timer.cancel()


def _cells(name: str, share: float) -> tuple[str, ...]:
    limit = LIMITS.get(name)
    over = " over" if limit is not None and share > limit else ""
    return name, f"{share:.1%}", f"{limit:.0%}{over}" if limit else "not on the robot"
