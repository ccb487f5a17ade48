"""The one description of the graph: parameters, arguments, parameter files, executables."""

from __future__ import annotations

import configparser
import inspect
from pathlib import Path

import pytest

from outrider.cli.servers import verifier as verifier_command
from outrider.core.errors import ConfigError
from outrider.runtime.node_graph.node_graphs import (
    ARGUMENTS,
    CLOUD_GRAPH,
    GAZEBO_GRAPH,
    ROBOT_GRAPH,
    SIM_GRAPH,
    TELEOP_GRAPH,
    Graph,
    wanted_nodes,
)
from outrider.runtime.node_graph.node_specs import COMMAND_INTERFACES, NODES
from outrider.runtime.node_graph.parameter_values import (
    argument_help,
    argument_value,
    graph_parameters,
    laid_over,
    read_parameter_file,
    write_parameter_file,
)

ROOT = Path(__file__).resolve().parents[3]
GRAPHS = (SIM_GRAPH, ROBOT_GRAPH, GAZEBO_GRAPH, TELEOP_GRAPH, CLOUD_GRAPH)


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: graph.parameter_file)
def test_every_shipped_parameter_file_fits_its_graph(graph: Graph) -> None:
    sections = read_parameter_file(ROOT / "config" / graph.parameter_file)
    assert set(sections) <= set(graph.nodes)
    parameters = graph_parameters(graph, sections, {})
    assert set(parameters) == set(graph.nodes)


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: graph.parameter_file)
def test_every_argument_sets_a_parameter_of_the_graph(graph: Graph) -> None:
    for name in graph.arguments:
        default = ARGUMENTS[name].default()
        touched = [node for node, _ in ARGUMENTS[name].targets if node in graph.nodes]
        assert touched, f"{name} sets nothing"
        parameters = graph_parameters(graph, {}, {name: default})
        assert all(parameters[node][p] == default for node, p in ARGUMENTS[name].targets if node in touched)


@pytest.mark.parametrize("graph", [SIM_GRAPH, ROBOT_GRAPH, GAZEBO_GRAPH, TELEOP_GRAPH])
def test_launch_arguments_say_how_texts_are_drawn(graph: Graph) -> None:
    given = {"temperature": "0.7", "top_p": "0.9", "top_k": "40", "sampling_seed": str((1 << 63) - 1)}
    values = {name: argument_value(name, text) for name, text in given.items()}
    parameters = graph_parameters(graph, {}, values)
    navigator = parameters["navigator"]
    assert [navigator[name] for name in ("temperature", "top_p", "top_k", "seed")] == [
        0.7,
        0.9,
        40,
        (1 << 63) - 1,
    ]
    assert parameters.get("simulation", {"seed": 1})["seed"] == 1, "the home stays the same"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -0.1),
        ("temperature", float("nan")),
        ("temperature", 101.0),
        ("top_p", 0.0),
        ("top_p", 1.5),
        ("top_k", -1),
        ("top_k", 2.5),
        ("sampling_seed", -1),
        ("sampling_seed", 1 << 63),
    ],
)
def test_a_wrong_way_to_draw_is_named_before_anything_starts(name: str, value: float) -> None:
    parameter = ARGUMENTS[name].parameter().name
    with pytest.raises(ConfigError, match=rf"navigator: parameter {parameter}={value!r} must"):
        graph_parameters(SIM_GRAPH, {}, {name: value})


def test_every_node_has_a_console_script_and_a_module() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    scripts = config["options.entry_points"]["console_scripts"]
    for spec in NODES.values():
        assert f"{spec.executable} = {spec.module}:main" in scripts
        assert (ROOT / "src" / spec.module.replace(".", "/")).with_suffix(".py").is_file()


def test_defaults_satisfy_their_own_ranges() -> None:
    for spec in NODES.values():
        assert spec.checked({}) == {p.name: p.default for p in spec.parameters}
        assert all(p.description for p in spec.parameters)


def test_a_verifier_is_given_the_same_as_a_node_and_as_a_command() -> None:
    options = inspect.signature(verifier_command).parameters.values()
    of_the_command = ("replicas", "context")
    given = {option.name: option.default or "" for option in options if option.name not in of_the_command}
    defaults = {name: default or "" for name, default in NODES["verifier"].checked({}).items()}
    assert given.items() <= defaults.items()
    assert {"max_sessions", "tokens_per_s", "metrics_port"} <= set(CLOUD_GRAPH.arguments)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("max_sessions", 0, "at least 1"),
        ("tokens_per_s", 0.0, "at least 0.1"),
        ("tokens_per_s", float("nan"), "at least 0.1"),
        ("metrics_port", 65_536, "between 0 and 65535"),
    ],
)
def test_a_wrong_limit_of_a_verifier_is_named(name: str, value: float, allowed: str) -> None:
    with pytest.raises(ConfigError, match=f"{name}=.* must .*{allowed}"):
        graph_parameters(CLOUD_GRAPH, {}, {name: value})


