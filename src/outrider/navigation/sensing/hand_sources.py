# SPDX-License-Identifier: Apache-2.0
"""Counts the publishers of a topic by the sequence numbers of its messages."""

from __future__ import annotations

from dataclasses import dataclass

MAX_GAP = 64
"""Messages of one publisher that may be missing between two of its messages; more is another publisher."""


@dataclass
class _Source:
    number: int
    last_s: float


class HandSources:
    """Separates the publishers of one topic by the numbers that each gives to its own messages.

    A publisher counts its messages, and they come in order. A number that does not go on from a source's
    last one is therefore another's. A source counts for `silence_s` after its last message, so that one whose
    process died counts no longer, whatever the middleware still says of it.
    """

    def __init__(self, silence_s: float) -> None:
        self._silence_s = silence_s
        self._sources: list[_Source] = []

    def take(self, number: int, now_s: float) -> int:
        """The number of publishers, given the sequence number of a message that has come."""
        self._sources = [s for s in self._sources if now_s - s.last_s <= self._silence_s]
        origin = max(
            (s for s in self._sources if s.number < number <= s.number + MAX_GAP),
            key=lambda source: source.number,
            default=None,
        )
        if origin is None:
            self._sources.append(_Source(number, now_s))
        else:
            origin.number, origin.last_s = number, now_s
        return len(self._sources)
