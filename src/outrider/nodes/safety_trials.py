"""The trials of `outrider eval safety`, with the real commands of a base and the Go2's simulated services."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import cast

from geometry_msgs.msg import Twist

from outrider.core.errors import OutriderError
from outrider.core.values import Velocity
from outrider.navigation.limits import MotionLimits
from outrider.nodes import convert, qos
from outrider.nodes.base import OutriderNode
from outrider.nodes.base_command import BaseCommand, open_base_command
from outrider.nodes.simulated_go2 import SimulatedGo2
from outrider.nodes.virtual_dds import VirtualDomain, VirtualNode
from outrider.runtime.safety import evaluate_safety
from outrider.runtime.safety_world import OpenWire


class NodesWire:
    """Implements `BaseWire`: a base's command at one end, what the simulation listens to at the other."""

    def __init__(
        self,
        interface: str,
        avoid_obstacles: bool,
        feed: Callable[[Velocity], None],
        clock: Callable[[], float],
    ) -> None:
        self._interface, self._avoid_obstacles, self._clock = interface, avoid_obstacles, clock
        self._domain = VirtualDomain()
        self._base = self._domain.join()
        self._base.subscription(Twist, "cmd_vel", lambda m: feed(convert.velocity_of(m)), qos.COMMAND)
        SimulatedGo2(_as_node(self._base), feed, take_jpeg=lambda: b"")
        self._action: VirtualNode | None = None

    def start(self) -> None:
        if self._action is not None:
            self._domain.leave(self._action)
        self._action = self._domain.join()
        self._command: BaseCommand = open_base_command(
            _as_node(self._action), self._interface, MotionLimits(), self._avoid_obstacles, self._clock
        )
        self._command.start()

    @property
    def is_ready(self) -> bool:
        return self._command.is_ready

    def carry(self, alive: bool) -> None:
        self._domain.carry(dead=() if alive else (self._base,))

    def tick(self) -> None:
        self._command.tick()

    def send(self, velocity: Velocity) -> None:
        self._command.send(velocity)

    def stop(self) -> None:
        self._command.stop()

    def warning(self) -> str:
        return self._command.warning()


def _as_node(node: VirtualNode) -> OutriderNode:
    """It has all that a base that is ready uses of one."""
    return cast(OutriderNode, node)


INTERRUPTED = 130
WIRES: dict[str, OpenWire] = {
    "twist": partial(NodesWire, "twist", False),
    "sport": partial(NodesWire, "sport", False),
    "sport, robot_avoidance": partial(NodesWire, "sport", True),
}


def main() -> int:
    injections, seed, json_file = sys.argv[1:]
    try:
        figures = evaluate_safety(int(injections), int(seed), Path(json_file) if json_file else None, WIRES)
    except OutriderError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return INTERRUPTED
    return 1 if figures["missed"] or figures["unclear"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
