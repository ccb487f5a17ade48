# SPDX-License-Identifier: Apache-2.0
"""How often a stop is sent: for STOP_BURST_TICKS ticks, and longer while the base still moves. Sans-IO."""

from __future__ import annotations

import math

from outrider.core.values import Odometry
from outrider.navigation.clocks import Moment

STOP_BURST_TICKS = 10
# Above these speeds a base has not stopped (legs sway a little). A stop is repeated for at most PERSIST_S.
MOVING_MPS, MOVING_RPS, PERSIST_S = 0.06, 0.15, 5.0
# How long a base moves without a command before this is a fault.
ASTRAY_S = 2.0
ASTRAY = (
    "the base moves though nothing here drives it: a remote, another program, or a slope? Check odometry too"
)


class Stopping:
    """Says when a zero velocity is due. Something else drives a base that moves for longer than PERSIST_S."""

    def __init__(self) -> None:
        self._ticks, self._ordered_s = 0, -math.inf
        self._is_new = False
        self._astray_s: float | None = None
        self.fault = ""
        """The message that the base keeps moving without a command, or an empty text."""

    def order(self, now: Moment) -> None:
        """Order a stop, due from the next tick on."""
        self._astray_s, self.fault = None, ""
        self._ticks, self._ordered_s, self._is_new = STOP_BURST_TICKS, now.real_s, True

    def take_order(self) -> bool:
        """Whether a stop was ordered since the last call.

        It is then sent by all of the base's interfaces.
        """
        is_new, self._is_new = self._is_new, False
        return is_new

    def is_due(self, odometry: Odometry | None, now: Moment) -> bool:
        """Whether to send a zero velocity at this tick. Call it only if nothing else is sent."""
        moves = odometry is not None and odometry.velocity.exceeds(MOVING_MPS, MOVING_RPS)
        self._astray_s = (self._astray_s or now.real_s) if moves else None
        self.fault = ASTRAY if self._astray_s and now.real_s - self._astray_s > ASTRAY_S else ""
        if self._ticks > 0:
            self._ticks -= 1
            return True
        if moves and now.real_s - self._ordered_s < PERSIST_S:
            return True
        self._ordered_s = -math.inf
        return False
