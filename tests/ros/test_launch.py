"""The launch files describe the graph. Runs only where ROS 2's launch packages are installed."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

launch = pytest.importorskip("launch")
pytest.importorskip("launch_ros")

from outrider.core.errors import ConfigError  # noqa: E402
from outrider.runtime.common.ending_signals import COULD_NOT_START  # noqa: E402
from outrider.runtime.node_graph.node_graphs import (  # noqa: E402
    CLOUD_GRAPH,
    GAZEBO_GRAPH,
    ROBOT_GRAPH,
    SIM_GRAPH,
    TELEOP_GRAPH,
    Graph,
)
from outrider.runtime.node_graph.node_specs import NODES  # noqa: E402
from outrider.runtime.node_graph.parameter_values import graph_parameters  # noqa: E402
from outrider.runtime.node_graph.restarts import MAX_RESTARTS  # noqa: E402

pytestmark = pytest.mark.ros
LAUNCH_FOLDER = Path(__file__).resolve().parents[2] / "launch"


def install_gazebo(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes stand-ins for what the launch looks for: the program, and the bridge's package."""
    (folder / "gz").touch(mode=0o755)
    (folder / "share" / "ros_gz_bridge").mkdir(parents=True)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(folder))


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


def test_without_gazebo_the_launch_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from outrider.nodes.bringup.launching import gazebo_processes

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("ROS_DISTRO", "jazzy")
    with pytest.raises(ConfigError, match="no program 'gz': sudo apt-get install ros-jazzy-ros-gz"):
        gazebo_processes(graph_parameters(GAZEBO_GRAPH, {}, {}), "")
    install_gazebo(tmp_path, monkeypatch)
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path / "other"))
    with pytest.raises(ConfigError, match=r"no package 'ros_gz_bridge': sudo apt-get .* source ROS 2"):
        gazebo_processes(graph_parameters(GAZEBO_GRAPH, {}, {}), "")


def test_gazebo_s_folder_goes_with_the_launch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from launch.events import Shutdown

    from outrider.nodes.bringup.launching import gazebo_processes

    install_gazebo(tmp_path, monkeypatch)
    monkeypatch.setenv("ROS_DISTRO", "jazzy")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    actions = gazebo_processes(graph_parameters(GAZEBO_GRAPH, {}, {}), "")
    (folder,) = tmp_path.glob("outrider_gazebo_*")
    assert (folder / "home.sdf").is_file()
    context = launch.LaunchContext()
    for handler in (action.event_handler for action in actions if hasattr(action, "event_handler")):
        if handler.matches(Shutdown(reason="over")):
            handler.handle(Shutdown(reason="over"), context)
    assert not folder.exists()


def test_gazebo_s_bridge_gives_topics_the_names_that_the_nodes_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from launch_ros.actions import Node

    from outrider.nodes.bringup.launching import gazebo_processes

    install_gazebo(tmp_path, monkeypatch)
    monkeypatch.setenv("ROS_DISTRO", "jazzy")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    renamed = [("scan", "/lidar/scan")]
    actions = gazebo_processes(graph_parameters(GAZEBO_GRAPH, {}, {}), "", renamed)
    (bridge,) = (action for action in actions if isinstance(action, Node))
    bridge._perform_substitutions(launch.LaunchContext())
    assert bridge.expanded_remapping_rules == renamed


