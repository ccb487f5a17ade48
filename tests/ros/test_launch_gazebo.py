"""Gazebo and its bridge in a launch: what is missing, their topics, and their partition."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.gazebo import install_gazebo

launch = pytest.importorskip("launch")
pytest.importorskip("launch_ros")

from outrider.core.errors import ConfigError  # noqa: E402
from outrider.nodes.bringup.launching import gazebo_processes  # noqa: E402
from outrider.runtime.node_graph.node_graphs import GAZEBO_GRAPH  # noqa: E402
from outrider.runtime.node_graph.parameter_values import graph_parameters  # noqa: E402

pytestmark = pytest.mark.ros


def test_without_gazebo_the_launch_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
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

    install_gazebo(tmp_path, monkeypatch)
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

    install_gazebo(tmp_path, monkeypatch)
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

    install_gazebo(tmp_path, monkeypatch)
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
