"""The graph as a launch description: arguments, nodes and parameters all come from `runtime.graph`."""

from __future__ import annotations

from typing import Any

from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, EmitEvent, OpaqueFunction, RegisterEventHandler
from launch.event_handlers import OnProcessExit
from launch.events import Shutdown
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

from outrider.runtime.graph import (
    ARGUMENTS,
    NODES,
    Graph,
    argument_value,
    graph_parameters,
    read_parameter_file,
    wanted_nodes,
)
from outrider.runtime.paths import config_file

UNSET = ""


def describe(graph: Graph) -> LaunchDescription:
    """Every argument of the graph, unset by default so that the parameter file decides, and its nodes."""
    arguments = [
        DeclareLaunchArgument(name, default_value=UNSET, description=ARGUMENTS[name].description())
        for name in graph.arguments
    ]
    return LaunchDescription([*arguments, OpaqueFunction(function=_start, args=[graph])])


def _start(context: LaunchContext, graph: Graph) -> list[Any]:
    texts = {name: LaunchConfiguration(name).perform(context) for name in graph.arguments}
    given = {name: argument_value(name, text) for name, text in texts.items() if text != UNSET}
    base = read_parameter_file(config_file(graph.parameter_file))
    parameters = graph_parameters(graph, base, given)
    # Without an instruction the robot waits for goals from elsewhere.
    names = [name for name in wanted_nodes(graph, parameters) if name != "mission" or "instruction" in given]
    nodes = {name: _node(name, parameters[name]) for name in names}
    if "mission" not in nodes:
        return list(nodes.values())
    shutdown = EmitEvent(event=Shutdown(reason="the mission has ended"))
    ending = RegisterEventHandler(OnProcessExit(target_action=nodes["mission"], on_exit=[shutdown]))
    return [*nodes.values(), ending]


def _node(name: str, parameters: dict[str, Any]) -> Node:
    return Node(
        package="outrider",
        executable=NODES[name].executable,
        name=name,
        parameters=[parameters],
        output="screen",
        additional_env={"PYTHONUNBUFFERED": "1"},
    )
