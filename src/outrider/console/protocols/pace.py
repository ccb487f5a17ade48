# SPDX-License-Identifier: Apache-2.0
"""The rate limit of one connection."""

from __future__ import annotations

from outrider.core.errors import ProtocolError

MAX_MESSAGES_PER_S = 200


class Pace:
    """Counts what one page sends: messages, or whatever `unit` names in the plural."""

    def __init__(self, most_per_s: int = MAX_MESSAGES_PER_S, unit: str = "messages") -> None:
        self._most_per_s, self._unit = most_per_s, unit
        self._second_s, self._count = 0.0, 0

    def count(self, now_s: float, num: int = 1) -> None:
        """Count `num` more. Raises ProtocolError above `most_per_s` within a second."""
        if now_s - self._second_s > 1.0:
            self._second_s, self._count = now_s, 0
        self._count += num
        if self._count > self._most_per_s:
            raise ProtocolError(f"more than {self._most_per_s} {self._unit} in a second")