@pytest.mark.parametrize(
    ("given", "namespace", "partition"),
    [
        ({}, "", f"outrider_{os.getpid()}"),
        ({}, "/site/go2", f"outrider_{os.getpid()}_site_go2"),
        ({"GZ_PARTITION": "mine"}, "", "mine"),
        ({"IGN_PARTITION": "mine"}, "/go2", "mine_go2"),
    ],
)
def test_no_other_gazebo_s_topics_mix_with_those_of_a_launch(
    given: dict[str, str], namespace: str, partition: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from launch.actions import ExecuteProcess

    from outrider.nodes.bringup.launching import gazebo_processes

    install_gazebo(tmp_path, monkeypatch)
    monkeypatch.setenv("ROS_DISTRO", "jazzy")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for name in ("GZ_PARTITION", "IGN_PARTITION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    actions = gazebo_processes(graph_parameters(GAZEBO_GRAPH, {}, {}), namespace)
    processes = [action for action in actions if isinstance(action, ExecuteProcess)]
    assert len(processes) == 2  # Gazebo and its bridge, which must share a partition
    for process in processes:
        pairs = [
            tuple(launch.utilities.perform_substitutions(launch.LaunchContext(), list(part)) for part in pair)
            for pair in process.process_description.additional_env or ()
        ]
        env = dict(pairs)
        assert (env["GZ_PARTITION"], env["IGN_PARTITION"]) == (partition, partition)


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


def exits(actions: list[Any], node: Any, status: int) -> list[Any]:
    """Returns the launch's actions after the process of a node has exited."""
    from launch.actions import RegisterEventHandler
    from launch.events.process import ProcessExited

    event = ProcessExited(action=node, name="", cmd=[], cwd=None, env=None, pid=1, returncode=status)
    handlers = [action.event_handler for action in actions if isinstance(action, RegisterEventHandler)]
    matching = [handler for handler in handlers if handler.matches(event)]
    found = [handler.handle(event, launch.LaunchContext()) or [] for handler in matching]
    return [action for entities in found for action in entities]


def test_a_node_that_dies_is_started_again_for_some_times_where_that_is_safe() -> None:
    from launch.events.process import ShutdownProcess

    from outrider.nodes.bringup.launching import _follow, _node

    for name, spec in NODES.items():
        node = _node(name, "", dict(spec.checked({})), [])
        assert bool(node._ExecuteLocal__respawn) == spec.restarted, name
    node = _node("action", "", dict(NODES["action"].checked({})), [])
    following = [_follow(NODES["action"], node)]
    assert [exits(following, node, -9) for _ in range(MAX_RESTARTS)] == [[]] * MAX_RESTARTS
    (given_up,) = exits(following, node, -9)
    assert isinstance(given_up.event, ShutdownProcess) and given_up.event.process_matcher(node)
    (hopeless,) = exits([_follow(NODES["camera"], node)], node, COULD_NOT_START)
    assert isinstance(hopeless.event, ShutdownProcess)


@pytest.mark.parametrize("name", ["mission", "simulation"])
def test_the_end_of_what_a_run_is_for_ends_the_launch(name: str) -> None:
    from launch.actions import EmitEvent
    from launch.events import Shutdown

    from outrider.nodes.bringup.launching import _follow, _node

    spec = NODES[name]
    node = _node(name, "", dict(spec.checked({})), [])
    (ending,) = exits([_follow(spec, node)], node, -9)
    assert isinstance(ending, EmitEvent) and isinstance(ending.event, Shutdown)


# A mission after its report: it makes its film, for which it needs no other process.
FILMING = """
import pathlib, sys, time
folder = pathlib.Path(sys.argv[1])
while not (folder / "up").exists():
    time.sleep(0.01)
(folder / "report.json").write_text("{}")
while not (folder / "down").exists():
    time.sleep(0.01)
(folder / "film").touch()
"""
RUNNING = """
import pathlib, signal, sys, time
folder = pathlib.Path(sys.argv[1])
def end(*_):
    (folder / "down").touch()
    sys.exit(0)
signal.signal(signal.SIGINT, end)
(folder / "up").touch()
time.sleep(60)
"""


def test_once_there_is_a_report_all_but_the_mission_are_stopped_and_it_makes_its_film(tmp_path: Path) -> None:
    from launch.actions import ExecuteProcess

    from outrider.nodes.bringup.launching import _ending_all, _watch

    (tmp_path / "report.json").write_text("of an earlier run")
    mission, other = (
        ExecuteProcess(cmd=[sys.executable, "-c", code, str(tmp_path)]) for code in (FILMING, RUNNING)
    )
    others = [other, _ending_all(other, "the simulation has ended")]
    watch = _watch(tmp_path / "report.json", others)
    service = launch.LaunchService()
    service.include_launch_description(
        launch.LaunchDescription([mission, *others, _ending_all(mission, "the mission has ended"), watch])
    )
    assert service.run() == 0
    assert (tmp_path / "film").exists()
    assert mission.process_details is not None and mission.return_code == 0


def test_a_launch_that_ends_before_its_mission_has_a_report_leaves_one(tmp_path: Path) -> None:
    from launch.events import Shutdown

    from outrider.nodes.bringup.launching import _leaving_report

    report = tmp_path / "report.json"
    handler = _leaving_report(report, "find the red chair", "outrider").event_handler
    for left in (None, "{}"):
        if left:
            report.write_text(left)
        handler.handle(Shutdown(reason="Ctrl-C"), launch.LaunchContext())
        found = json.loads(report.read_text())
        assert (
            found == {}
            if left
            else (found["verdict"], found["instruction"]) == ("failed", "find the red chair")
        )


def test_a_launch_without_a_folder_for_a_report_waits_for_none(tmp_path: Path) -> None:
    from launch.actions import TimerAction

    for out, watches in (("", 0), (str(tmp_path), 1)):
        actions = sim_actions({"instruction": "find the red chair", "out": out})
        assert sum(isinstance(action, TimerAction) for action in actions) == watches


def test_a_folder_that_no_report_can_be_written_to_is_refused_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(ConfigError, match="taken"):
        sim_actions({"instruction": "find the red chair", "out": str(tmp_path / "taken" / "run")})


def sim_actions(arguments: dict[str, str]) -> list[Any]:
    """Returns the actions of a launch of the simulated graph."""
    from outrider.nodes.bringup.launching import describe

    description = describe(SIM_GRAPH)
    declared = [argument.name for argument in description.get_launch_arguments()]
    context = launch.LaunchContext()
    context.launch_configurations.update({**dict.fromkeys(declared, ""), **arguments})
    return list(description.entities[-1].execute(context) or [])
