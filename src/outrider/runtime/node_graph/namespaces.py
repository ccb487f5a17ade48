# SPDX-License-Identifier: Apache-2.0
"""Separates robots that share a domain or a machine, by the robot's namespace."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from outrider.core.errors import ConfigError
from outrider.runtime.node_graph.node_graphs import Graph
from outrider.runtime.node_graph.node_specs import NAVIGATOR, NODES, VERIFIER
from outrider.runtime.node_graph.observer_specs import CONSOLE
from outrider.runtime.node_graph.simulation_specs import SIMULATION

_FORM = r"(/?[A-Za-z_]\w*)(/[A-Za-z_]\w*)*/?"


def checked_namespace(text: str) -> str:
    """Returns the namespace with a leading slash, or "" for none. Raises ConfigError if it is invalid."""
    if text.strip("/") and not re.fullmatch(_FORM, text):
        raise ConfigError(
            f"namespace={text!r} must be words of letters, digits and _, such as go2 or fleet/go2"
        )
    return f"/{text.strip('/')}" if text.strip("/") else ""


def diagnostics_name(namespace: str, node: str) -> str:
    """Returns the name of a node's status in /diagnostics, which the nodes of all robots share."""
    return f"{namespace}/outrider/{node}".strip("/")


def spec_of_status(name: str) -> str:
    """Returns the Outrider node of a status in /diagnostics, in any namespace; empty for other nodes."""
    above, _, spec = name.rpartition("/")
    return spec if above.rpartition("/")[2] == "outrider" else ""


def has_own_tf(renamed: Sequence[tuple[str, str]]) -> bool:
    """Whether /tf is remapped into the robot's namespace, as nav2 does. Frames then need no prefix."""
    return any(source == "/tf" and not target.startswith("/") for source, target in renamed)


def apart(graph: Graph, namespace: str, own_tf: bool, endpoint: str) -> dict[str, dict[str, Any]]:
    """Returns values for a graph in a namespace. They replace defaults; parameter files override them.

    Frames get the namespace as a prefix. A simulated Go2 has its topics there too; a real one's are where
    its firmware puts them. `endpoint` is a free one, for a verifier of this robot alone. The console takes
    a free port.
    """
    if not namespace:
        return {}
    values: dict[str, dict[str, Any]] = {name: {} for name in graph.nodes}
    for name in graph.nodes:
        known = {parameter.name for parameter in NODES[name].parameters}
        if "frame_prefix" in known and not own_tf:
            values[name]["frame_prefix"] = f"{namespace[1:]}/"
        if "go2_prefix" in known and SIMULATION.name in graph.nodes:
            values[name]["go2_prefix"] = namespace
    if VERIFIER.name in values and NAVIGATOR.name in values:
        values[VERIFIER.name]["endpoint"] = values[NAVIGATOR.name]["endpoint"] = endpoint
    if CONSOLE.name in values:
        values[CONSOLE.name]["port"] = 0
    return values
