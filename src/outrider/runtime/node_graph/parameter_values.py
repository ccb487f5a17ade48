# SPDX-License-Identifier: Apache-2.0
"""The values of a graph's parameters: defaults, overridden by a file, overridden by arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from outrider.core.errors import ConfigError
from outrider.runtime.node_graph.node_graphs import ARGUMENTS, Graph
from outrider.runtime.node_graph.node_specs import MEMORY, NAVIGATOR, NODES
from outrider.runtime.node_graph.observer_specs import MISSION
from outrider.runtime.node_graph.parameter_files import read_parameter_file, write_parameter_file
from outrider.runtime.node_graph.parameters import Value, is_ros_own
from outrider.runtime.node_graph.simulation_specs import GAZEBO, SIMULATION
from outrider.simulation.homes.vocabulary import target_of

__all__ = [
    "argument_help",
    "argument_value",
    "graph_parameters",
    "laid_over",
    "read_parameter_file",
    "write_parameter_file",
]


def argument_help(graph: Graph, name: str, base: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns an argument's description, its choices, and its default: from `base`, or the parameter's."""
    argument = ARGUMENTS[name]
    parameter = argument.parameter()
    words = [parameter.description]
    if parameter.choices:
        words.append(f"one of {', '.join(parameter.choices)}")
    targets = [(node, key) for node, key in argument.targets if node in graph.nodes]
    default = next((base[n][key] for n, key in targets if key in base.get(n, {})), parameter.default)
    if argument.targets[0] == (MISSION.name, "instruction"):
        words.append("without one the robot waits for goals")
    elif default != "":
        words.append(f"default: {str(default).lower() if isinstance(default, bool) else default}")
    return "; ".join(words)


def laid_over(
    base: Mapping[str, Mapping[str, Any]], over: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Returns the parameters of `base`, overridden by those of `over`."""
    return {node: {**base.get(node, {}), **over.get(node, {})} for node in {**base, **over}}


def graph_parameters(
    graph: Graph, base: Mapping[str, Mapping[str, Any]], arguments: Mapping[str, Any]
) -> dict[str, dict[str, Value]]:
    """Returns all parameters of all nodes of a graph: defaults, then a file's, then arguments."""
    unknown = sorted(set(arguments) - set(graph.arguments))
    if unknown:
        raise ConfigError(f"unknown argument {', '.join(unknown)}; known: {', '.join(graph.arguments)}")
    parameters: dict[str, dict[str, Any]] = {name: dict(base.get(name, {})) for name in graph.nodes}
    for name, value in arguments.items():
        for node, parameter in ARGUMENTS[name].targets:
            if node in parameters:
                parameters[node][parameter] = value
    checked = {name: _checked(name, parameters[name]) for name in graph.nodes}
    _name_simulated_home(checked)
    another_pace = checked.get(SIMULATION.name, {}).get("real_time_factor", 1.0) != 1.0
    if another_pace or GAZEBO.name in checked:
        for values in checked.values():
            values["use_sim_time"] = True
    return checked


def _checked(node: str, parameters: Mapping[str, Any]) -> dict[str, Value]:
    """Returns all parameters of a node, with ROS's own ones as given."""
    ros_own = {name: value for name, value in parameters.items() if is_ros_own(name)}
    if not isinstance(ros_own.get("use_sim_time", False), bool):
        raise ConfigError(f"{node}: parameter use_sim_time={ros_own['use_sim_time']!r} must be of type bool")
    return NODES[node].checked({n: v for n, v in parameters.items() if n not in ros_own}) | ros_own


def _name_simulated_home(parameters: dict[str, dict[str, Value]]) -> None:
    """Name the home after the simulation: memories of one simulated home do not hold in another."""
    simulation = parameters.get(SIMULATION.name) or parameters.get(GAZEBO.name)
    if simulation is None:
        return
    held = target_of(str(simulation["holds"] or simulation["instruction"]))
    name = f"simulation {simulation['seed']} {simulation['placement']} {held.phrase if held else 'any'}"
    for node in (MEMORY.name, NAVIGATOR.name):
        parameters[node]["home"] = parameters[node]["home"] or name


def argument_value(name: str, text: str) -> Any:
    """Returns a launch argument's text in its parameter's type. Raises ConfigError if it does not fit."""
    kind = type(ARGUMENTS[name].default())
    try:
        return {"true": True, "false": False}[text.lower()] if kind is bool else kind(text)
    except (KeyError, ValueError) as error:
        raise ConfigError(f"{name}:={text!r} must be of type {kind.__name__}") from error
