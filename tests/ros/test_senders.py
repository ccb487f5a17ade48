"""A goal ends with its sender, a console or mission that is killed or frozen, with the real nodes."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import SimpleNamespace
from typing import Any

import pytest
from action_msgs.msg import GoalStatus
from conftest import Client, NodeThread, wait_until
from fakes import WORDS, ScriptedDecoder
from rcl_interfaces.msg import Log
from rclpy.action.server import ServerGoalHandle
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.lifecycle import TransitionCallbackReturn
from support.consoles import Page
from support_ros import EdgeNavigator, FakeBase, Goals, PatientAction, StillCamera
from unique_identifier_msgs.msg import UUID
from websockets.exceptions import ConnectionClosed

from outrider.nodes.common import qos
from outrider.nodes.navigator.client_watch import NO_SENDER, ClientWatch
from outrider.nodes.navigator.goal_heartbeats import GoalHeartbeats
from outrider.nodes.navigator.goal_slot import MAX_CHECKS, GoalSlot
from outrider.nodes.observers.markers_node import MarkersNode
from outrider.runtime.common.ports import free_port
from outrider.runtime.mission.sender_heartbeats import SILENT_POLLS
from outrider.runtime.processes.ros_env import ros_environment
from outrider.runtime.wiring.robot_pair import Edge

pytestmark = pytest.mark.ros
LONG = ", then ".join(["turn left 300 degrees", "turn right 300 degrees"] * 3)
PATIENT = {"camera_silence_s": 5.0, "link_patience_s": 20.0, "use_memory": False}
START_S = 60.0


@pytest.fixture
def navigator(run_node: Callable[..., NodeThread]) -> Any:
    """Returns a navigator that needs no model: a turn of a given size needs no prompt."""
    return run_node(lambda: EdgeNavigator(PATIENT, Edge(ScriptedDecoder([]), WORDS)), threads=4).node


@pytest.fixture
def base(run_node: Callable[..., NodeThread], client: Client, navigator: Any) -> Iterator[FakeBase]:
    """Yields a base with a navigator. The test's own client sends no heartbeats and stays connected."""
    StillCamera(client)
    made = FakeBase(client)
    run_node(PatientAction)
    wait_until(lambda: client.node.count_subscribers("verified_text"), "the action node")
    yield made


def say_at_a_page(port: int, agent: str) -> None:
    """Sends a goal from a page of another process's console, and keeps that page active."""
    page = wait_until(lambda: opened(port, agent), "the console", START_S)
    page.read("state", warning="")  # the console is active
    if not agent:
        page.seated()
    page.send(do="say", text=LONG)
    threading.Thread(target=attend, args=(page,), daemon=True).start()


def attend(page: Page) -> None:
    page._pinged_s = 0.0
    with suppress(ConnectionClosed, TimeoutError, OSError):
        while True:
            with suppress(AssertionError):
                page.read("nothing that a console says")


def opened(port: int, agent: str) -> Page | None:
    try:
        return Page(SimpleNamespace(port=port), agent=agent)
    except OSError:
        return None


@contextmanager
def sender(kind: str) -> Iterator[subprocess.Popen[bytes]]:
    """Starts a process that sends a goal: a mission, or a console for a person or an agent."""
    port = free_port()
    if kind == "mission":
        module, values = "navigator.mission_node", {"instruction": LONG}
    else:
        module, values = "observers.console_node", {"port": port}
    given = [word for name, value in values.items() for word in ("-p", f"{name}:={value!r}")]
    command = [sys.executable, "-m", f"outrider.nodes.{module}", "--ros-args", *given]
    process = subprocess.Popen(command, env=ros_environment(), stdout=subprocess.DEVNULL)
    try:
        if kind != "mission":
            say_at_a_page(port, "examiner" if kind == "agent" else "")
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("kind", "end"),
    [
        ("agent", signal.SIGKILL),
        ("agent", signal.SIGSTOP),
        ("person", signal.SIGKILL),
        ("mission", signal.SIGKILL),
    ],
)
def test_a_goal_ends_with_the_process_that_sent_it(
    base: FakeBase, client: Client, kind: str, end: signal.Signals
) -> None:
    goals, log = Goals(client), client.listen(Log, "/rosout", qos.EVENTS)
    with sender(kind) as process:
        wait_until(base.is_moving, "motion", START_S)
        assert not goals.send("turn left 10 degrees").accepted, "the robot is busy"
        process.send_signal(end)
        # DDS itself needs some 20 s to drop a process that was killed or frozen.
        wait_until(lambda: NO_SENDER in [line.msg for line in log], "the goal's end", 10.0)
        wait_until(lambda: not base.is_moving(), "a robot that stands", 5.0)
        next_one = goals.send("turn left 10 degrees")
        assert next_one.accepted and goals.result(next_one).success, "the robot is free again"


