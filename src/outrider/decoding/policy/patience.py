# SPDX-License-Identifier: Apache-2.0
"""How long an answer may take before another verifier is asked for it."""

from __future__ import annotations

from collections import deque

KEPT = 32
ENOUGH = 8
SHARE = 0.75
"""Of the answers: what they take at most is usual. One in four may be late without its being so."""
FACTOR = 1.5
"""Times what is usual is late."""
AT_FIRST_S = 0.25
AT_LEAST_S = 0.01


class Patience:
    """Learns from the last answers. First ones, for which a prompt is read, are counted apart."""

    def __init__(self) -> None:
        self._waits = {is_first: deque[float](maxlen=KEPT) for is_first in (True, False)}

    def add(self, is_first: bool, waited_s: float) -> None:
        """Note how long an answer took."""
        self._waits[is_first].append(waited_s)

    def seconds(self, is_first: bool) -> float:
        """Return after how long an answer is late."""
        waits = sorted(self._waits[is_first])
        if len(waits) < ENOUGH:
            return AT_FIRST_S
        return max(AT_LEAST_S, FACTOR * waits[int(SHARE * (len(waits) - 1))])
