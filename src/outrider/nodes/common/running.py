# SPDX-License-Identifier: Apache-2.0
"""Runs a node's process: starts it, spins it, and ends it in time."""

from __future__ import annotations

import contextlib
import gc
import logging
import math
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import rclpy
from rclpy.exceptions import InvalidHandle
from rclpy.executors import ExternalShutdownException, MultiThreadedExecutor, SingleThreadedExecutor
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

from outrider.core.errors import ConfigError, OutriderError
from outrider.core.files.private_files import OTHERS
from outrider.nodes.common.node import OutriderNode
from outrider.nodes.common.process_exit import BROKEN, Ending, end_process_after
from outrider.runtime.common.ending_signals import COULD_NOT_START
from outrider.runtime.common.process_memory import keep_loaded

SPIN_TIMEOUT_S = 0.1
LEAVE_S = 5.0
# rcl's message if an entity, such as an action server, is destroyed while the executor waits for it.
GONE = "pointer is invalid"
# rcl's messages if the folder of the log files cannot be made, or there is no home folder for it.
NO_LOG = ("Failed to create log directory", "Failed to get logging directory")
SHUTDOWN_POLL_S = 0.005

# A drafting thread must not delay the heartbeat: each call into DDS releases the interpreter, and gets it
# back only after this time.
sys.setswitchinterval(0.0005)


class ThreadedExecutor(MultiThreadedExecutor):
    """An executor whose `shutdown` waits for running callbacks; rclpy's own removes what they need."""

    def shutdown(self, timeout_sec: float = math.inf) -> bool:
        """Wait for running callbacks, at most `timeout_sec`, and shut down. Returns whether that worked."""
        deadline_s = time.monotonic() + timeout_sec
        while not all(task.done() for task in self._futures) and time.monotonic() < deadline_s:
            time.sleep(SHUTDOWN_POLL_S)
        return bool(super().shutdown(0.0))


def init_ros(args: list[str] | None = None) -> None:
    """Initialise rclpy and leave signals to the caller. Raises ConfigError for wrong ROS arguments.

    The log file that ROS opens here is private. No other thread runs yet that would share the umask.
    """
    before = os.umask(OTHERS)
    try:
        rclpy.init(args=args, signal_handler_options=SignalHandlerOptions.NO)
    except RuntimeError as error:
        no_log = any(said in str(error) for said in NO_LOG)
        mend = "set ROS_LOG_DIR to a folder" if no_log else "correct what follows --ros-args"
        raise ConfigError(f"{error}: {mend}") from error
    finally:
        os.umask(before)


def run_node(
    make_node: Callable[[], OutriderNode],
    args: list[str] | None = None,
    make_executor: Callable[[], Any] = SingleThreadedExecutor,
) -> int:
    """Run a node until it is asked to end; see `Ending`. Returns 0, 1 if it broke, 2 if it could not start.

    The reason is on stderr then. Signals are handled here, not by ROS, which would close the context before
    the stop has been sent to the robot. A signal during the loading of a model takes effect at once.
    """
    ending, status = Ending(), BROKEN
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
    node: OutriderNode | None = None
    try:
        init_ros(args)
        node = make_node()
        node.on_loaded = keep_loaded
        with ending.interrupting():
            node.start()
        spin_until(node, make_executor(), ending.requested)
        status = ending.status
    except KeyboardInterrupt:
        status = ending.status
    except OutriderError as error:
        print(f"error: {error}", file=sys.stderr)
        status = COULD_NOT_START
    finally:
        try:
            if node is not None:
                node.end()
        finally:
            leave_ros(status, node)
    return status


def leave_ros(status: int, node: Node | None = None) -> None:
    """Leave the graph, as the last act of a process that ends with this status.

    Fast DDS can wait for ever in C++ when a participant leaves just as others appear (its issue 6513), and
    no Python runs then. So a timer of the C library ends the process; the robot already stands. It also
    bounds the time in which the output must be read.
    """
    with contextlib.suppress(OSError, AttributeError):  # without a timer there is no bound
        end_process_after(LEAVE_S, status)
    sys.stdout.flush()
    sys.stderr.flush()
    if node is not None:
        node.destroy_node()
    rclpy.try_shutdown()
    # The interpreter would free the models' libraries object by object, for seconds.
    gc.freeze()


def spin_once(executor: Any, timeout_s: float) -> None:
    """Run the callbacks that are ready.

    Another thread may destroy an entity just as the executor starts to wait for it. The next call then
    waits for the others.
    """
    try:
        executor.spin_once(timeout_sec=timeout_s)
    except InvalidHandle:
        pass
    except rclpy_implementation.RCLError as error:
        if GONE not in str(error):
            raise


def spin_until(node: OutriderNode, executor: Any, stopping: threading.Event) -> None:
    """Spin until asked to stop. When this returns, the robot stands and no callback runs."""
    executor.add_node(node)
    try:
        while not stopping.is_set() and rclpy.ok():
            spin_once(executor, SPIN_TIMEOUT_S)
    except ExternalShutdownException:
        pass
    finally:
        # First stop acting: the executor waits for its callbacks, and a goal's worker ends only after that.
        node.stop_acting()
        executor.shutdown(timeout_sec=1.0)
