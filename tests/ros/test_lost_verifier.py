"""A whole mission of the shipped pair in processes of its own; its verifier starts late, and is killed."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import Client, wait_until
from outrider_interfaces.msg import SimulationState, VerifiedText
from support_ros import Goals

from outrider.core.values import Pose2D
from outrider.nodes.common import convert, qos
from outrider.runtime.common.ports import free_port
from outrider.runtime.mission.episode import has_reached, wanted_in
from outrider.runtime.node_graph.node_graphs import SIM_GRAPH
from outrider.runtime.node_graph.parameter_values import graph_parameters, write_parameter_file
from outrider.runtime.processes.ros_env import ros_environment
from outrider.runtime.processes.supervisor import Supervisor
from outrider.simulation.homes.home import generate_home
from outrider.simulation.homes.vocabulary import target_of

pytestmark = [pytest.mark.ros, pytest.mark.xdist_group("graph")]
MODELS = Path(__file__).resolve().parents[2] / "models"
TASK, SEED = "find the silver bottle", 3
SLOW_S = 240.0
WHEN_ASKED = "import sys, outrider.models; from outrider.cli import main; sys.stdin.readline(); main()"


class Verifier:
    """The command `outrider verifier` with the shipped target. It loads its libraries before `start`."""

    def __init__(self, endpoint: str) -> None:
        arguments = ["verifier", "--endpoint", endpoint, "--model", str(MODELS / "target")]
        command = [sys.executable, "-c", WHEN_ASKED, *arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, text=True)

    def start(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.close()

    def kill(self) -> None:
        """Kills the process as `kill -9` does."""
        self._process.kill()
        self._process.wait()


@dataclass
class Observer:
    """The texts and simulation states received so far."""

    texts: list[VerifiedText]
    states: list[SimulationState]

    def pose(self) -> Pose2D:
        return convert.pose_of(self.states[-1].pose)

    def moved_m(self) -> float:
        return self.states[-1].path_m

    def complaint(self) -> str:
        """Returns the navigator's reason why nothing may move, from its last text; empty without one."""
        last = self.texts[-1] if self.texts else None
        return last.text if last and last.state == VerifiedText.WITHDRAWN else ""

    def stands(self) -> bool:
        """Returns whether the robot has not moved during the last half second of simulation."""
        recent = [convert.pose_of(state.pose) for state in self.states[-6:]]
        still = all(p.distance_to(recent[0].x, recent[0].y) < 0.005 for p in recent)
        return still and all(abs(p.yaw - recent[0].yaw) < math.radians(0.5) for p in recent)


@pytest.fixture
def verifiers(endpoint: str) -> Iterator[tuple[Verifier, Verifier]]:
    """Yields two verifiers for one endpoint; neither serves yet."""
    both = Verifier(endpoint), Verifier(endpoint)
    yield both
    for verifier in both:
        verifier.kill()


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[str]:
    """Yields an endpoint without a verifier, while simulation, action node and navigator run."""
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    arguments = {
        "instruction": TASK,
        "seed": SEED,
        "placement": "in_view",
        "endpoint": endpoint,
        "draft_model": str(MODELS / "draft"),
    }
    patience = {"navigator": {"answer_deadline_s": 6.0, "link_patience_s": 3600.0}}
    write_parameter_file(tmp_path / "p.yaml", graph_parameters(SIM_GRAPH, patience, arguments))
    with Supervisor(tmp_path, ros_environment(int(os.environ["ROS_DOMAIN_ID"]))) as supervisor:
        for name in ("simulation", "action", "navigator"):
            supervisor.start(name, tmp_path / "p.yaml")
        yield endpoint


def assert_stands_and_says_why(robot: Observer, endpoint: str) -> None:
    """Waits for a complaint that names the endpoint and the remedy, then for the robot to stand."""
    wait_until(lambda: "cannot be reached" in robot.complaint(), "the navigator's complaint", SLOW_S)
    assert endpoint in robot.complaint() and "outrider verifier" in robot.complaint()
    seen = len(robot.states)
    wait_until(lambda: len(robot.states) > seen + 10 and robot.stands(), "a robot that stands", SLOW_S)


@pytest.mark.timeout(900)  # a model is loaded three times: under a minute, or minutes on a starved machine
def test_the_mission_waits_for_a_late_verifier_and_survives_the_death_of_it(
    endpoint: str, verifiers: tuple[Verifier, Verifier], client: Client
) -> None:
    texts = client.listen(VerifiedText, "verified_text", qos.EVENTS)
    robot = Observer(texts, client.listen(SimulationState, "simulation_state", qos.EVENTS))
    goals = Goals(client)
    wait_until(lambda: robot.states, "the simulation", SLOW_S)
    wait_until(lambda: client.node.count_publishers("verified_text"), "the navigator", SLOW_S)
    handle = goals.send(TASK)
    assert_stands_and_says_why(robot, endpoint)
    assert robot.moved_m() < 0.02

    first, second = verifiers
    first.start()
    wait_until(lambda: robot.moved_m() > 0.3, "a robot under way", SLOW_S)
    first.kill()
    assert_stands_and_says_why(robot, endpoint)
    where = robot.moved_m()

    second.start()
    result = goals.result(handle, SLOW_S)
    assert result.success, result.message
    assert robot.moved_m() > where + 0.1
    home = generate_home(SEED, target_of(TASK), "in_view")
    assert has_reached(home, wanted_in(TASK, home), robot.pose())
