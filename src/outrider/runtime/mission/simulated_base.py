# SPDX-License-Identifier: Apache-2.0
"""What a simulated base obeys: the last velocity given, clamped, and only while it is fresh."""

from __future__ import annotations

from outrider.core.values import Velocity
from outrider.navigation.limits import MotionLimits
from outrider.navigation.motion.safety import Deadman, clamp

PHYSICS_HZ = 50.0
# What a base that was held up makes good at once; the rest of its time slips.
MAX_LAG_S = 0.25
DEADMAN_S = 0.3
LIMITS = MotionLimits(forward_mps=1.0, lateral_mps=0.4, yaw_rps=1.5)


class SimulatedBase:
    """Asked for its velocity at PHYSICS_HZ; its deadman leaves a period for that, and one for the way."""

    def __init__(self) -> None:
        self._deadman = Deadman(DEADMAN_S - 2.0 / PHYSICS_HZ)

    def feed(self, velocity: Velocity, now_s: float) -> None:
        """Take a command. Times are monotonic seconds."""
        self._deadman.feed(clamp(velocity, LIMITS), now_s)

    def velocity(self, now_s: float) -> Velocity:
        """What to do until the next look."""
        return self._deadman.velocity(now_s)
