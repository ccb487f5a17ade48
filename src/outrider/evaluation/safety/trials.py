# SPDX-License-Identifier: Apache-2.0
"""The trials of `outrider eval safety`: the real commands of a base and the Go2's simulated services.

A DDS domain without threads connects them.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

from geometry_msgs.msg import Twist
from rclpy.qos import QoSProfile

from outrider.core.errors import OutriderError
from outrider.core.values import STANDSTILL, Odometry, Pose2D, Velocity
from outrider.evaluation.safety.base_wires import BaseWire, OpenWire
from outrider.evaluation.safety.injection import evaluate_safety
from outrider.navigation.limits import MotionLimits
from outrider.nodes.base.base_command import BaseCommand, open_base_command
from outrider.nodes.common import convert, qos
from outrider.nodes.common.node import OutriderNode
from outrider.nodes.common.process_exit import Ending
from outrider.nodes.go2 import go2_api
from outrider.nodes.go2.simulated_go2 import BATTERY_PERCENT, SimulatedGo2

# Steps between two states that the robot publishes.
STATE_STEPS = 5
MIN_BATTERY_PERCENT = 8
RISING = (go2_api.STAND_UP, go2_api.BALANCE_STAND)
# A call that Outrider never makes, to any service.
ANY_CALL = 1099
# The mode that the Go2 reports for each fault that keeps it from walking.
MODES = {"Go2 damped": 7, "Go2 lies down": 5, "Go2's joints locked": 6}


class _Silence:
    """A logger that drops everything."""

    def info(self, text: str, **_: Any) -> None: ...

    warning = error = info


@dataclass(eq=False)
class _Subscription:
    topic: str
    callback: Callable[[Any], None]
    unread: deque[Any]


@dataclass(eq=False)
class _Publisher:
    domain: VirtualDomain
    topic: str

    def publish(self, message: Any) -> None:
        for subscription in self.domain.subscriptions(self.topic):
            subscription.unread.append(message)

    def get_subscription_count(self) -> int:
        return len(self.domain.subscriptions(self.topic))


@dataclass(eq=False)
class VirtualNode:
    """The part of an `OutriderNode` that the base's commands use while they move; topics have full names."""

    domain: VirtualDomain
    publishers: list[_Publisher] = field(default_factory=list)
    subscriptions: list[_Subscription] = field(default_factory=list)

    def publisher(self, message: type, topic: str, qos: QoSProfile) -> _Publisher:
        """Returns a new publisher to a topic of the domain."""
        self.publishers.append(_Publisher(self.domain, topic))
        return self.publishers[-1]

    def subscription(
        self, message: type, topic: str, callback: Callable[[Any], None], qos: QoSProfile
    ) -> _Subscription:
        """Returns a new subscription; it keeps the newest `qos.depth` messages until the next `deliver`."""
        self.subscriptions.append(_Subscription(topic, callback, deque(maxlen=qos.depth)))
        return self.subscriptions[-1]

    def go2_topic(self, name: str) -> str:
        """Returns the name unchanged."""
        return name

    def count_publishers(self, topic: str) -> int:
        """Returns the number of publishers to a topic in the domain."""
        return sum(p.topic == topic for node in self.domain.nodes for p in node.publishers)

    def get_logger(self) -> _Silence:
        """Returns a logger that drops everything."""
        return _Silence()


class VirtualDomain:
    """A DDS domain in one process, without threads: `deliver` delivers what was published."""

    def __init__(self) -> None:
        self.nodes: list[VirtualNode] = []

    def join(self) -> VirtualNode:
        """Returns a new node."""
        self.nodes.append(VirtualNode(self))
        return self.nodes[-1]

    def leave(self, node: VirtualNode) -> None:
        """Remove a node whose process has ended."""
        self.nodes.remove(node)

    def subscriptions(self, topic: str) -> list[_Subscription]:
        """Returns the subscriptions to a topic in the domain."""
        return [s for node in self.nodes for s in node.subscriptions if s.topic == topic]

    def deliver(self, dead: Container[VirtualNode] = ()) -> None:
        """Deliver what was published since the last call; messages to `dead` nodes are dropped."""
        deliveries: list[tuple[Callable[[Any], None], Any]] = []
        for node in self.nodes:
            for subscription in node.subscriptions:
                if node not in dead:
                    deliveries += [(subscription.callback, message) for message in subscription.unread]
                subscription.unread.clear()
        for callback, message in deliveries:
            callback(message)


