# SPDX-License-Identifier: Apache-2.0
"""What the cloud has to say while its sender is busy: verdicts first, then hints in order (FSD, alg. 2)."""

from __future__ import annotations

import random
from collections import deque

from outrider.core.frames import CloudFrame, Hint


class Outbox:
    """`order` of hints: confidence (surest first), fifo or random. What is final makes hints pointless."""

    def __init__(self, order: str, rng: random.Random) -> None:
        self._order = order
        self._rng = rng
        self._final: deque[CloudFrame] = deque()
        self._hints: list[Hint] = []

    def push(self, frame: CloudFrame) -> None:
        """Queues a frame; a frame that is not a hint drops the hints queued so far."""
        if isinstance(frame, Hint):
            self._hints.append(frame)
            return
        self._final.append(frame)
        self._hints.clear()

    def pop(self) -> CloudFrame | None:
        """The next frame to send, if any."""
        if self._final:
            return self._final.popleft()
        if not self._hints:
            return None
        index = 0
        if self._order == "confidence":
            index = max(range(len(self._hints)), key=lambda at: self._hints[at].confidence)
        elif self._order == "random":
            index = self._rng.randrange(len(self._hints))
        return self._hints.pop(index)
