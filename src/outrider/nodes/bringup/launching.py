# SPDX-License-Identifier: Apache-2.0
"""The graph as a launch description; arguments, nodes and parameters come from `graphs` and `node_specs`."""

from __future__ import annotations

import re
import shlex
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from launch import LaunchContext, LaunchDescription
from launch.actions import (
    DeclareLaunchArgument,
    EmitEvent,
    ExecuteProcess,
    OpaqueFunction,
    RegisterEventHandler,
    TimerAction,
)
from launch.event_handlers import OnProcessExit, OnShutdown
from launch.events import Shutdown, matches_action
from launch.events.process import ProcessExited, ShutdownProcess
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.utilities import prefix_namespace

from outrider.core.errors import ConfigError
from outrider.core.files.given_file import in_home
from outrider.core.files.writing import make_folder, writing_to
from outrider.nodes.bringup.report_watch import ReportWatch
from outrider.runtime.common.ending_signals import belonging_to_this_process
from outrider.runtime.common.json_figures import REPORT_FILE
from outrider.runtime.common.paths import config_file
from outrider.runtime.common.ports import free_port
from outrider.runtime.node_graph.gazebo import check_installed, own_partition, prepare_gazebo
from outrider.runtime.node_graph.namespaces import apart, checked_namespace, has_own_tf
from outrider.runtime.node_graph.node_graphs import Graph, wanted_nodes
from outrider.runtime.node_graph.node_specs import NODES
from outrider.runtime.node_graph.observer_specs import MISSION
from outrider.runtime.node_graph.parameter_values import (
    argument_help,
    argument_value,
    graph_parameters,
    laid_over,
    read_parameter_file,
)
from outrider.runtime.node_graph.parameters import NodeSpec
from outrider.runtime.node_graph.restarts import Restarts
from outrider.runtime.node_graph.simulation_specs import SIMULATION
from outrider.runtime.reports.left_report import leave_report

UNSET = ""
RESTART_DELAY_S = 1.0
_NAME = r"[~/A-Za-z_][/\w]*"
NAMESPACE, PARAMETER_FILE, REMAP = "namespace", "params_file", "remap"

Parameters = dict[str, dict[str, Any]]
Renamed = Sequence[tuple[str, str]]
Companions = Callable[[Parameters, str, Renamed], list[Any]]


def no_companions(parameters: Parameters, namespace: str, renamed: Renamed) -> list[Any]:
    """Returns no further launch actions."""
    return []


def describe(graph: Graph, companions: Companions = no_companions) -> LaunchDescription:
    """Returns a description of the graph's nodes and arguments.

    An unset argument leaves the value of the parameter files. `companions` returns further launch actions,
    given all parameters, the namespace and the topic remappings.
    """
    base = read_parameter_file(config_file(graph.parameter_file))
    helps = {name: argument_help(graph, name, base) for name in graph.arguments}
    helps[NAMESPACE] = "of all nodes and topics, such as go2, for several robots on one domain or machine"
    helps[PARAMETER_FILE] = f"ROS parameter file of your own, over config/{graph.parameter_file}"
    helps[REMAP] = "topics of other names, for all nodes: 'scan=/lidar/scan odom=/robot/odom'"
    arguments = [
        DeclareLaunchArgument(name, default_value=UNSET, description=text) for name, text in helps.items()
    ]
    return LaunchDescription([*arguments, OpaqueFunction(function=_start, args=[graph, base, companions])])


def _start(
    context: LaunchContext, graph: Graph, base: Mapping[str, Mapping[str, Any]], companions: Companions
) -> list[Any]:
    texts = {name: LaunchConfiguration(name).perform(context) for name in graph.arguments}
    explicit = {name: argument_value(name, text) for name, text in texts.items() if text != UNSET}
    namespace = _namespace(context)
    own_file = LaunchConfiguration(PARAMETER_FILE).perform(context)
    if own_file != UNSET:
        base = laid_over(base, read_parameter_file(in_home(own_file), namespace))
    renamed = remappings(LaunchConfiguration(REMAP).perform(context))
    own_tf = has_own_tf([*context.launch_configurations.get("ros_remaps", []), *renamed])
    defaults = apart(graph, namespace, own_tf, f"tcp://127.0.0.1:{free_port()}")
    parameters = graph_parameters(graph, laid_over(defaults, base), explicit)
    # Without an instruction there is no mission: the robot waits for goals from elsewhere.
    has_goal = "instruction" in explicit
    names = [name for name in wanted_nodes(graph, parameters) if name != "mission" or has_goal]
    nodes = {name: _node(name, namespace, parameters[name], renamed) for name in names}
    followed = {name: _follow(NODES[name], node) for name, node in nodes.items()}
    started = [*companions(parameters, namespace, renamed), *nodes.values(), *followed.values()]
    out = str(parameters[MISSION.name]["out"]) if MISSION.name in nodes else ""
    if not out:
        return started
    its_own, report = (nodes[MISSION.name], followed[MISSION.name]), Path(out) / REPORT_FILE
    report_context = (
        str(parameters[MISSION.name]["instruction"]),
        str(parameters.get("navigator", {}).get("strategy", "")),
    )
    observed = [action for action in started if action not in its_own]
    return [*started, _watch(report, observed), _leaving_report(report, *report_context)]


