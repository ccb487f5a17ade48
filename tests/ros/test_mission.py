"""A whole mission over DDS with a decoder that knows the way: success, report, and a stop too early."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import rclpy
from conftest import WAIT_S, Client, NodeThread
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from fakes import FEW_PICTURES, ROUND, SLOW_CAMERA
from nav_msgs.msg import Odometry
from outrider_interfaces.action import Navigate
from outrider_interfaces.msg import StepPrompt, VerifiedText
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.task import Future
from rclpy.time import Time
from rich.console import Console
from rosgraph_msgs.msg import Clock
from support_ros import PatientAction
from unique_identifier_msgs.msg import UUID

from outrider.core.errors import ConfigError
from outrider.core.values import Decoded, DecodeRequest, LinkState, Verified
from outrider.nodes.navigator.mission_node import MissionNode
from outrider.nodes.navigator.navigator_node import NavigatorNode
from outrider.nodes.simulation.simulation_node import SimulationNode
from outrider.runtime.common.ending_signals import STOPPED
from outrider.runtime.reports.live_view import LiveState, LiveView
from outrider.runtime.wiring.robot_pair import Edge
from outrider.simulation.simulator import Simulator

pytestmark = pytest.mark.ros
REACHED_M = 0.9
SEED = 25
"""A home whose bottle is one small turn and three small moves away."""


class Guide:
    """Implements TextDecoder: turns to the target, approaches it and stops, by the simulation's true pose."""

    link_state = LinkState.CONNECTED

    def __init__(self, simulator: Callable[[], Simulator], stop_at_once: bool = False) -> None:
        self._simulator = simulator
        self._stop_at_once = stop_at_once

    def decode(
        self,
        request: DecodeRequest,
        on_verified: Callable[[Verified], None] = lambda _: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Decoded:
        text = f"{self._action()}\ngo: the way is known"
        on_verified(Verified((1, 2), text, 0.01))
        return Decoded(text, (1, 2), True, 0.02, 0.01, 1, (ROUND,), LinkState.CONNECTED)

    def _action(self) -> str:
        simulator = self._simulator()
        pose, target = simulator.truth(), simulator.home.target
        bearing_deg = math.degrees(pose.bearing_to(target.x, target.y))
        if self._stop_at_once or pose.distance_to(target.x, target.y) < REACHED_M + target.radius / 2:
            return "stop"
        if abs(bearing_deg) > 10:
            return f"turn {'left' if bearing_deg > 0 else 'right'} small"
        return "move forward small"

    def close(self) -> None:
        self._stop_at_once = True


def run_mission(
    run_node: Callable[..., NodeThread],
    out: Path,
    real_time_factor: float = 1.0,
    filmed: bool = False,
    **guide: Any,
) -> tuple[int, str]:
    """Runs a mission. Returns its exit status and its output."""
    clock = {} if real_time_factor == 1.0 else {"use_sim_time": True}
    options = {
        "real_time_factor": real_time_factor,
        "seed": SEED,
        "placement": "in_view",
        "instruction": "find the silver bottle",
        **FEW_PICTURES,
    }
    simulation = run_node(lambda: SimulationNode(options))
    decoder = Guide(lambda: simulation.node.simulator, **guide)

    class GuidedNavigator(NavigatorNode):
        def open_edge(self) -> Edge:
            return Edge(decoder, None)

    run_node(lambda: PatientAction(clock))
    run_node(lambda: GuidedNavigator({**clock, **SLOW_CAMERA}), threads=4)
    mission = MissionNode({"instruction": "find the silver bottle", "out": str(out), "time_limit_s": 90.0})
    printed = StringIO()
    try:
        with LiveView(Console(file=printed, width=200)) as view:
            status = mission.run(view, threading.Event())
        if filmed:
            mission.film(lambda: False)
    finally:
        mission.destroy_node()
    return status, printed.getvalue()


def test_a_found_object_is_a_success_with_a_whole_report(
    run_node: Callable[..., NodeThread], tmp_path: Path
) -> None:
    status, printed = run_mission(run_node, tmp_path)
    assert status == 0, printed
    assert "SUCCESS" in printed and "m to go" in printed
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["success"] is True and report["target_distance_m"] <= 1.2
    assert report["path_m"] > 0.2 and report["decision_latency_s"] > 0.0
    steps = report["step_log"]
    assert steps[-1]["action"] == "stop" and len(steps) == report["steps"] > 1
    assert all(s["frame_s"] <= s["action_s"] <= s["moved_s"] for s in steps)
    assert report["verdict"] == "success" and report["checked"] is True
    assert (report["seed"], report["placement"], report["link"]) == (SEED, "in_view", None)
    assert report["drafters"] == "model,suffix" and report["versions"]["outrider"] and report["host"]["cores"]


def test_a_navigator_that_dies_is_missed(client: Client) -> None:
    node, has_goal = client.node, threading.Event()

    async def never(goal: Any) -> Any:
        has_goal.set()
        await Future()

    server = ActionServer(node, Navigate, "navigate", execute_callback=never)
    node.create_publisher(Odometry, "odom", 1)
    node.create_subscription(VerifiedText, "verified_text", lambda _: None, 1)
    node.create_subscription(UUID, "goal_sender", lambda _: None, 1)
    mission = MissionNode({"instruction": "find the silver bottle", "time_limit_s": 90.0})
    ending = threading.Thread(target=lambda: (has_goal.wait(30.0), server.destroy()))
    ending.start()
    printed = StringIO()
    try:
        with LiveView(Console(file=printed, width=200)) as view:
            assert mission.run(view, threading.Event()) == 1
    finally:
        ending.join()
        mission.destroy_node()
    assert "FAILED: the navigator has gone" in printed.getvalue()


class SlowNavigator:
    """A `Navigate` server that answers when the test allows it; its goal ends when it is cancelled."""

    def __init__(self, client: Client) -> None:
        self.asked, self.answer, self.cancelled = threading.Event(), threading.Event(), threading.Event()
        self.client, self.node = client, client.node
        self.node.create_publisher(Odometry, "odom", 1)
        self.node.create_subscription(VerifiedText, "verified_text", lambda _: None, 1)
        self.node.create_subscription(UUID, "goal_sender", lambda _: None, 1)
        self.server = ActionServer(
            self.node,
            Navigate,
            "navigate",
            execute_callback=self._execute,
            goal_callback=self._on_goal,
            cancel_callback=lambda _: CancelResponse.ACCEPT,
            callback_group=ReentrantCallbackGroup(),
        )
        self._leaving = threading.Lock()
        self._gone = False

    def leave(self) -> None:
        """Takes the server away, once: rclpy's own `destroy` may fail on a second call."""
        with self._leaving:
            if not self._gone:
                self.server.destroy()
            self._gone = True

    def _on_goal(self, _: Any) -> GoalResponse:
        self.asked.set()
        assert self.answer.wait(30.0)
        return GoalResponse.ACCEPT

    async def _execute(self, goal: Any) -> Any:
        while not goal.is_cancel_requested:
            done = Future()
            timer = self.node.create_timer(0.02, partial(done.set_result, None))
            await done
            self.node.destroy_timer(timer)
        goal.canceled()
        self.cancelled.set()
        return Navigate.Result(error_code=Navigate.Result.CANCELLED, message="cancelled")


@pytest.fixture
def navigator(client: Client) -> Iterator[SlowNavigator]:
    made = SlowNavigator(client)
    yield made
    made.answer.set()
    made.leave()


def test_a_mission_that_is_stopped_before_its_goal_is_accepted_leaves_none_behind(
    navigator: SlowNavigator,
) -> None:
    """Otherwise nothing would end the goal, and the robot would go on."""

    class Stopping(threading.Event):
        def is_set(self) -> bool:
            """True once the navigator has been asked for the goal; the first such check lets it answer."""
            if navigator.asked.is_set():
                navigator.answer.set()
            return navigator.asked.is_set()

    mission = MissionNode({"instruction": "find the silver bottle", "time_limit_s": 90.0})
    try:
        with LiveView(Console(file=StringIO(), width=200)) as view:
            assert mission.run(view, Stopping()) == 130
        assert navigator.cancelled.wait(WAIT_S)
    finally:
        mission.destroy_node()


def test_a_mission_that_breaks_ends_its_goal(navigator: SlowNavigator) -> None:
    class Broken(LiveView):
        def show(self, state: LiveState) -> None:
            raise RuntimeError("a defect")

    navigator.answer.set()
    mission = MissionNode({"instruction": "find the silver bottle", "time_limit_s": 90.0})
    try:
        with Broken(Console(file=StringIO(), width=200)) as view, pytest.raises(RuntimeError):
            mission.run(view, threading.Event())
        assert navigator.cancelled.wait(WAIT_S)
    finally:
        mission.destroy_node()


def test_the_graph_runs_on_a_faster_clock(run_node: Callable[..., NodeThread], tmp_path: Path) -> None:
    status, printed = run_mission(run_node, tmp_path, real_time_factor=3.0)
    assert status == 0, printed


def test_a_stop_far_from_the_object_is_a_failure_and_filmed_too(
    run_node: Callable[..., NodeThread], tmp_path: Path
) -> None:
    status, printed = run_mission(run_node, tmp_path, filmed=True, stop_at_once=True)
    assert status == 1 and "FAILED" in printed
    assert json.loads((tmp_path / "report.json").read_text())["success"] is False
    assert (tmp_path / "run.mp4").stat().st_size > 10_000


def mission_of(out: Path) -> MissionNode:
    return MissionNode({"instruction": "find the silver bottle", "out": str(out), "time_limit_s": 90.0})


@pytest.mark.parametrize(("name", "value"), [("out", "taken/run"), ("animation", "taken/run.webp")])
def test_what_cannot_be_written_is_refused_before_the_robot_is_told_anything(
    name: str, value: str, ros: None, tmp_path: Path
) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(ConfigError, match="taken"):
        MissionNode({name: str(tmp_path / value)})


def test_a_mission_that_is_ended_before_its_goal_or_breaks_leaves_a_report(
    navigator: SlowNavigator, tmp_path: Path
) -> None:
    class Broken(LiveView):
        def show(self, state: LiveState) -> None:
            raise RuntimeError("a defect")

    stopped = threading.Event()
    stopped.set()
    navigator.answer.set()
    mission = mission_of(tmp_path / "stopped")
    broken = mission_of(tmp_path / "broken")
    try:
        with LiveView(Console(file=StringIO(), width=200)) as view:
            assert mission.run(view, stopped) == 130
        with Broken(Console(file=StringIO(), width=200)) as view, pytest.raises(RuntimeError):
            broken.run(view, threading.Event())
    finally:
        mission.destroy_node()
        broken.destroy_node()
    messages = {
        name: json.loads((tmp_path / name / "report.json").read_text())["message"]
        for name in ("stopped", "broken")
    }
    assert "before there was a goal" in messages["stopped"] and messages["broken"] == "a defect"


def test_the_report_is_there_before_the_film_which_a_signal_breaks_off(
    navigator: SlowNavigator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopping, seen = threading.Event(), []

    def film(run: Any, folder: Path, stopped: Callable[[], bool], *arguments: Any) -> None:
        seen.append((folder / "report.json").is_file())
        stopping.set()
        seen.append(stopped())

    monkeypatch.setattr("outrider.nodes.navigator.mission_node.write_pictures", film)
    navigator.answer.set()
    mission = mission_of(tmp_path)
    threading.Thread(target=lambda: (navigator.asked.wait(30.0), navigator.leave())).start()
    try:
        with LiveView(Console(file=StringIO(), width=200)) as view:
            assert mission.run(view, stopping) == 1
        mission.film(stopping.is_set)
    finally:
        mission.destroy_node()
    assert seen == [True, True]


def test_a_navigator_that_is_started_again_has_lost_the_goal(navigator: SlowNavigator) -> None:
    """Its first process may still be in the graph for a while."""
    navigator.answer.set()
    mission = MissionNode({"instruction": "find the silver bottle", "time_limit_s": 90.0})
    others: list[SlowNavigator] = []

    class Restarting(LiveView):
        def show(self, state: LiveState) -> None:
            if not others:  # the goal has begun
                others.append(SlowNavigator(navigator.client))

    printed = StringIO()
    try:
        with Restarting(Console(file=printed, width=200)) as view:
            assert mission.run(view, threading.Event()) == 1
    finally:
        mission.destroy_node()
        others[0].server.destroy()
    assert "started again and has lost the goal" in printed.getvalue()


def test_a_goal_has_its_whole_time_in_a_slow_simulation(navigator: SlowNavigator, client: Client) -> None:
    """Gazebo may simulate half a second per second; a limit in real time would cut searches short."""
    navigator.answer.set()
    mission = MissionNode(
        {"instruction": "find the silver bottle", "time_limit_s": 5.0, "use_sim_time": True}
    )
    clock, began_s = client.node.create_publisher(Clock, "/clock", 1), time.monotonic()
    told_s: list[float] = []

    def tick() -> None:
        told_s.append(1.0 + 0.6 * (time.monotonic() - began_s))
        clock.publish(Clock(clock=Time(seconds=told_s[-1]).to_msg()))

    tick()
    timer = client.node.create_timer(0.02, tick)
    goal_s: list[float] = []

    class Timing(LiveView):
        def show(self, state: LiveState) -> None:
            goal_s.append(told_s[-1])

    printed = StringIO()
    try:
        while mission.get_clock().now().nanoseconds == 0:  # as in a launch, where it runs before the goal
            rclpy.spin_once(mission, timeout_sec=0.1)
        with Timing(Console(file=printed, width=200)) as view:
            assert mission.run(view, threading.Event()) == 1
    finally:
        client.node.destroy_timer(timer)
        mission.destroy_node()
    assert "not done within 5 s" in printed.getvalue()
    # The last state is shown after a final wait of one real second.
    assert goal_s[-2] - goal_s[0] > 4.5


def test_a_mission_that_is_asked_to_end_with_its_navigator_says_so(navigator: SlowNavigator) -> None:
    """As with Ctrl-C at a launch: a navigator that ends too may never answer."""
    navigator.answer.set()
    mission, stopping = MissionNode({"instruction": "find the silver bottle"}), threading.Event()

    class Ending(LiveView):
        def show(self, state: LiveState) -> None:
            if not stopping.is_set():  # the goal has begun
                stopping.set()
                navigator.leave()

    printed = StringIO()
    try:
        with Ending(Console(file=printed, width=200)) as view:
            assert mission.run(view, stopping) == STOPPED
    finally:
        mission.destroy_node()
    assert "FAILED: interrupted; the navigator has gone" in printed.getvalue()


def test_the_goal_waits_for_the_recorder(navigator: SlowNavigator, client: Client, tmp_path: Path) -> None:
    """Messages published before the recorder subscribes are not in the recording."""
    navigator.answer.set()
    mission = MissionNode(
        {
            "instruction": "find the silver bottle",
            "recording": str(tmp_path / "run.mcap"),
            "time_limit_s": 90.0,
        }
    )
    stopping, heard_first = threading.Event(), []

    class Waiting(LiveView):
        def say(self, line: str) -> None:
            if "ready" in line and not heard_first:
                heard_first.append(navigator.asked.is_set())
                client.node.create_subscription(StepPrompt, "step_prompt", lambda _: None, 1)

        def show(self, state: LiveState) -> None:
            stopping.set()

    diagnosis = DiagnosticArray(status=[DiagnosticStatus(name="outrider/action", message="ok")])
    publisher = client.node.create_publisher(DiagnosticArray, "/diagnostics", 10)
    timer = client.node.create_timer(0.2, lambda: publisher.publish(diagnosis))
    try:
        with Waiting(Console(file=StringIO(), width=200)) as view:
            assert mission.run(view, stopping) == 130
    finally:
        client.node.destroy_timer(timer)
        mission.destroy_node()
    assert heard_first == [False] and navigator.asked.is_set()
