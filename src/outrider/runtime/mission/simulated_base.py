# SPDX-License-Identifier: Apache-2.0
"""The velocity that a simulated base obeys: the last command, clamped, and only while it is fresh."""

from __future__ import annotations

from outrider.core.values import Velocity
from outrider.navigation.limits import MotionLimits
from outrider.navigation.motion.safety import Deadman, clamp

PHYSICS_HZ = 50.0
# A simulation that is late catches up at most this much at once; the rest of the lag is dropped.
MAX_LAG_S = 0.25
DEADMAN_S = 0.3
LIMITS = MotionLimits(forward_mps=1.0, lateral_mps=0.4, yaw_rps=1.5)


class SimulatedBase:
    """Gives the base's velocity, polled at PHYSICS_HZ.

    Its deadman timeout is two periods shorter than DEADMAN_S: one for the poll, one for transport.
    """

    def __init__(self) -> None:
        self._deadman = Deadman(DEADMAN_S - 2.0 / PHYSICS_HZ)

    def feed(self, velocity: Velocity, now_s: float) -> None:
        """Take a command. `now_s` is in monotonic seconds."""
        self._deadman.feed(clamp(velocity, LIMITS), now_s)

    def velocity(self, now_s: float) -> Velocity:
        """Returns the velocity until the next poll."""
        return self._deadman.velocity(now_s)
