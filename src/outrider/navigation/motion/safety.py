# SPDX-License-Identifier: Apache-2.0
"""The last checks of a velocity before it reaches the base: limits, and a deadman."""

from __future__ import annotations

import math

from outrider.core.values import STANDSTILL, Velocity
from outrider.navigation.limits import MotionLimits


def clamp(velocity: Velocity, limits: MotionLimits) -> Velocity:
    """Returns the velocity within the limits; a stop if any component is not finite."""
    if not all(math.isfinite(part) for part in (velocity.vx, velocity.vy, velocity.wz)):
        return STANDSTILL
    return Velocity(
        _clip(velocity.vx, limits.forward_mps),
        _clip(velocity.vy, limits.lateral_mps),
        _clip(velocity.wz, limits.yaw_rps),
    )


def _clip(value: float, bound: float) -> float:
    return max(-bound, min(bound, value))


class Deadman:
    """Passes a velocity on for at most `timeout_s` after it was given. Times are monotonic seconds."""

    def __init__(self, timeout_s: float = 0.3) -> None:
        self.timeout_s = timeout_s
        self._velocity = STANDSTILL
        self._fed_s = -math.inf

    def feed(self, velocity: Velocity, now_s: float) -> None:
        """Take a fresh command."""
        self._velocity = velocity
        self._fed_s = now_s

    def expired(self, now_s: float) -> bool:
        """Whether the last command is older than the timeout (true before the first)."""
        return not 0.0 <= now_s - self._fed_s <= self.timeout_s

    def velocity(self, now_s: float) -> Velocity:
        """Returns the last command, or a stop once it has expired."""
        return STANDSTILL if self.expired(now_s) else self._velocity
