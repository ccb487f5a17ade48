# SPDX-License-Identifier: Apache-2.0
"""Interfaces to a base: Twist (stamped or not) on cmd_vel, the Go2's sport API, nav2, or the log only."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from geometry_msgs.msg import Twist, TwistStamped

from outrider.core.errors import ConfigError
from outrider.core.language.actions import Motion
from outrider.core.values import Velocity
from outrider.navigation.limits import MotionLimits
from outrider.navigation.motion.pilot import MotionExecutor
from outrider.nodes.common import qos
from outrider.nodes.common.convert import header, twist_message
from outrider.nodes.common.node import OutriderNode
from outrider.runtime.node_graph.node_specs import COMMAND_INTERFACES


class BaseCommand(Protocol):
    """Sends velocities to a base. `stop` is sent in addition to the zero velocity, in the base's own way.

    `start` and `close` enclose the time in which this node commands the base. `tick` is called at the rate
    of the commands, and less often while the base `is_idle`. `refused` counts commands that the base
    refused, `overdue` those that it did not answer.
    """

    refused: int
    overdue: int

    @property
    def is_ready(self) -> bool:
        """Whether a velocity would move the base."""

    @property
    def is_idle(self) -> bool:
        """Whether `tick` has nothing to do, so that it may be called less often."""

    @property
    def make_executor(self) -> Callable[[Motion], MotionExecutor] | None:
        """Makes an executor of whole motions; None if the base takes velocities."""

    def start(self) -> None:
        """Prepare the base for velocities."""

    def tick(self, held: bool = False) -> None:
        """Do what is due between velocities, such as deadlines of calls.

        While the emergency stop is engaged (`held`) it does nothing that moves the base.
        """

    def send(self, velocity: Velocity) -> None:
        """Send a velocity to the base."""

    def stop(self) -> None:
        """Stop the base."""

    def close(self) -> None:
        """Release the resources of the interface."""

    def trouble(self) -> str:
        """Returns why no text may move the base now, or an empty text.

        A person may drive while `is_ready`.
        """

    def warning(self) -> str:
        """Returns what is wrong with the base, or an empty text."""


class _Unanswered:
    """A base that gives no answers: there is nothing to prepare, to wait for, or to release."""

    refused = overdue = 0
    is_ready = is_idle = True
    make_executor = None

    def start(self) -> None:
        """Does nothing: the base is always ready."""

    def tick(self, held: bool = False) -> None:
        """Does nothing: no deadlines."""

    def trouble(self) -> str:
        return ""

    def close(self) -> None:
        """Does nothing: there is nothing to release."""

    def warning(self) -> str:
        return ""


class TwistCommand(_Unanswered):
    """geometry_msgs/Twist on cmd_vel, stamped if configured; a stop is the zero velocity."""

    def __init__(self, node: OutriderNode, stamped: bool) -> None:
        self._node, self._stamped = node, stamped
        self._publisher = node.publisher(TwistStamped if stamped else Twist, "cmd_vel", qos.COMMAND)

    def send(self, velocity: Velocity) -> None:
        """Publishes the velocity, stamped if configured."""
        twist = twist_message(velocity)
        if self._stamped:
            stamp = self._node.get_clock().now().to_msg()
            twist = TwistStamped(header=header(stamp, self._node.frame("base_link")), twist=twist)
        self._publisher.publish(twist)

    def stop(self) -> None:
        """Publishes the zero velocity."""
        self.send(Velocity())

    def warning(self) -> str:
        """Returns which other nodes publish to the same topic; empty if none does."""
        topic = self._publisher.topic_name
        ends = [end.node_name for end in self._node.get_publishers_info_by_topic(topic)]
        if len(ends) < 2:
            return ""
        others = ", ".join(sorted({*ends} - {self._node.get_name()})) or "another action node"
        return f"{others} publishes {topic} as well: stop it, or let twist_mux choose (config/twist_mux.yaml)"


class DryRunCommand(_Unanswered):
    """Logs every change of the velocity and sends nothing to the base."""

    def __init__(self, node: OutriderNode) -> None:
        self._log = node.get_logger()
        self._last: Velocity | None = None

    def send(self, velocity: Velocity) -> None:
        """Logs the velocity if it has changed."""
        if velocity != self._last:
            self._last = velocity
            self._log.info(
                f"dry run: {velocity.vx:+.2f} m/s ahead, {velocity.vy:+.2f} m/s left, "
                f"{velocity.wz:+.2f} rad/s left"
            )

    def stop(self) -> None:
        """Logs the zero velocity if it has changed."""
        self.send(Velocity())

    def warning(self) -> str:
        """Returns that nothing is sent to a base."""
        return "dry run: nothing is sent to a base"


def open_base_command(
    node: OutriderNode,
    interface: str,
    limits: MotionLimits,
    avoid_obstacles: bool = False,
    clock: Callable[[], float] = time.monotonic,
    min_battery_percent: int = 0,
) -> BaseCommand:
    """Returns the interface for a `command_interface` parameter; ConfigError if it is unknown.

    `clock` gives the seconds for a robot's deadlines. A Go2 whose battery is below `min_battery_percent` is
    not moved.
    """
    if avoid_obstacles and interface != "sport":
        raise ConfigError(f"robot_avoidance=true needs command_interface=sport, not {interface!r}")
    if interface == "sport":
        return _open_go2(node, avoid_obstacles, clock, min_battery_percent)
    if interface == "nav2":
        return _open_nav2(node, limits)
    if interface == "dry_run":
        return DryRunCommand(node)
    if interface in ("twist", "twist_stamped"):
        return TwistCommand(node, stamped=interface == "twist_stamped")
    raise ConfigError(f"command_interface={interface!r} must be one of {', '.join(COMMAND_INTERFACES)}")


def _open_nav2(node: OutriderNode, limits: MotionLimits) -> BaseCommand:
    try:
        from outrider.nodes.base.nav2_command import Nav2Command
    except ImportError as error:
        raise ConfigError(
            "command_interface=nav2 needs nav2_msgs: install nav2 or build ros2_ws/stand_ins"
        ) from error
    return Nav2Command(node, TwistCommand(node, stamped=False), limits)


def _open_go2(
    node: OutriderNode, avoid_obstacles: bool, clock: Callable[[], float], min_battery_percent: int
) -> BaseCommand:
    try:
        from outrider.nodes.go2 import go2_api
        from outrider.nodes.go2.go2_client import open_service
        from outrider.nodes.go2.go2_command import Go2Command
        from outrider.nodes.go2.go2_condition import Go2Condition
        from outrider.nodes.go2.go2_watch import watch_go2
    except ImportError as error:
        raise ConfigError(
            "command_interface=sport needs unitree_api: build unitree_ros2 or ros2_ws/stand_ins"
        ) from error
    sport = open_service(node, go2_api.SPORT, clock)
    avoidance = open_service(node, go2_api.OBSTACLES_AVOID, clock) if avoid_obstacles else None
    condition = Go2Condition(min_battery_percent, clock)
    watch_go2(node, condition, avoidance or sport)
    return Go2Command(sport, avoidance, node.get_logger().warning, clock, condition)
