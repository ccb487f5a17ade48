# SPDX-License-Identifier: Apache-2.0
"""Counts the publishers of a topic by the sequence numbers of its messages."""

from __future__ import annotations

from dataclasses import dataclass

MAX_GAP = 64
"""The most messages of one publisher that may be lost in a row. A larger gap means another publisher."""


@dataclass
class _Source:
    number: int
    last_s: float


class PublisherCounter:
    """Separates the publishers of one topic by the sequence numbers that each gives to its messages.

    A publisher's messages come in order. A number that does not continue a source's last one is therefore
    from another. A source counts for `silence_s` after its last message. So a publisher whose process died
    stops counting, even if the middleware still lists it.
    """

    def __init__(self, silence_s: float) -> None:
        self._silence_s = silence_s
        self._sources: list[_Source] = []

    def take(self, number: int, now_s: float) -> int:
        """Returns the number of publishers, given the sequence number of a new message."""
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
