"""Two robots on one domain and one machine, each in its namespace, with one verifier between them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from conftest import Client, NodeThread, wait_until
from diagnostic_msgs.msg import DiagnosticArray
from nav_msgs.msg import Odometry as OdometryMsg
from outrider_interfaces.msg import SimulationState, VerifiedText
from support_ros import Goals
from tf2_msgs.msg import TFMessage

from outrider.core.values import Pose2D
from outrider.nodes.common import convert, qos
from outrider.runtime.common.ports import free_port
from outrider.runtime.mission.episode import has_reached, wanted_in
from outrider.runtime.node_graph.namespaces import apart
from outrider.runtime.node_graph.node_graphs import SIM_GRAPH
from outrider.runtime.node_graph.parameter_values import graph_parameters, laid_over, write_parameter_file
from outrider.runtime.processes.ros_env import ros_environment
from outrider.runtime.processes.supervisor import Supervisor
from outrider.simulation.homes.home import generate_home
from outrider.simulation.homes.vocabulary import target_of

pytestmark = [pytest.mark.ros, pytest.mark.xdist_group("graph")]
MODELS = Path(__file__).resolve().parents[2] / "models"
SLOW_S = 240.0
TASKS = {"/red": ("find the silver bottle", 3), "/blue": ("find the red chair", 5)}


class Robot:
    """What the test sees of the robot in a namespace."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.task, self.seed = TASKS[namespace]
        self.texts: list[VerifiedText] = client.listen(VerifiedText, f"{namespace}/verified_text", qos.EVENTS)
        self.states: list[SimulationState] = client.listen(
            SimulationState, f"{namespace}/simulation_state", qos.EVENTS
        )
        self.odometry: list[OdometryMsg] = client.listen(OdometryMsg, f"{namespace}/odom", qos.EVENTS)
        self.goals = Goals(client, f"{namespace}/navigate")

    def moved_m(self) -> float:
        return self.states[-1].path_m

    def pose(self) -> Pose2D:
        return convert.pose_of(self.states[-1].pose)

    def is_at_target(self) -> bool:
        home = generate_home(self.seed, target_of(self.task), "in_view")
        return has_reached(home, wanted_in(self.task, home), self.pose())


@pytest.fixture
def robots(client: Client, tmp_path: Path) -> Iterator[dict[str, Robot]]:
    """Runs a simulation, action node, memory and navigator per robot, and a verifier in the first graph."""
    env = ros_environment(int(os.environ["ROS_DOMAIN_ID"]))
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    models = {"draft_model": str(MODELS / "draft"), "model": str(MODELS / "target")}
    # Two robots and three models share the machine.
    patience = {"navigator": {"answer_deadline_s": 60.0, "camera_silence_s": 3.0}}
    with ExitStack() as stack:
        for namespace, (task, seed) in TASKS.items():
            has_verifier = namespace == "/red"
            arguments = {
                **models,
                "instruction": task,
                "seed": seed,
                "placement": "in_view",
                "verifier": has_verifier,
                "endpoint": endpoint,
            }
            folder = tmp_path / namespace[1:]
            folder.mkdir()
            base = laid_over(apart(SIM_GRAPH, namespace, False, endpoint), patience)
            parameters = graph_parameters(SIM_GRAPH, base, arguments)
            write_parameter_file(folder / "p.yaml", parameters, namespace)
            supervisor = stack.enter_context(Supervisor(folder, env, namespace=namespace))
            for name in ("verifier",) * has_verifier + ("simulation", "action", "memory", "navigator"):
                supervisor.start(name, folder / "p.yaml")
        yield {namespace: Robot(client, namespace) for namespace in TASKS}


@pytest.mark.timeout(900)
def test_two_robots_carry_out_their_own_goals_and_neither_moves_by_the_others_text(
    robots: dict[str, Robot], client: Client
) -> None:
    transforms = client.listen(TFMessage, "/tf", qos.EVENTS)
    diagnostics = client.listen(DiagnosticArray, "/diagnostics", qos.EVENTS)
    red, blue = robots["/red"], robots["/blue"]
    wait_until(lambda: red.states and blue.states and red.odometry and blue.odometry, "both", SLOW_S)

    first = red.goals.send(red.task, SLOW_S)
    wait_until(lambda: red.moved_m() > 0.3, "the first robot under way", SLOW_S)
    assert blue.moved_m() < 0.02 and not blue.texts, "the other has no goal, and stands"

    second = blue.goals.send(blue.task, SLOW_S)
    for robot, handle in ((red, first), (blue, second)):
        result = robot.goals.result(handle, SLOW_S)
        assert result.success, result.message
        wait_until(robot.is_at_target, "the robot at its own target")
    sessions = [{text.session_id for text in robot.texts} for robot in (red, blue)]
    assert all(sessions) and not sessions[0] & sessions[1]

    frames = {t.child_frame_id for message in transforms for t in message.transforms}
    assert frames == {"red/base_link", "blue/base_link"}
    for namespace, robot in robots.items():
        assert robot.odometry[-1].child_frame_id == f"{namespace[1:]}/base_link"
    names = {(s.hardware_id, s.name) for message in diagnostics for s in message.status}
    assert {("red", "red/outrider/action"), ("blue", "blue/outrider/action")} <= names


def test_memories_of_robots_in_namespaces_lie_apart(
    run_node: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from outrider.nodes.navigator.memory_node import MemoryNode

    monkeypatch.setenv("OUTRIDER_MEMORY", str(tmp_path / "memory.db"))

    class InNamespace(MemoryNode):
        def get_namespace(self) -> str:
            return "/fleet/go2"

    thread: NodeThread = run_node(InNamespace)  # type: ignore[operator]
    assert (tmp_path / "fleet" / "go2" / "memory.db").is_file() and not (tmp_path / "memory.db").exists()
    thread.stop()
