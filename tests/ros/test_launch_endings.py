"""How a launch ends: nodes that die, the end of a mission, and its report."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

launch = pytest.importorskip("launch")
pytest.importorskip("launch_ros")

from outrider.core.errors import ConfigError  # noqa: E402
from outrider.runtime.common.ending_signals import COULD_NOT_START  # noqa: E402
from outrider.runtime.node_graph.node_graphs import SIM_GRAPH  # noqa: E402
from outrider.runtime.node_graph.node_specs import NODES  # noqa: E402
from outrider.runtime.node_graph.restarts import MAX_RESTARTS  # noqa: E402

pytestmark = pytest.mark.ros


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


def sim_actions(arguments: dict[str, str]) -> list[Any]:
    """Returns the actions of a launch of the simulated graph."""
    from outrider.nodes.bringup.launching import describe

    description = describe(SIM_GRAPH)
    declared = [argument.name for argument in description.get_launch_arguments()]
    context = launch.LaunchContext()
    context.launch_configurations.update({**dict.fromkeys(declared, ""), **arguments})
    return list(description.entities[-1].execute(context) or [])


def test_a_launch_without_a_folder_for_a_report_waits_for_none(tmp_path: Path) -> None:
    from launch.actions import TimerAction

    for out, watches in (("", 0), (str(tmp_path), 1)):
        actions = sim_actions({"instruction": "find the red chair", "out": out})
        assert sum(isinstance(action, TimerAction) for action in actions) == watches


def test_a_folder_that_no_report_can_be_written_to_is_refused_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(ConfigError, match="taken"):
        sim_actions({"instruction": "find the red chair", "out": str(tmp_path / "taken" / "run")})
