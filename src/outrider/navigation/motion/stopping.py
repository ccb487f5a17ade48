# SPDX-License-Identifier: Apache-2.0
"""How a stop is told: at least so many times, and for as long as the base has not heard it. Sans-IO."""

from __future__ import annotations

import math

from outrider.core.values import Odometry
from outrider.navigation.clocks import Moment

STOP_BURST_TICKS = 10
# Past these a base has not stopped, whatever sways on legs; and how long a stop is told to one that goes on.
MOVING_MPS, MOVING_RPS, PERSIST_S = 0.06, 0.15, 5.0


class Stopping:
    """Whether a zero velocity is due. A base that moves for longer is driven by others: none is fought."""

    def __init__(self) -> None:
        self._ticks, self._ordered_s = 0, -math.inf
        self._is_new = False

    def order(self, now: Moment) -> None:
        """A stop is due from the next tick on."""
        self._ticks, self._ordered_s, self._is_new = STOP_BURST_TICKS, now.real_s, True

    def take_order(self) -> bool:
        """Whether a stop was ordered since the last call: it is told by every way that the base knows."""
        is_new, self._is_new = self._is_new, False
        return is_new

    def is_due(self, odometry: Odometry | None, now: Moment) -> bool:
        """Whether to send zero at this tick."""
        if self._ticks > 0:
            self._ticks -= 1
            return True
        persists = now.real_s - self._ordered_s < PERSIST_S
        if not persists or odometry is None or not _moves(odometry):
            self._ordered_s = -math.inf
            return False
        return True


def _moves(odometry: Odometry) -> bool:
    velocity = odometry.velocity
    return math.hypot(velocity.vx, velocity.vy) > MOVING_MPS or abs(velocity.wz) > MOVING_RPS
