"""What ends a node's process: signals, an exception in a thread, a lost supervisor."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Client, wait_until
from outrider_interfaces.msg import MotionReport, VerifiedText
from std_srvs.srv import SetBool
from support_ros import FakeBase, result_of

from outrider.nodes.common import qos
from outrider.runtime.common.ending_signals import ENDING_SIGNALS, PARENT_VARIABLE
from outrider.runtime.processes.ros_env import ros_environment

pytestmark = pytest.mark.ros
SOON_S = 10.0

ACTION = """
import sys, threading
from outrider.nodes.base import action_node

class Told(action_node.ActionNode):
    def activate(self):
        super().activate()
        threading.Thread(target=self.wait_for_a_word, daemon=True).start()

    def wait_for_a_word(self):
        word = sys.stdin.readline().strip()
        if word == "thread":
            raise RuntimeError("a thread of the node failed")
        if word == "callback":
            self.create_timer(0.01, self.fail)
        if word == "exit":
            sys.exit(3)

    def fail(self):
        raise RuntimeError("a callback of the node failed")

sys.exit(action_node.run_node(Told))
"""


def start_action(env: dict[str, str] | None = None) -> subprocess.Popen[str]:
    """Starts an action node in a process of its own that reads one word from its standard input."""
    command = [sys.executable, "-c", ACTION]
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, env={**ros_environment(), **(env or {})}, text=True, **pipes)


class MovingRobot:
    """An action node in a process of its own that carries out a text; its base runs in this process."""

    def __init__(self, client: Client, env: dict[str, str] | None = None) -> None:
        self.client, self.base = client, FakeBase(client)
        self.process = start_action(env)
        self._text = VerifiedText(session_id="s", step=1, action="move forward large", action_complete=True)
        self._text.link_state = "connected"
        try:
            wait_until(self.moves, "motion", timeout_s=60.0)
        except BaseException:
            self.process.kill()  # otherwise it would command the base of the next test
            self.process.communicate()
            raise
        self.base.reports.clear()
        client.node.create_timer(0.05, self._repeat)

    def _repeat(self) -> None:
        self._text.header.stamp = self.client.node.get_clock().now().to_msg()
        self.client.publish(self._text, "verified_text", qos.EVENTS, wait=False)

    def moves(self) -> bool:
        """Repeats the text. Returns whether the base drives. A step that already ended gets a new number."""
        self._text.step = max([self._text.step, *(report.step + 1 for report in self.base.reports)])
        self.client.do(self._repeat)
        return bool(self.base.commands) and self.base.commands[-1][1].vx > 0.05

    def say(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()

    def end(self) -> str:
        """Waits for the process to end by itself and for the base to stop. Returns the process's errors."""
        _, errors = self.process.communicate(timeout=SOON_S)
        wait_until(lambda: self.base.commands[-1][1].vx == 0.0, "a base that stands")
        return errors


@pytest.fixture
def robots(client: Client) -> Iterator[list[MovingRobot]]:
    started: list[MovingRobot] = []
    yield started
    for robot in started:
        robot.process.kill()
        robot.process.communicate()


@pytest.mark.parametrize("number", ENDING_SIGNALS, ids=lambda number: number.name)
def test_a_signal_stops_the_robot_and_ends_the_node(
    number: signal.Signals, client: Client, robots: list[MovingRobot]
) -> None:
    robots.append(robot := MovingRobot(client))
    robot.process.send_signal(number)
    robot.end()
    assert robot.process.returncode == 0
    wait_until(lambda: robot.base.reports, "the motion's report")
    assert robot.base.reports[-1].message == "the action node was deactivated"


@pytest.mark.parametrize("place", ["thread", "callback"])
def test_an_exception_anywhere_stops_the_robot_and_ends_the_node(
    place: str, client: Client, robots: list[MovingRobot]
) -> None:
    robots.append(robot := MovingRobot(client))
    robot.say(place)
    errors = robot.end()
    assert robot.process.returncode == 1 and f"a {place} of the node failed" in errors


