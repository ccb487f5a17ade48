"""What all nodes share: timers that end with their activation, and a shutdown without output."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import NodeThread, own_domain, wait_until
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.lifecycle import TransitionCallbackReturn
from rclpy.parameter import Parameter
from rclpy.waitable import NumberOfEntities, Waitable

from outrider.nodes.common.node import OutriderNode
from outrider.nodes.common.running import spin_once
from outrider.runtime.processes.ros_env import ros_environment

pytestmark = pytest.mark.ros
BUSY_NODE = """
import sys
from rclpy.callback_groups import ReentrantCallbackGroup
from outrider.nodes.common.node import OutriderNode
from outrider.nodes.common.running import ThreadedExecutor, run_node

class Busy(OutriderNode):
    spec_name = "markers"

    def activate(self):
        for _ in range(20):
            self.active_timer(0.001, lambda: None, callback_group=ReentrantCallbackGroup())
        print("active", flush=True)

sys.exit(run_node(Busy, make_executor=lambda: ThreadedExecutor(num_threads=4)))
"""


SLOW_NODE = """
import sys, time
from outrider.nodes.common.node import OutriderNode
from outrider.nodes.common.running import run_node

class Slow(OutriderNode):
    spec_name = "markers"

    def configure(self):
        print("loading", flush=True)
        time.sleep(600.0)

sys.exit(run_node(Slow))
"""


class Ticking(OutriderNode):
    spec_name = "markers"
    ticks = 0

    def activate(self) -> None:
        self.active_timer(0.01, self.tick)

    def tick(self) -> None:
        self.ticks += 1


class Camera(OutriderNode):
    spec_name = "camera"


def test_a_parameter_that_would_not_hold_is_refused_with_what_to_do(
    run_node: Callable[..., NodeThread],
) -> None:
    node = run_node(Camera).node

    def answer(name: str, value: Any) -> Any:
        return node.set_parameters([Parameter(name, value=value)])[0]

    late = answer("source", "file")
    assert not late.successful and "source is read when" in late.reason and "clean it up" in late.reason
    assert node.value("source") == "device"
    assert answer("focal_px", 500.0).successful and node.value("focal_px") == 500.0
    assert answer("use_sim_time", False).successful
    node.trigger_deactivate()
    node.trigger_cleanup()
    wrong = answer("source", "dream")
    assert not wrong.successful and "one of device, file" in wrong.reason
    assert answer("source", "file").successful and node.value("source") == "file"
    assert answer("path", "~/a.jpg").successful and node.value("path") == str(Path.home() / "a.jpg")


def test_a_timer_lives_from_activation_to_deactivation(run_node: Callable[..., NodeThread]) -> None:
    node = run_node(Ticking).node
    wait_until(lambda: node.ticks > 2, "a timer")
    timers = list(node._active_timers)
    assert node.trigger_deactivate() is TransitionCallbackReturn.SUCCESS
    wait_until(lambda: all(timer.is_canceled() for timer in timers), "the timer's own end")
    ticks = node.ticks
    assert node.trigger_activate() is TransitionCallbackReturn.SUCCESS
    wait_until(lambda: node.ticks > ticks + 2, "a new timer")
    assert len(node._active_timers) == 1
    assert node.set_parameters([Parameter("use_sim_time", value=True)])[0].successful
    ticks = node.ticks
    wait_until(lambda: node.ticks > ticks + 2, "the timer, though the node's clock went back")


@pytest.mark.parametrize(
    ("program", "said"),
    [(BUSY_NODE, "active\n"), (SLOW_NODE, "loading\n")],
    ids=["busy", "slow"],
)
def test_a_process_ends_when_it_is_asked_to_and_without_a_word(program: str, said: str) -> None:
    command = [sys.executable, "-c", program]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, env=ros_environment(own_domain()), text=True, **pipes)
    assert process.stdout is not None and process.stdout.readline() == said
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0 and errors == ""


STUCK_NODE = """
import ctypes, sys
from outrider.nodes.common import running
from outrider.nodes.common.node import OutriderNode

class Stuck(OutriderNode):
    spec_name = "markers"

    def activate(self):
        print("active", flush=True)

    def destroy_node(self):
        ctypes.PyDLL(None).sleep(600)  # in C, and no other thread of Python runs