class Watching(MarkersNode):
    """Watches a goal's sender. The test does the periodic looks, in the node's own thread."""

    def configure(self) -> None:
        self.sender = ClientWatch(self, "navigate")


def in_thread_of(node: Any, call: Callable[[], Any]) -> Any:
    task = node.executor.create_task(call)
    wait_until(task.done, "the node's thread")
    return task.result()


@pytest.fixture
def watching(run_node: Callable[..., NodeThread]) -> Any:
    node = run_node(Watching, start=False).node
    assert in_thread_of(node, node.trigger_configure) is TransitionCallbackReturn.SUCCESS
    return node


def test_a_sender_that_is_held_up_for_some_looks_loses_nothing(watching: Any, client: Client) -> None:
    signs = client.do(lambda: GoalHeartbeats(client.node))
    wait_until(lambda: signs.has_subscriber, "the watch")
    goal = client.do(signs.start)
    watching.sender.begin(goal)
    for _ in range(3):
        wait_until(lambda: watching.sender._heartbeats._has_heartbeat, "a sign")
        client.do(signs.timer.cancel)
        looks = [in_thread_of(watching, watching.sender.look) for _ in range(SILENT_POLLS - 1)]
        assert not any(looks)
        client.do(signs.timer.reset)
        wait_until(lambda: watching.sender._heartbeats._num_silent == 0, "another sign")
    client.do(signs.stop)
    wait_until(lambda: in_thread_of(watching, watching.sender.look) == NO_SENDER, "a sender that is missed")


def test_another_s_signs_do_not_hold_a_goal(watching: Any, client: Client) -> None:
    signs = client.do(lambda: GoalHeartbeats(client.node))
    wait_until(lambda: signs.has_subscriber, "the watch")
    client.do(signs.start)
    watching.sender.begin(UUID(uuid=[7] * 16))
    wait_until(lambda: watching.sender._heartbeats._recent, "a sign")
    client.do(signs.stop)
    assert not any(in_thread_of(watching, watching.sender.look) for _ in range(10 * SILENT_POLLS))


def test_a_cancel_just_before_its_goal_begins_ends_it_as_cancelled(
    base: FakeBase, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """rclpy checks for a cancel, then starts the goal; here the cancel comes between the two."""
    plain = ServerGoalHandle.is_cancel_requested.fget
    asked: list[Any] = []

    def late(handle: Any) -> bool:
        if handle not in asked:
            asked.append(handle)
            handle._update_state(rclpy_implementation.GoalEvent.CANCEL_GOAL)
            return False
        return bool(plain(handle))

    goals = Goals(client)
    with monkeypatch.context() as patched:
        patched.setattr(ServerGoalHandle, "is_cancel_requested", property(late))
        outcome = goals.outcome(goals.send(LONG))
    assert asked and outcome.status == GoalStatus.STATUS_CANCELED and not outcome.result.success
    assert not base.is_moving()
    next_one = goals.send("turn left 10 degrees")
    assert next_one.accepted and goals.result(next_one).success, "the navigator goes on"


def test_a_goal_that_is_dropped_as_it_is_accepted_does_not_keep_the_next_one_out(
    base: FakeBase, client: Client, navigator: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test runs the callback of the navigator's timer, which itself would take some seconds."""

    def refuse(*_: Any) -> None:
        raise RuntimeError("no place for a goal")

    goals = Goals(client)
    with monkeypatch.context() as patched:
        patched.setattr("rclpy.action.server.ServerGoalHandle", refuse)
        assert not goals.send(LONG).accepted
    assert not goals.send("turn left 10 degrees").accepted, "it may begin yet"
    (timer,) = navigator._looks
    assert timer in navigator.timers and not timer.is_canceled()
    for _ in range(MAX_CHECKS):
        in_thread_of(navigator, timer.callback)
    taken = goals.send("turn left 10 degrees")
    assert taken.accepted and goals.result(taken).success


def test_the_slot_of_an_accepted_goal_is_freed_by_checks_only_if_it_never_starts() -> None:
    slot = GoalSlot()
    for begins in (True, False):
        assert slot.take(0) and not slot.take(0)
        if begins:
            slot.start()
        for _ in range(MAX_CHECKS - 1):
            slot.check()
        assert slot.is_taken
        slot.check()
        assert slot.is_taken is begins
        slot.release()
        assert not slot.is_taken
