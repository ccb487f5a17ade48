# SPDX-License-Identifier: Apache-2.0
"""How long an answer may take before another verifier is asked for it."""

from __future__ import annotations

from collections import deque

KEPT = 32
ENOUGH = 8
"""Answers before the quantile is used; until then AT_FIRST_S holds."""
SHARE = 0.75
"""The quantile of recent answer times that is taken as usual: one answer in four may be late."""
FACTOR = 1.5
"""An answer is late after so many times the usual time."""
AT_FIRST_S = 0.25
AT_LEAST_S = 0.01


class Patience:
    """Keeps the times of the last KEPT answers; those of first answers, which include the prompt, apart."""

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
