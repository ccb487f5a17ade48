# SPDX-License-Identifier: Apache-2.0
"""How many messages an agent may send."""

from __future__ import annotations

import time

from outrider.console.agents.first_look import FirstLook
from outrider.core.token_bucket import TokenBucket

URGENT_PER_S, URGENT_AT_ONCE = 10.0, 10.0


class MessagePace:
    """A rate of messages with a burst, and a little more for those that end a command."""

    def __init__(self, per_s: float, at_once: float) -> None:
        now_s = time.monotonic()
        self._usual = TokenBucket(per_s, at_once, now_s)
        self._urgent = TokenBucket(URGENT_PER_S, URGENT_AT_ONCE, now_s)
        self.too_many = f"more than {per_s:g} messages a second: wait"

    def takes(self, request: FirstLook) -> bool:
        """Whether a message is within the rate, which it then counts towards."""
        now_s = time.monotonic()
        return self._usual.take(1.0, now_s) or (request.is_urgent and self._urgent.take(1.0, now_s))
