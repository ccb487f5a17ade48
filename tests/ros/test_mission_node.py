"""The mission node beside a navigator that is slow, gone or started again."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import rclpy
from conftest import WAIT_S, Client
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from missions import mission_of, watch
from nav_msgs.msg import Odometry
from outrider_interfaces.action import Navigate
from outrider_interfaces.msg import StepPrompt, VerifiedText
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.task import Future
from rclpy.time import Time
from rosgraph_msgs.msg import Clock
from unique_identifier_msgs.msg import UUID

from outrider.core.errors import ConfigError
from outrider.nodes.navigator.mission_node import MissionNode
from outrider.runtime.common.ending_signals import STOPPED
from outrider.runtime.reports.live_view import LiveState, LiveView

pytestmark = pytest.mark.ros


def test_a_navigator_that_dies_is_missed(client: Client) -> None:
    node, has_goal = client.node, threading.Event()

    async def never(goal: Any) -> Any:
        has_goal.set()
        await Future()

    server = ActionServer(node, Navigate, "navigate", execute_callback=never)
    node.create_publisher(Odometry, "odom", 1)
    node.create_subscription(VerifiedText, "verified_text", lambda _: None, 1)
    node.create_subscription(UUID, "goal_sender", lambda _: None, 1)
    ending = threading.Thread(target=lambda: (has_goal.wait(30.0), server.destroy()))
    with mission_of() as mission:
        ending.start()
        status, printed = watch(mission)
        ending.join()
    assert status == 1 and "FAILED: the navigator has gone" in printed


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

    with mission_of() as mission:
        assert watch(mission, Stopping())[0] == 130
        assert navigator.cancelled.wait(WAIT_S)


class Broken(LiveView):
    def show(self, state: LiveState) -> None:
        raise RuntimeError("a defect")


def test_a_mission_that_breaks_ends_its_goal(navigator: SlowNavigator) -> None:
    navigator.answer.set()
    with mission_of() as mission:
        with pytest.raises(RuntimeError):
            watch(mission, view=Broken)
        assert navigator.cancelled.wait(WAIT_S)


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
    stopped = threading.Event()
    stopped.set()
    navigator.answer.set()
    with (
        mission_of(out=str(tmp_path / "stopped")) as mission,
        mission_of(out=str(tmp_path / "broken")) as broken,
    ):
        assert watch(mission, stopped)[0] == 130
        with pytest.raises(RuntimeError):
            watch(broken, view=Broken)
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
    with mission_of(out=str(tmp_path)) as mission:
        threading.Thread(target=lambda: (navigator.asked.wait(30.0), navigator.leave())).start()
        assert watch(mission, stopping)[0] == 1
        mission.film(stopping.is_set)
    assert seen == [True, True]


def test_a_navigator_that_is_started_again_has_lost_the_goal(navigator: SlowNavigator) -> None:
    """Its first process may still be in the graph for a while."""
    navigator.answer.set()
    others: list[SlowNavigator] = []

    class Restarting(LiveView):
        def show(self, state: LiveState) -> None:
            if not others:  # the goal has begun
                others.append(SlowNavigator(navigator.client))

    with mission_of() as mission:
        status, printed = watch(mission, view=Restarting)
    others[0].server.destroy()
    assert status == 1 and "started again and has lost the goal" in printed


def test_a_goal_has_its_whole_time_in_a_slow_simulation(navigator: SlowNavigator, client: Client) -> None:
    """Gazebo may simulate half a second per second; a limit in real time would cut searches short."""
    navigator.answer.set()
    clock, began_s = client.node.create_publisher(Clock, "/clock", 1), time.monotonic()
    told_s: list[float] = []

    def tick() -> None:
        told_s.append(1.0 + 0.6 * (time.monotonic() - began_s))
        clock.publish(Clock(clock=Time(seconds=told_s[-1]).to_msg()))

    goal_s: list[float] = []

    class Timing(LiveView):
        def show(self, state: LiveState) -> None:
            goal_s.append(told_s[-1])

    with mission_of(time_limit_s=5.0, use_sim_time=True) as mission:
        tick()
        timer = client.node.create_timer(0.02, tick)
        while mission.get_clock().now().nanoseconds == 0:  # as in a launch, where it runs before the goal
            rclpy.spin_once(mission, timeout_sec=0.1)
        status, printed = watch(mission, view=Timing)
        client.node.destroy_timer(timer)
    assert status == 1 and "not done within 5 s" in printed
    # The last state is shown after a final wait of one real second.
    assert goal_s[-2] - goal_s[0] > 4.5


def test_a_mission_that_is_asked_to_end_with_its_navigator_says_so(navigator: SlowNavigator) -> None:
    """As with Ctrl-C at a launch: a navigator that ends too may never answer."""
    navigator.answer.set()
    stopping = threading.Event()

    class Ending(LiveView):
        def show(self, state: LiveState) -> None:
            if not stopping.is_set():  # the goal has begun
                stopping.set()
                navigator.leave()

    with mission_of() as mission:
        status, printed = watch(mission, stopping, Ending)
    assert status == STOPPED and "FAILED: interrupted; the navigator has gone" in printed


def test_the_goal_waits_for_the_recorder(navigator: SlowNavigator, client: Client, tmp_path: Path) -> None:
    """Messages published before the recorder subscribes are not in the recording."""
    navigator.answer.set()
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
    with mission_of(recording=str(tmp_path / "run.mcap")) as mission:
        assert watch(mission, stopping, Waiting)[0] == 130
    client.node.destroy_timer(timer)
    assert heard_first == [False] and navigator.asked.is_set()