def _leaving_report(report: Path, instruction: str, strategy: str) -> RegisterEventHandler:
    """Returns a handler that leaves a report if the launch ends without one.

    The mission's own replaces it.
    """

    def leave(_event: Shutdown, _context: LaunchContext) -> None:
        leave_report(report, "ended before the mission left a report", instruction, strategy, {})

    return RegisterEventHandler(OnShutdown(on_shutdown=leave))


def _watch(report: Path, observed: Sequence[Any]) -> TimerAction:
    """Returns a timer that stops the others once this run has a report.

    Raises ConfigError if none can be written.
    """
    make_folder(report.parent)
    with writing_to(report):
        report.unlink(missing_ok=True)  # a report of an earlier run must not count as this one's
    processes = [action for action in observed if isinstance(action, ExecuteProcess)]
    handlers = [action.event_handler for action in observed if isinstance(action, RegisterEventHandler)]
    ends = [handler for handler in handlers if isinstance(handler, OnProcessExit)]
    return ReportWatch(report, processes, ends).action()


def _follow(spec: NodeSpec, node: Node) -> RegisterEventHandler:
    """Returns a handler for the end of a node's process.

    The end of the mission or the simulation ends the launch. Another node may be kept from restarting.
    """
    if spec in (MISSION, SIMULATION):
        return _ending_all(node, f"the {spec.name} has ended")
    restarts = Restarts(spec)

    def on_exit(event: ProcessExited, context: LaunchContext) -> list[Any]:
        if restarts.allow(event.returncode):
            return []
        return [EmitEvent(event=ShutdownProcess(process_matcher=matches_action(node)))]

    return RegisterEventHandler(OnProcessExit(target_action=node, on_exit=on_exit))


def _ending_all(process: ExecuteProcess, reason: str) -> RegisterEventHandler:
    """Returns a handler that ends the launch when a process has ended."""
    shutdown = EmitEvent(event=Shutdown(reason=reason))
    return RegisterEventHandler(OnProcessExit(target_action=process, on_exit=[shutdown]))


def _namespace(context: LaunchContext) -> str:
    """Returns the given namespace, inside the namespace of an including launch file's group."""
    explicit = checked_namespace(LaunchConfiguration(NAMESPACE).perform(context))
    group = context.launch_configurations.get("ros_namespace")
    if not group:
        return explicit
    return checked_namespace(str(prefix_namespace(group, explicit[1:]) if explicit else group))


def remappings(text: str) -> list[tuple[str, str]]:
    """Returns the pairs of `scan=/lidar/scan odom=/robot/odom`. Raises ConfigError for any other form."""
    pairs = [re.fullmatch(rf"({_NAME})=({_NAME})", word) for word in text.split()]
    if not all(pairs):
        raise ConfigError(f"{REMAP}:={text!r} must read 'scan=/lidar/scan odom=/robot/odom'")
    return [(pair[1], pair[2]) for pair in pairs if pair]


def _node(name: str, namespace: str, parameters: dict[str, Any], renamed: Renamed) -> Node:
    return Node(
        package="outrider",
        executable=NODES[name].executable,
        name=name,
        namespace=namespace,
        parameters=[parameters],
        remappings=renamed,
        output="screen",
        respawn=NODES[name].restarted,
        respawn_delay=RESTART_DELAY_S,
        additional_env=belonging_to_this_process({"PYTHONUNBUFFERED": "1"}),
    )


def gazebo_processes(parameters: Parameters, namespace: str, renamed: Renamed = ()) -> list[Any]:
    """Returns the actions that start Gazebo, with a world made for the arguments, and its bridge.

    The world's folder is deleted with the launch. Each launch has its own partition of Gazebo's transport,
    so its topics do not mix with another Gazebo's. The end of either process ends the launch: without the
    bridge nothing can stop the base. Neither outlives a launch that is killed.
    """
    check_installed(str(parameters["gazebo"]["release"]))
    folder = tempfile.TemporaryDirectory(prefix="outrider_gazebo_")
    run = prepare_gazebo(parameters["gazebo"], Path(folder.name))
    env = belonging_to_this_process(own_partition(namespace))
    tied = [sys.executable, "-m", "outrider.runtime.common.tied"]
    bridge = Node(
        package="ros_gz_bridge",
        executable="parameter_bridge",
        name="gazebo_bridge",
        namespace=namespace,
        prefix=shlex.join(tied),
        additional_env=env,
        parameters=[{"config_file": str(run.bridge_file), "use_sim_time": True}],
        remappings=renamed,
        output="screen",
    )
    gazebo = ExecuteProcess(cmd=[*tied, *run.command], output="screen", additional_env=env)
    endings = [_ending_all(gazebo, "Gazebo has ended"), _ending_all(bridge, "Gazebo's bridge has ended")]
    tidying = RegisterEventHandler(OnShutdown(on_shutdown=lambda *_: folder.cleanup()))
    return [gazebo, bridge, *endings, tidying]
