"""What every node shares: timers that end with its activity, and an end without a word."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable

import pytest
from conftest import NodeThread, wait_until
from rclpy.lifecycle import TransitionCallbackReturn

from outrider.nodes.base import OutriderNode
from outrider.runtime.ros_env import free_domain, ros_environment

pytestmark = pytest.mark.ros
BUSY_NODE = """
import sys
from rclpy.callback_groups import ReentrantCallbackGroup
from outrider.nodes.base import OutriderNode, ThreadedExecutor, run_node

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
from outrider.nodes.base import OutriderNode, run_node

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


@pytest.mark.parametrize(
    ("program", "said"),
    [(BUSY_NODE, "active\n"), (SLOW_NODE, "loading\n")],
    ids=["busy", "slow"],
)
def test_a_process_ends_when_it_is_asked_to_and_without_a_word(program: str, said: str) -> None:
    command = [sys.executable, "-c", program]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, env=ros_environment(free_domain()), text=True, **pipes)
    assert process.stdout is not None and process.stdout.readline() == said
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0 and errors == ""


def test_arguments_that_ros_does_not_take_are_one_line() -> None:
    command = [sys.executable, "-m", "outrider.nodes.action_node", "--ros-args", "--params-file", "none.yaml"]
    ended = subprocess.run(command, env=ros_environment(free_domain()), text=True, capture_output=True)
    assert ended.returncode == 2 and "Traceback" not in ended.stderr
    last = ended.stderr.splitlines()[-1]
    assert (
        last.startswith("error: ")
        and "none.yaml" in last
        and last.endswith("correct what follows --ros-args")
    )
