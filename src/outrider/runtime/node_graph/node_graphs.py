# SPDX-License-Identifier: Apache-2.0
"""The graphs of nodes that run together, and the arguments of each graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from outrider.runtime.node_graph.node_specs import NODES
from outrider.runtime.node_graph.parameters import Parameter, Value
from outrider.runtime.node_graph.shared_parameters import FRAME_PREFIX, GO2_PREFIX


@dataclass(frozen=True)
class Argument:
    """A launch argument, and the (node, parameter) pairs that it sets."""

    name: str
    targets: tuple[tuple[str, str], ...]

    def default(self) -> Value:
        """Returns the default of the parameter that it sets."""
        return self.parameter().default

    def parameter(self) -> Parameter:
        """Returns the first parameter that it sets; the others are of the same kind."""
        node, name = self.targets[0]
        return next(p for p in NODES[node].parameters if p.name == name)


@dataclass(frozen=True)
class Graph:
    """Nodes that are started together, and their arguments. When the node `mission` ends, all end.

    The nodes in `always` are started even if no parameter asks for them.
    """

    nodes: tuple[str, ...]
    arguments: tuple[str, ...]
    parameter_file: str
    always: tuple[str, ...] = ()


def _all_with(parameter: Parameter) -> tuple[tuple[str, str], ...]:
    return tuple((spec.name, parameter.name) for spec in NODES.values() if parameter in spec.parameters)


ARGUMENTS = {
    argument.name: argument
    for argument in (
        Argument(
            "instruction",
            (("mission", "instruction"), ("simulation", "instruction"), ("gazebo", "instruction")),
        ),
        Argument("holds", (("simulation", "holds"), ("gazebo", "holds"))),
        Argument("memory_store", (("memory", "memory_store"), ("navigator", "memory_store"))),
        Argument("memory_key_file", (("memory", "memory_key_file"), ("navigator", "memory_key_file"))),
        Argument("home", (("memory", "home"), ("navigator", "home"))),
        Argument("out", (("mission", "out"),)),
        Argument("video", (("mission", "video"),)),
        Argument("animation", (("mission", "animation"),)),
        Argument("record", (("record", "file"), ("mission", "recording"))),
        Argument("markers", (("markers", "draw"),)),
        Argument("seed", (("simulation", "seed"), ("gazebo", "seed"))),
        Argument("placement", (("simulation", "placement"), ("gazebo", "placement"))),
        Argument("release", (("gazebo", "release"),)),
        Argument("gui", (("gazebo", "gui"),)),
        Argument("scan_hz", (("gazebo", "scan_hz"),)),
        Argument("legs", (("simulation", "legs"),)),
        Argument("real_time_factor", (("simulation", "real_time_factor"),)),
        Argument("endpoint", (("navigator", "endpoint"), ("verifier", "endpoint"))),
        Argument("second_endpoint", (("navigator", "second_endpoint"),)),
        Argument("key_file", (("navigator", "key_file"), ("verifier", "key_file"))),
        Argument("strategy", (("navigator", "strategy"),)),
        Argument("motion", (("navigator", "motion"),)),
        Argument("drafters", (("navigator", "drafters"),)),
        Argument("temperature", (("navigator", "temperature"),)),
        Argument("top_p", (("navigator", "top_p"),)),
        Argument("top_k", (("navigator", "top_k"),)),
        Argument("sampling_seed", (("navigator", "seed"),)),
        Argument("link_profile", (("navigator", "link_profile"),)),
        Argument("draft_model", (("navigator", "draft_model"),)),
        Argument("max_length", (("navigator", "max_length"), ("verifier", "max_length"))),
        Argument("constrained", (("navigator", "constrained"), ("verifier", "constrained"))),
        Argument("draft_precision", (("navigator", "precision"),)),
        Argument("draft_device", (("navigator", "device"),)),
        Argument("draft_runtime", (("navigator", "runtime"),)),
        Argument("draft_provider", (("navigator", "provider"),)),
        Argument("model", (("verifier", "model"),)),
        Argument("cloud_draft_model", (("verifier", "draft_model"),)),
        Argument("cloud_draft_device", (("verifier", "draft_device"),)),
        Argument("wanted_model", (("navigator", "wanted_model"),)),
        Argument("corpus", (("verifier", "corpus"),)),
        Argument("answers", (("navigator", "answers"),)),
        Argument("answer_model", (("navigator", "answer_model"), ("verifier", "answer_model"))),
        Argument("model_precision", (("verifier", "precision"),)),
        Argument("model_device", (("verifier", "device"),)),
        Argument("max_sessions", (("verifier", "max_sessions"),)),
        Argument("tokens_per_s", (("verifier", "tokens_per_s"),)),
        Argument("metrics_port", (("verifier", "metrics_port"),)),
        Argument("command_interface", (("action", "command_interface"),)),
        Argument("robot_avoidance", (("action", "robot_avoidance"),)),
        Argument("source", (("camera", "source"),)),
        Argument("topic", (("camera", "topic"),)),
        Argument("device", (("camera", "device"),)),
        Argument("path", (("camera", "path"),)),
        Argument("interface", (("camera", "interface"),)),
        Argument("odometry_source", (("go2_state", "odometry_source"),)),
        Argument("map_to_odom", (("go2_state", "map_to_odom"),)),
        Argument("frame_prefix", _all_with(FRAME_PREFIX)),
        Argument("go2_prefix", _all_with(GO2_PREFIX)),
        Argument("verifier", (("verifier", "serve"),)),
        Argument("console", (("console", "serve"),)),
        Argument("console_host", (("console", "host"),)),
        Argument("console_port", (("console", "port"),)),
    )
}

SIM_GRAPH = Graph(
    ("verifier", "simulation", "record", "markers", "action", "memory", "navigator", "console", "mission"),
    (
        "instruction",
        "holds",
        "memory_store",
        "memory_key_file",
        "corpus",
        "answers",
        "answer_model",
        "out",
        "video",
        "animation",
        "record",
        "markers",
        "seed",
        "placement",
        "legs",
        "real_time_factor",
        "endpoint",
        "second_endpoint",
        "strategy",
        "motion",
        "drafters",
        "temperature",
        "top_p",
        "top_k",
        "sampling_seed",
        "link_profile",
        "draft_model",
        "max_length",
        "constrained",
        "draft_precision",
        "draft_device",
        "draft_runtime",
        "draft_provider",
        "model",
        "cloud_draft_model",
        "cloud_draft_device",
        "model_precision",
        "model_device",
        "command_interface",
        "robot_avoidance",
        "frame_prefix",
        "go2_prefix",
        "verifier",
        "console",
        "console_host",
        "console_port",
    ),
    "sim.yaml",
)
ROBOT_GRAPH = Graph(
    ("camera", "go2_state", "record", "markers", "action", "memory", "navigator", "mission"),
    (
        "instruction",
        "memory_store",
        "memory_key_file",
        "answers",
        "answer_model",
        "home",
        "out",
        "video",
        "animation",
        "record",
        "markers",
        "endpoint",
        "second_endpoint",
        "key_file",
        "strategy",
        "motion",
        "drafters",
        "temperature",
        "top_p",
        "top_k",
        "sampling_seed",
        "wanted_model",
        "draft_model",
        "max_length",
        "constrained",
        "draft_precision",
        "draft_device",
        "draft_runtime",
        "draft_provider",
        "command_interface",
        "robot_avoidance",
        "source",
        "topic",
        "device",
        "path",
        "interface",
        "odometry_source",
        "map_to_odom",
        "frame_prefix",
        "go2_prefix",
    ),
    "robot.yaml",
)
_MUJOCO_ARGUMENTS = ("legs", "real_time_factor", "command_interface", "robot_avoidance", "go2_prefix")
TELEOP_GRAPH = Graph(
    (*(name for name in ROBOT_GRAPH.nodes if name != "mission"), "console"),
    (
        *(name for name in ROBOT_GRAPH.arguments if name not in ("instruction", "out", "video", "animation")),
        "console_host",
        "console_port",
    ),
    "robot.yaml",
    always=("console",),
)
GAZEBO_GRAPH = Graph(
    (
        "gazebo_watchdog",
        *("gazebo" if name == "simulation" else name for name in SIM_GRAPH.nodes),
    ),
    (
        *(name for name in SIM_GRAPH.arguments if name not in _MUJOCO_ARGUMENTS),
        "release",
        "gui",
        "scan_hz",
    ),
    "gazebo.yaml",
)
CLOUD_GRAPH = Graph(
    ("verifier",),
    (
        "endpoint",
        "key_file",
        "model",
        "cloud_draft_model",
        "cloud_draft_device",
        "max_length",
        "constrained",
        "model_precision",
        "model_device",
        "corpus",
        "answer_model",
        "max_sessions",
        "tokens_per_s",
        "metrics_port",
    ),
    "cloud.yaml",
    always=("verifier",),
)


def wanted_nodes(graph: Graph, parameters: Mapping[str, Mapping[str, Value]]) -> tuple[str, ...]:
    """Returns the nodes of a graph to start: all but those whose `wanted_by` parameter is not set."""
    specs = (NODES[name] for name in graph.nodes)
    return tuple(
        s.name for s in specs if not s.wanted_by or s.name in graph.always or parameters[s.name][s.wanted_by]
    )
