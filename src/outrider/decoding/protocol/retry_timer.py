# SPDX-License-Identifier: Apache-2.0
"""When to ask the other side again and when to go on without it: pure policy, the driver tells the time."""

from __future__ import annotations

import math
from typing import Literal

from outrider.core.frames import CloudFrame, Pong, Refused

LONGEST_WAIT = 8.0
"""Times the first: longer ones would cost more where frames are lost than they spare where they are late."""


class RetryTimer:
    """Times in seconds on any monotonic clock.

    A repeat may only add to the queue of a slow link: the wait doubles with each one, and halves with an
    answer that needed none (after Karn and Partridge 1987).
    """

    def __init__(
        self, silence_s: float, generation: int, now_s: float, link_grace_s: float = math.inf
    ) -> None:
        """`silence_s`: how long to wait at first; `link_grace_s`: for a link that is down."""
        self._silence_s = silence_s
        self._link_grace_s = link_grace_s
        self._generation = generation
        self._heard_s = now_s
        self._up_s = now_s
        self._wait_s = silence_s
        self._repeated = False

    def on_heard(self, frame: CloudFrame, now_s: float) -> None:
        """Restarts the wait after a frame of the verifier; halves it if nothing had to be repeated."""
        if isinstance(frame, Pong):  # says who is there, and nothing of what was asked
            return
        if isinstance(frame, Refused):
            self._wait_s = self._silence_s
        elif not self._repeated:
            self._wait_s = max(self._silence_s, self._wait_s / 2.0)
        self._repeated = False
        self._heard_s = now_s

    def verdict(self, up: bool, generation: int, now_s: float) -> Literal["ask again", "go alone"] | None:
        """Ask again after a reconnect or a long silence; go alone once the link was down for too long."""
        if not up:
            return "go alone" if now_s - self._up_s > self._link_grace_s else None
        self._up_s = now_s
        if generation != self._generation:
            self._wait_s, self._repeated = self._silence_s, False
        elif now_s - self._heard_s > self._wait_s:
            self._wait_s = min(2.0 * self._wait_s, LONGEST_WAIT * self._silence_s)
            self._repeated = True
        else:
            return None
        self._generation = generation
        self._heard_s = now_s
        return "ask again"
