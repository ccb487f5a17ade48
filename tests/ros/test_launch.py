"""The launch files describe the graph; only where ROS 2's launch packages are installed."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

launch = pytest.importorskip("launch")
pytest.importorskip("launch_ros")

from outrider.core.errors import ConfigError  # noqa: E402
from outrider.runtime.graphs import (  # noqa: E402
    CLOUD_GRAPH,
    GAZEBO_GRAPH,
    ROBOT_GRAPH,
    SIM_GRAPH,
    TELEOP_GRAPH,
    Graph,
)
from outrider.runtime.parameter_values import graph_parameters  # noqa: E402

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

    (tmp_path / "gz").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    spec = importlib.util.spec_from_file_location(name, LAUNCH_FOLDER / f"{name}.launch.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    description = module.generate_launch_description()
    declared = [argument.name for argument in description.get_launch_arguments()]
    assert tuple(declared) == (*graph.arguments, "params_file", "remap")
    assert all(argument.description for argument in description.get_launch_arguments())
    context = launch.LaunchContext()
    context.launch_configurations.update(dict.fromkeys(declared, ""))
    wanted = {"record": "run.mcap", "markers": "true", "console": "true", "release": "harmonic"}
    context.launch_configurations.update({"instruction": "find the red chair", **wanted})
    actions = description.entities[-1].execute(context) or []
    nodes = [action for action in actions if isinstance(action, Node)]
    assert len(nodes) == len(graph.nodes) + (name == "gazebo")  # the bridge


def test_without_gazebo_the_launch_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from outrider.nodes.launching import gazebo_processes

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("ROS_DISTRO", "jazzy")
    with pytest.raises(ConfigError, match="no program 'gz': sudo apt-get install ros-jazzy-ros-gz"):
        gazebo_processes(graph_parameters(GAZEBO_GRAPH, {}, {}))


def test_topics_get_other_names_where_asked() -> None:
    from outrider.nodes.launching import remappings

    assert remappings("") == []
    assert remappings("scan=/lidar/scan odom=o") == [("scan", "/lidar/scan"), ("odom", "o")]
    for text in ("scan", "scan=", "=/scan", "scan:=/lidar/scan", "a=b=c", "1=b"):
        with pytest.raises(ConfigError, match="remap"):
            remappings(text)


def test_a_parameter_file_of_ones_own_goes_over_the_shipped_one_and_under_the_arguments(
    tmp_path: Path,
) -> None:
    from outrider.nodes.launching import describe

    own = tmp_path / "own.yaml"
    own.write_text("action: {ros__parameters: {use_scan: false, robot_avoidance: true}}\n")
    context = launch.LaunchContext()
    context.launch_configurations.update(dict.fromkeys((*ROBOT_GRAPH.arguments, "params_file", "remap"), ""))
    context.launch_configurations.update({"params_file": str(own), "robot_avoidance": "false"})
    started: dict = {}

    def note(parameters: dict) -> list:
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
    with pytest.raises(ConfigError, match=r"none\.yaml cannot be read"):
        describe(ROBOT_GRAPH).entities[-1].execute(context)
