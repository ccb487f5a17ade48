"""The ways to command a base: cmd_vel, plain or stamped, or the Go2's sport API."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from geometry_msgs.msg import Twist, TwistStamped

from outrider.core.errors import ConfigError
from outrider.core.values import Velocity
from outrider.nodes import qos
from outrider.nodes.base import OutriderNode
from outrider.nodes.convert import header, twist_message


class BaseCommand(Protocol):
    """Velocities out; `stop` is sent beside the zero velocity, by whatever else the base listens to."""

    def send(self, velocity: Velocity) -> None: ...

    def stop(self) -> None: ...


class CmdVelCommand:
    """geometry_msgs/Twist on cmd_vel, stamped if asked; a stop is the zero velocity."""

    def __init__(self, node: OutriderNode, stamped: bool) -> None:
        self._node, self._stamped = node, stamped
        self._publisher = node.publisher(TwistStamped if stamped else Twist, "cmd_vel", qos.COMMAND)

    def send(self, velocity: Velocity) -> None:
        twist = twist_message(velocity)
        if self._stamped:
            stamp = self._node.get_clock().now().to_msg()
            twist = TwistStamped(header=header(stamp, "base_link"), twist=twist)
        self._publisher.publish(twist)

    def stop(self) -> None:
        self.send(Velocity())


class SportCommand:
    """Move for a velocity and StopMove for a stop; a Move of zero would keep the Go2 stepping."""

    def __init__(self, node: OutriderNode, warn: Callable[[str], None]) -> None:
        try:
            from outrider.nodes import sport
        except ImportError as error:
            raise ConfigError(
                "command_interface=sport needs unitree_api: build unitree_ros2 or ros2_ws/stand_ins"
            ) from error
        self._sport, self._warn = sport, warn
        publisher = node.publisher(sport.Request, sport.REQUEST_TOPIC, qos.EVENTS)
        self.client = sport.SportClient(publisher, time.monotonic_ns())
        node.subscription(sport.Response, sport.RESPONSE_TOPIC, self._on_response, qos.EVENTS)

    def send(self, velocity: Velocity) -> None:
        if velocity == Velocity():
            self.client.send(self._sport.STOP_MOVE)
        else:
            self.client.send(self._sport.MOVE, velocity)

    def stop(self) -> None:
        self.client.send(self._sport.STOP_MOVE)

    def _on_response(self, message: object) -> None:
        refusal = self.client.on_response(message)
        if refusal:
            self._warn(refusal)


def open_base_command(node: OutriderNode, interface: str) -> BaseCommand:
    """The command of a `command_interface` parameter."""
    if interface == "sport":
        return SportCommand(node, lambda text: node.get_logger().warning(text, throttle_duration_sec=1.0))
    return CmdVelCommand(node, stamped=interface == "cmd_vel_stamped")
