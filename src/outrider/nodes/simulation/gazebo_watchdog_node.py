# SPDX-License-Identifier: Apache-2.0
"""A second deadman for Gazebo's base, in a process of its own, in case the first one's process ends."""

from __future__ import annotations

import math
import time

from geometry_msgs.msg import Twist

from outrider.core.values import Velocity
from outrider.nodes.common import convert, qos
from outrider.nodes.common.node import OutriderNode
from outrider.nodes.common.running import run_node
from outrider.runtime.mission.simulated_base import PHYSICS_HZ

# Silence of the node `gazebo`, which repeats every velocity at PHYSICS_HZ.
SILENCE_S = 0.15


class GazeboWatchdogNode(OutriderNode):
    """Repeats a stop on gazebo/cmd_vel while no velocity but zero comes there.

    VelocityControl has no timeout in any release: it holds the last velocity. While the robot stands, these
    stops are the same as those of the node `gazebo`.
    """

    spec_name = "gazebo_watchdog"

    def configure(self) -> None:
        self._moved_s = -math.inf
        self._commands = self.publisher(Twist, "gazebo/cmd_vel", qos.COMMAND)
        self.subscription(Twist, "gazebo/cmd_vel", self._on_command, qos.COMMAND)

    def activate(self) -> None:
        self.active_timer(1.0 / PHYSICS_HZ, self._look)

    def _on_command(self, message: Twist) -> None:
        if convert.velocity_of(message) != Velocity():
            self._moved_s = time.monotonic()

    def _look(self) -> None:
        if time.monotonic() - self._moved_s > SILENCE_S:
            self._commands.publish(Twist())


def main() -> int:
    """Runs the node; returns the exit status."""
    return run_node(GazeboWatchdogNode)


if __name__ == "__main__":
    raise SystemExit(main())