def test_the_help_of_an_argument_says_what_it_may_be_and_what_holds_without_it() -> None:
    base = {"action": {"command_interface": "sport"}}
    text = argument_help(ROBOT_GRAPH, "command_interface", base)
    assert text == "how the base is commanded; one of " + ", ".join(COMMAND_INTERFACES) + "; default: sport"
    assert argument_help(ROBOT_GRAPH, "robot_avoidance", {}).endswith("; default: false")
    assert "default" not in argument_help(ROBOT_GRAPH, "record", {})
    assert argument_help(SIM_GRAPH, "instruction", {}).endswith("waits for goals")


def test_one_file_of_parameters_is_laid_over_another() -> None:
    base = {"action": {"use_scan": True, "rate_hz": 30.0}, "camera": {"source": "file"}}
    over = {"action": {"use_scan": False}, "navigator": {"strategy": "sd"}}
    both = {
        "action": {"use_scan": False, "rate_hz": 30.0},
        "camera": base["camera"],
        "navigator": over["navigator"],
    }
    assert laid_over(base, over) == both and base["action"]["use_scan"]


def test_arguments_override_the_file_and_the_file_the_defaults() -> None:
    base = {"simulation": {"seed": 5, "placement": "in_view"}}
    simulation = graph_parameters(SIM_GRAPH, base, {"seed": 9})["simulation"]
    assert (simulation["seed"], simulation["placement"]) == (9, "in_view")
    assert simulation["camera_hz"] == 10.0


def test_what_nobody_wants_is_not_started() -> None:
    plain = wanted_nodes(SIM_GRAPH, graph_parameters(SIM_GRAPH, {}, {}))
    assert set(SIM_GRAPH.nodes) - set(plain) == {"record", "markers", "console"}
    arguments = {"record": "run.mcap", "markers": True, "console": True}
    assert wanted_nodes(SIM_GRAPH, graph_parameters(SIM_GRAPH, {}, arguments)) == SIM_GRAPH.nodes
    assert "console" in wanted_nodes(TELEOP_GRAPH, graph_parameters(TELEOP_GRAPH, {}, {}))


def test_another_pace_than_real_time_gives_all_nodes_the_simulated_clock() -> None:
    faster = graph_parameters(SIM_GRAPH, {}, {"real_time_factor": 2.0})
    assert all(values["use_sim_time"] is True for values in faster.values())
    assert not any("use_sim_time" in values for values in graph_parameters(SIM_GRAPH, {}, {}).values())
    assert all(values["use_sim_time"] is True for values in graph_parameters(GAZEBO_GRAPH, {}, {}).values())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"sead": 1}, ("sead", "seed")),
        ({"seed": -1}, ("seed=-1", "0")),
        ({"seed": "one"}, ("seed='one'", "int")),
        ({"strategy": "magic"}, ("magic", "ar")),
        ({"real_time_factor": float("nan")}, ("real_time_factor", "nan")),
    ],
)
def test_a_wrong_argument_is_named(arguments: dict[str, object], words: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError) as raised:
        graph_parameters(SIM_GRAPH, {}, arguments)
    assert all(word in str(raised.value) for word in words)


def test_a_parameter_file_round_trips(tmp_path: Path) -> None:
    parameters = graph_parameters(SIM_GRAPH, {}, {"instruction": "find: the 'red' chair"})
    write_parameter_file(tmp_path / "p.yaml", parameters)
    assert read_parameter_file(tmp_path / "p.yaml") == parameters


def test_what_is_remembered_in_one_simulated_home_does_not_hold_in_another() -> None:
    def home(**arguments: object) -> object:
        parameters = graph_parameters(SIM_GRAPH, {}, arguments)
        assert parameters["memory"]["home"] == parameters["navigator"]["home"]
        return parameters["memory"]["home"]

    assert home(seed=3) == home(seed=3, instruction="go to the silver bottle, please")
    assert home(instruction="find my keys", holds="silver bottle") == home()
    assert len({home(), home(seed=3), home(placement="in_view"), home(instruction="find the red cup")}) == 4
    assert graph_parameters(ROBOT_GRAPH, {}, {"home": "flat 7"})["memory"]["home"] == "flat 7"


def test_a_launch_argument_is_read_in_its_parameters_type() -> None:
    assert argument_value("robot_avoidance", "false") is False
    assert argument_value("robot_avoidance", "True") is True
    for text in ("yes", "0"):
        with pytest.raises(ConfigError, match="robot_avoidance"):
            argument_value("robot_avoidance", text)


def test_the_drafts_runtime_is_chosen_by_arguments() -> None:
    arguments = {"draft_precision": "int4", "draft_runtime": "graphs", "model_precision": "int8"}
    for graph in (SIM_GRAPH, ROBOT_GRAPH):
        given = {name: value for name, value in arguments.items() if name in graph.arguments}
        parameters = graph_parameters(graph, {}, given)
        assert parameters["navigator"]["runtime"] == "graphs"
        assert parameters["navigator"]["precision"] == "int4"
    assert graph_parameters(SIM_GRAPH, {}, arguments)["verifier"]["precision"] == "int8"
    with pytest.raises(ConfigError, match="provider='npu'"):
        graph_parameters(SIM_GRAPH, {}, {"draft_provider": "npu"})
