# SPDX-License-Identifier: Apache-2.0
"""When to retry a request and when to go on alone: pure policy; the driver supplies the time."""

from __future__ import annotations

import math
from typing import Literal

from outrider.core.frames import CloudFrame, Pong, Refused

LONGEST_WAIT = 8.0
"""Longest wait, as a multiple of the first. A longer one would cost more when frames are lost than it would
save when they are late.
"""


class RetryTimer:
    """Decides on retries. Times are seconds on any monotonic clock.

    A retry may only add to the queue of a slow link. So the wait doubles with each retry, and halves with
    an answer that needed none (after Karn and Partridge 1987).
    """

    def __init__(
        self, silence_s: float, generation: int, now_s: float, link_grace_s: float = math.inf
    ) -> None:
        """`silence_s`: the first wait; `link_grace_s`: how long to wait for a link that is down."""
        self._silence_s = silence_s
        self._link_grace_s = link_grace_s
        self._generation = generation
        self._last_frame_s = now_s
        self._up_s = now_s
        self._wait_s = silence_s
        self._repeated = False

    def on_frame(self, frame: CloudFrame, now_s: float) -> None:
        """Restart the wait after a frame of the verifier; halve it if nothing had to be repeated."""
        if isinstance(frame, Pong):  # names the verifier; answers no request
            return
        if isinstance(frame, Refused):
            self._wait_s = self._silence_s
        elif not self._repeated:
            self._wait_s = max(self._silence_s, self._wait_s / 2.0)
        self._repeated = False
        self._last_frame_s = now_s

    def advice(self, up: bool, generation: int, now_s: float) -> Literal["retry", "continue alone"] | None:
        """Return "retry" after a reconnect or long silence, "continue alone" if the link is lost for long."""
        if not up:
            return "continue alone" if now_s - self._up_s > self._link_grace_s else None
        self._up_s = now_s
        if generation != self._generation:
            self._wait_s, self._repeated = self._silence_s, False
        elif now_s - self._last_frame_s > self._wait_s:
            self._wait_s = min(2.0 * self._wait_s, LONGEST_WAIT * self._silence_s)
            self._repeated = True
        else:
            return None
        self._generation = generation
        self._last_frame_s = now_s
        return "retry"