running.LEAVE_S = 0.2
sys.exit(running.run_node(Stuck))
"""


def test_a_process_that_cannot_leave_the_graph_is_ended() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", STUCK_NODE],
        env=ros_environment(own_domain()),
        text=True,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None and process.stdout.readline() == "active\n"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 0, "as without the hindrance"


STUCK_MISSION = """
import ctypes, rclpy, sys
from outrider.nodes.common import running
from outrider.nodes.navigator import mission_node

running.LEAVE_S = 0.2
rclpy.try_shutdown = lambda: ctypes.PyDLL(None).sleep(600)
sys.exit(mission_node.main())
"""


def test_a_mission_that_cannot_leave_the_graph_keeps_its_exit_status() -> None:
    command = [sys.executable, "-c", STUCK_MISSION, "--ros-args", "-p", "sped:=1"]
    env = ros_environment(own_domain())
    ended = subprocess.run(command, env=env, text=True, capture_output=True, timeout=60)
    assert ended.returncode == 2 and "unknown parameter sped" in ended.stderr


def test_a_process_ends_in_time_with_the_status_it_was_given() -> None:
    code = (
        "import ctypes; from outrider.nodes.common.process_exit import end_process_after;"
        "end_process_after(0.05, 130); ctypes.PyDLL(None).sleep(600)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 130


class DestroyedMeanwhile(Waitable):
    """Waits on an event that was destroyed, as if by another thread when the executor begins to wait."""

    def __init__(self, node: Any) -> None:
        super().__init__(node.default_callback_group)
        self.event = node.create_guard_condition(lambda: None)
        self.seen = 0
        node.destroy_guard_condition(self.event)

    def __enter__(self) -> None:
        self.event.handle.__enter__()

    def __exit__(self, *_: object) -> None:
        self.event.handle.__exit__(None, None, None)

    def get_num_entities(self) -> NumberOfEntities:
        return NumberOfEntities(num_guard_conditions=1)

    def add_to_wait_set(self, wait_set: Any) -> None:
        self.seen += 1
        with self.event.handle:
            raise AssertionError("a handle that is destroyed was entered")


def test_a_node_outlives_what_is_destroyed_while_it_waits(run_node: Callable[..., NodeThread]) -> None:
    node = run_node(Ticking).node
    gone = DestroyedMeanwhile(node)
    node.add_waitable(gone)
    wait_until(lambda: gone.seen, "the destroyed one to be waited for")
    node.remove_waitable(gone)
    ticks = node.ticks
    wait_until(lambda: node.ticks > ticks, "the node's timer")


class Failing:
    """An executor whose wait fails."""

    def __init__(self, words: str) -> None:
        self._error = rclpy_implementation.RCLError(words)

    def spin_once(self, timeout_sec: float) -> None:
        raise self._error


def test_a_node_outlives_an_action_server_that_goes_while_it_waits_and_no_other_fault() -> None:
    spin_once(
        Failing("Failed to add 'rcl_action_server_t' to wait set: action server pointer is invalid"), 0.1
    )
    with pytest.raises(rclpy_implementation.RCLError, match="context"):
        spin_once(Failing("Failed to wait: the context is not there"), 0.1)


def test_a_log_folder_that_cannot_be_made_is_named_with_the_way_out() -> None:
    command = [sys.executable, "-m", "outrider.nodes.base.action_node"]
    env = ros_environment(own_domain()) | {"ROS_LOG_DIR": "/proc/none"}
    ended = subprocess.run(command, env=env, text=True, capture_output=True)
    last = ended.stderr.splitlines()[-1]
    assert ended.returncode == 2 and "/proc/none" in last and "ROS_LOG_DIR" in last.partition(": set ")[2]


def test_arguments_that_ros_does_not_take_are_one_line() -> None:
    command = [
        sys.executable,
        "-m",
        "outrider.nodes.base.action_node",
        "--ros-args",
        "--params-file",
        "none.yaml",
    ]
    ended = subprocess.run(command, env=ros_environment(own_domain()), text=True, capture_output=True)
    assert ended.returncode == 2 and "Traceback" not in ended.stderr
    last = ended.stderr.splitlines()[-1]
    assert (
        last.startswith("error: ")
        and "none.yaml" in last
        and last.endswith("correct what follows --ros-args")
    )