class NodesWire(BaseWire):
    """A wire of virtual nodes: the base's real command at one end, the simulated base at the other."""

    def __init__(
        self,
        interface: str,
        avoid_obstacles: bool,
        feed: Callable[[Velocity], None],
        clock: Callable[[], float],
    ) -> None:
        self._interface, self._avoid_obstacles, self._clock = interface, avoid_obstacles, clock
        self._moved_through = go2_api.OBSTACLES_AVOID if avoid_obstacles else go2_api.SPORT
        self._domain = VirtualDomain()
        self._base = self._domain.join()
        self._base.subscription(Twist, "cmd_vel", lambda m: feed(convert.velocity_of(m)), qos.COMMAND)
        self._go2 = SimulatedGo2(_as_node(self._base), feed, take_jpeg=lambda: b"")
        app = self._domain.join()
        self._app = app.publisher(go2_api.Request, go2_api.request_topic(self._moved_through), qos.EVENTS)
        requests = go2_api.request_topic(go2_api.SPORT)
        self._base.subscription(go2_api.Request, requests, self._see_request, qos.COMMAND)
        self.is_standing_up = False
        self.robot_fault, self._turn = "", 0
        self._action: VirtualNode | None = None

    def start(self) -> None:
        if self._action is not None:
            self._domain.leave(self._action)
        self._action = self._domain.join()
        self._command: BaseCommand = open_base_command(
            _as_node(self._action),
            self._interface,
            MotionLimits(),
            self._avoid_obstacles,
            self._clock,
            MIN_BATTERY_PERCENT,
        )
        self._command.start()

    @property
    def is_ready(self) -> bool:
        return self._command.is_ready

    def deliver(self, alive: bool) -> None:
        self._turn += 1
        self.is_standing_up = False
        if self._turn % STATE_STEPS == 0:
            self._trouble()
            self._go2.publish_state(Odometry(Pose2D(0.0, 0.0, 0.0), STANDSTILL, self._clock()))
            self._go2.publish_battery()
        self._domain.deliver(dead=() if alive else (self._base,))

    def _see_request(self, message: go2_api.Request) -> None:
        self.is_standing_up = self.is_standing_up or message.header.identity.api_id in RISING

    def _trouble(self) -> None:
        """Make the robot, or another program on it, show the fault that `robot_fault` names."""
        self._go2.mode = MODES.get(self.robot_fault)
        self._go2.move_code = -1 if "answered -1" in self.robot_fault else go2_api.CODE_OK
        self._go2.battery_percent = 5 if "battery" in self.robot_fault else BATTERY_PERCENT
        if "taken" in self.robot_fault:
            parameter = go2_api.enable_parameter(False)
            self._app.publish(go2_api.request(self._turn, go2_api.AVOID_SWITCH_SET, parameter))
        elif "another" in self.robot_fault:
            self._app.publish(go2_api.request(self._turn, ANY_CALL, "{}"))

    def tick(self, e_stop: bool) -> None:
        self._command.tick(e_stop)

    def send(self, velocity: Velocity) -> None:
        self._command.send(velocity)

    def stop(self) -> None:
        self._command.stop()

    def trouble(self) -> str:
        return self._command.trouble()


def _as_node(node: VirtualNode) -> OutriderNode:
    """The node as an `OutriderNode`: it has all that the command of a ready base uses."""
    return cast(OutriderNode, node)


INTERRUPTED = 130
WIRES: dict[str, OpenWire] = {
    "twist": partial(NodesWire, "twist", False),
    "sport": partial(NodesWire, "sport", False),
    "sport, robot_avoidance": partial(NodesWire, "sport", True),
}


def main() -> int:
    """Run the trials; returns 0, 1 where a bound was missed, 2 after an error, 130 after an interruption."""
    injections, seed, json_file, motion = sys.argv[1:]
    ending = Ending()
    try:
        with ending.interrupting():
            file = Path(json_file) if json_file else None
            figures = evaluate_safety(int(injections), int(seed), file, WIRES, motion)
    except OutriderError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return INTERRUPTED
    return 1 if figures["missed"] or figures["unclear"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
