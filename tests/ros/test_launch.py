"""The launch files describe the graph. Runs only where ROS 2's launch packages are installed."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import yaml
from support.gazebo import install_gazebo

launch = pytest.importorskip("launch")
pytest.importorskip("launch_ros")

from outrider.core.errors import ConfigError  # noqa: E402
from outrider.runtime.node_graph.node_graphs import (  # noqa: E402
    CLOUD_GRAPH,
    GAZEBO_GRAPH,
    ROBOT_GRAPH,
    SIM_GRAPH,
    TELEOP_GRAPH,
    Graph,
)

pytestmark = pytest.mark.ros
LAUNCH_FOLDER = Path(__file__).resolve().parents[2] / "launch"


@pytest.mark.parametrize(
    ("name", "graph"),
    [
        ("sim", SIM_GRAPH),
        ("robot", ROBOT_GRAPH),
        ("teleop", TELEOP_GRAPH),
        ("cloud", CLOUD_GRAPH),
        ("gazebo", GAZEBO_GRAPH),
    ],
)
def test_a_launch_file_starts_its_graph(
    name: str, graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from launch_ros.actions import Node

    install_gazebo(tmp_path, monkeypatch)

    spec = importlib.util.spec_from_file_location(name, LAUNCH_FOLDER / f"{name}.launch.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    description = module.generate_launch_description()
    declared = [argument.name for argument in description.get_launch_arguments()]
    assert tuple(declared) == (*graph.arguments, "namespace", "params_file", "remap")
    assert all(argument.description for argument in description.get_launch_arguments())
    context = launch.LaunchContext()
    context.launch_configurations.update(dict.fromkeys(declared, ""))
    wanted = {"record": "run.mcap", "markers": "true", "console": "true", "release": "harmonic"}
    context.launch_configurations.update({"instruction": "find the red chair", **wanted})
    actions = description.entities[-1].execute(context) or []
    nodes = [action for action in actions if isinstance(action, Node)]
    assert len(nodes) == len(graph.nodes) + (name == "gazebo")  # the bridge


def test_topics_get_other_names_where_asked() -> None:
    from outrider.nodes.bringup.launching import remappings

    assert remappings("") == []
    assert remappings("scan=/lidar/scan odom=o") == [("scan", "/lidar/scan"), ("odom", "o")]
    for text in ("scan", "scan=", "=/scan", "scan:=/lidar/scan", "a=b=c", "1=b"):
        with pytest.raises(ConfigError, match="remap"):
            remappings(text)


def test_a_parameter_file_of_ones_own_goes_over_the_shipped_one_and_under_the_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from outrider.nodes.bringup.launching import describe

    monkeypatch.setenv("HOME", str(tmp_path))
    own = tmp_path / "own.yaml"
    own.write_text("action: {ros__parameters: {use_scan: false, robot_avoidance: true}}\n")
    context = launch.LaunchContext()
    context.launch_configurations.update(
        dict.fromkeys((*ROBOT_GRAPH.arguments, "namespace", "params_file", "remap"), "")
    )
    context.launch_configurations.update({"params_file": "~/own.yaml", "robot_avoidance": "false"})
    started: dict = {}

    def note(parameters: dict, namespace: str, renamed: object) -> list:
        started.update(parameters)
        return []

    describe(ROBOT_GRAPH, note).entities[-1].execute(context)
    action = started["action"]
    assert (action["use_scan"], action["robot_avoidance"], action["command_interface"]) == (
        False,
        False,
        "sport",
    )
    context.launch_configurations["params_file"] = str(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match=r"none\.yaml: cannot be read"):
        describe(ROBOT_GRAPH).entities[-1].execute(context)


def performed(graph: Graph, group: dict[str, object] | None = None, **given: str) -> list:
    """Returns the nodes of a launch with given arguments, inside a group of another launch file."""
    from launch_ros.actions import Node

    from outrider.nodes.bringup.launching import describe

    context = launch.LaunchContext()
    names = (*graph.arguments, "namespace", "params_file", "remap")
    context.launch_configurations.update({**dict.fromkeys(names, ""), **(group or {}), **given})
    nodes = [a for a in describe(graph).entities[-1].execute(context) or [] if isinstance(a, Node)]
    for node in nodes:
        node._perform_substitutions(context)
    return nodes


def parameters_of(nodes: list, name: str) -> dict:
    """Returns the parameters that a node gets from its parameter file."""
    node = next(n for n in nodes if n.node_name.endswith(f"/{name}"))
    path = next(value for value, is_file in node._Node__expanded_parameter_arguments if is_file)
    (section,) = yaml.safe_load(Path(path).read_text()).values()
    return section["ros__parameters"]


@pytest.mark.parametrize(
    ("group", "given", "namespace"),
    [
        ({}, "go2", "/go2"),
        ({}, "/fleet/go2/", "/fleet/go2"),
        ({"ros_namespace": "/fleet"}, "go2", "/fleet/go2"),
        ({"ros_namespace": "fleet"}, "", "/fleet"),
    ],
)
def test_a_namespace_holds_for_every_node_and_keeps_the_robot_apart(
    group: dict[str, object], given: str, namespace: str
) -> None:
    nodes = performed(SIM_GRAPH, group, namespace=given, console="true", instruction="find the red chair")
    assert {n.node_name.rpartition("/")[0] for n in nodes} == {namespace} and len(nodes) == 7
    simulation, console = (parameters_of(nodes, name) for name in ("simulation", "console"))
    assert simulation["frame_prefix"] == f"{namespace[1:]}/" and simulation["go2_prefix"] == namespace
    endpoints = {parameters_of(nodes, name)["endpoint"] for name in ("navigator", "verifier")}
    assert console["port"] == 0 and len(endpoints) == 1 and endpoints != {"tcp://127.0.0.1:5757"}


def test_a_real_go2_in_a_namespace_keeps_its_topics_and_the_clouds_endpoint() -> None:
    nodes = performed(ROBOT_GRAPH, namespace="go2")
    assert parameters_of(nodes, "go2_state")["go2_prefix"] == ""
    assert parameters_of(nodes, "go2_state")["frame_prefix"] == "go2/"
    assert parameters_of(nodes, "navigator")["endpoint"] == "tcp://127.0.0.1:5757"
    nodes = performed(ROBOT_GRAPH, namespace="go2", go2_prefix="/go2", frame_prefix="dog/")
    assert parameters_of(nodes, "action")["go2_prefix"] == "/go2"
    assert parameters_of(nodes, "camera")["frame_prefix"] == "dog/"


@pytest.mark.parametrize(
    ("group", "remap"),
    [({}, "/tf=tf /tf_static=tf_static"), ({"ros_remaps": [("/tf", "tf"), ("/tf_static", "tf_static")]}, "")],
)
def test_a_tf_of_its_own_as_nav2_has_it_needs_no_prefix(group: dict[str, object], remap: str) -> None:
    nodes = performed(ROBOT_GRAPH, group, namespace="go2", remap=remap)
    assert parameters_of(nodes, "go2_state")["frame_prefix"] == ""


def test_one_verifier_may_serve_several_robots() -> None:
    nodes = performed(SIM_GRAPH, namespace="go2", verifier="false", endpoint="tcp://127.0.0.1:5757")
    assert not any(node.node_name.endswith("/verifier") for node in nodes)
    assert parameters_of(nodes, "navigator")["endpoint"] == "tcp://127.0.0.1:5757"


def test_a_namespace_that_ros_does_not_take_is_refused() -> None:
    for namespace in ("my robot", "2go", "go2-b", "a//b"):
        with pytest.raises(ConfigError, match="namespace="):
            performed(CLOUD_GRAPH, namespace=namespace)
