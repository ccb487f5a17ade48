# SPDX-License-Identifier: Apache-2.0
"""A node's process: how it begins, spins, and ends in time."""

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
# What rcl says of an entity, such as an action server, that is destroyed between two looks at it.
GONE = "pointer is invalid"
# What rcl says where the folder of the log files cannot be made, and where there is no home for one.
NO_LOG = ("Failed to create log directory", "Failed to get logging directory")
SHUTDOWN_POLL_S = 0.005

# A thread that drafts must not keep the sign of life waiting: every call into DDS gives the interpreter
# away, and gets it back only after this time.
sys.setswitchinterval(0.0005)


class ThreadedExecutor(MultiThreadedExecutor):
    """One whose `shutdown` waits for the callbacks under way; rclpy's own takes away what they need."""

    def shutdown(self, timeout_sec: float = math.inf) -> bool:
        """Waits for running callbacks, at most `timeout_sec`, and shuts down."""
        deadline_s = time.monotonic() + timeout_sec
        while not all(task.done() for task in self._futures) and time.monotonic() < deadline_s:
            time.sleep(SHUTDOWN_POLL_S)
        return bool(super().shutdown(0.0))


def init_ros(args: list[str] | None = None) -> None:
    """rclpy with signals left to the caller. Raises ConfigError for arguments that ROS does not take.

    The log file that ROS opens here is private; no thread runs yet that the process's umask is shared with.
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
    """Run a node until it is asked to end (`Ending` says by what); 0 then, 2 where it could not start (the
    reason is on stderr).

    Signals are ours, not ROS's, which would close the context before the robot has been told to stop.
    One that comes while a model is loaded does not wait for it.
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
        spin_until(node, make_executor(), ending.asked)
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
    """Say goodbye to the graph, as the last act of a process that ends with this status.

    Fast DDS can wait for ever in C++ when a participant leaves just when others appear (its issue 6513), and
    no Python runs then: a timer of the C library ends the process, whose robot stands already.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    with contextlib.suppress(OSError, AttributeError):  # without a timer it takes as long as it takes
        end_process_after(LEAVE_S, status)
    if node is not None:
        node.destroy_node()
    rclpy.try_shutdown()
    # The interpreter would take the models' libraries apart object by object, for seconds.
    gc.freeze()


def spin_once(executor: Any, timeout_s: float) -> None:
    """Run what is ready. Another thread may destroy an entity just when the executor begins to wait for it:
    the next call waits for what is left.
    """
    try:
        executor.spin_once(timeout_sec=timeout_s)
    except InvalidHandle:
        pass
    except rclpy_implementation.RCLError as error:
        if GONE not in str(error):
            raise


def spin_until(node: OutriderNode, executor: Any, stopping: threading.Event) -> None:
    """Spin until asked to stop; the robot stands and no callback runs when this returns."""
    executor.add_node(node)
    try:
        while not stopping.is_set() and rclpy.ok():
            spin_once(executor, SPIN_TIMEOUT_S)
    except ExternalShutdownException:
        pass
    finally:
        # First this: the executor waits for its callbacks, and a goal's worker ends only once deactivated.
        node.stop_acting()
        executor.shutdown(timeout_sec=1.0)