def test_a_thread_that_ends_itself_ends_nothing(client: Client, robots: list[MovingRobot]) -> None:
    robots.append(robot := MovingRobot(client))
    robot.say("exit")
    wait_until(lambda: robot.base.reports, "the motion's own end")
    assert robot.process.poll() is None and robot.base.reports[-1].outcome == 0


def test_a_node_stands_and_ends_when_the_process_it_belongs_to_is_killed(
    client: Client, robots: list[MovingRobot]
) -> None:
    with subprocess.Popen(["sleep", "600"]) as supervisor:
        robots.append(robot := MovingRobot(client, {PARENT_VARIABLE: str(supervisor.pid)}))
        supervisor.kill()
        robot.end()
    assert robot.process.returncode == 1


def test_an_emergency_stop_outlasts_the_process_that_took_it(
    client: Client, robots: list[MovingRobot], tmp_path: Path
) -> None:
    env = {PARENT_VARIABLE: str(os.getpid()), "HOME": str(tmp_path)}
    robots.append(robot := MovingRobot(client, env))
    service = client.node.create_client(SetBool, "set_e_stop")
    wait_until(service.service_is_ready, "the service")
    assert result_of(service.call_async(SetBool.Request(data=True))).success
    robot.process.kill()
    robot.process.communicate()
    robot.base.reports.clear()
    robot.process = start_action(env)
    report = wait_until(lambda: robot.base.reports, "the report of a text that comes again", timeout_s=60.0)[
        0
    ]
    assert report.outcome == MotionReport.EMERGENCY_STOP and not robot.base.is_moving()
    assert result_of(service.call_async(SetBool.Request(data=False))).success
    wait_until(robot.moves, "motion after the release")


def test_a_node_of_a_process_that_is_gone_already_does_not_begin() -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    env = {**ros_environment(), PARENT_VARIABLE: str(gone.pid)}
    ended = subprocess.run(
        [sys.executable, "-m", "outrider.nodes.base.action_node"], env=env, capture_output=True, timeout=60
    )
    assert ended.returncode == 1 and ended.stderr == b""


def test_under_nohup_the_end_of_the_terminal_is_no_end() -> None:
    code = (
        "import os, signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "from outrider.nodes.common.process_exit import Ending\n"
        "ending = Ending(); os.kill(os.getpid(), signal.SIGHUP); print(ending.requested.wait(0.5))\n"
        "os.kill(os.getpid(), signal.SIGQUIT); print(ending.requested.wait(60.0))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert ended.stdout.split() == ["False", "True"]


UNREAD = """
import os, sys
from outrider.nodes.common.running import leave_ros
os.set_blocking(1, False)
try:
    while True:
        os.write(1, bytes(4096))
except BlockingIOError:
    os.set_blocking(1, True)
sys.stdout = open(1, "w", closefd=False)
print("the last line")
leave_ros(130)
"""


def test_output_that_nobody_reads_does_not_hold_up_the_end() -> None:
    process = subprocess.Popen([sys.executable, "-c", UNREAD], env=ros_environment(), stdout=subprocess.PIPE)
    try:
        assert process.wait(60.0) == 130
    finally:
        process.kill()
        process.communicate()


LOADED = """
import gc, sys
from outrider.nodes.base import action_node

class Counted(action_node.ActionNode):
    def activate(self):
        print(gc.get_freeze_count(), flush=True)
        sys.exit(0)

sys.exit(action_node.run_node(Counted))
"""


def test_a_node_that_acts_is_not_held_up_by_collections_of_what_it_has_loaded() -> None:
    told = subprocess.run(
        [sys.executable, "-c", LOADED], env=ros_environment(), text=True, capture_output=True, timeout=60
    )
    assert int(told.stdout) > 50_000
