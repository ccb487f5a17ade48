# SPDX-License-Identifier: Apache-2.0
"""Reuse of rejected segments (sd.npu, section 4.4):
tokens of a draft that were right but for a mistake before.

Given a draft x and the target's own choices y that first differ at e, the longest run i > e with x_i = y_i
is what the target would have written after the drafted text (eq. 3). It is kept for a few verifications and
proposed again: right after the text, and wherever the text reaches a point inside the segment.
"""

from __future__ import annotations

from collections.abc import Sequence

from outrider.decoding.drafting.retrieval.continuation import Continuation, Drafter

LIFETIME = 3
"""For how many verifications a segment is kept."""
SHORTEST = 2
AT_ONCE, INSIDE = 0.35, 0.6
"""Prior beliefs: in a segment right after the rejection, and once the text is inside the segment."""


def longest_run(draft: Sequence[int], choices: Sequence[int]) -> tuple[int, ...]:
    """Return (start, end) of the longest run in which a draft equals the choices;
    both begin after the mistake.

    Empty if no run has SHORTEST tokens.
    """
    best, start = (0, 0), 0
    for index, (drafted, chosen) in enumerate(zip(draft, choices, strict=True)):
        if drafted != chosen:
            start = index + 1
        elif index + 1 - start > best[1] - best[0]:
            best = start, index + 1
    return best if best[1] - best[0] >= SHORTEST else ()


class SegmentReuse(Drafter):
    """Segments of rejected drafts, each for a few verifications."""

    source = "reuse"

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self._segments: list[tuple[tuple[int, ...], int]] = []
        self._num_verified = 0
        self._last: list[int] = []

    def begin(self, prompt: Sequence[int]) -> None:
        """Start a new text and drop all segments, because the next text may be another client's."""
        self.forget()

    def keep(self, segment: Sequence[int]) -> None:
        """Keep a run of a rejected draft; call it before `extend` adds the verdict's tokens."""
        self._segments.append((tuple(segment), self._num_verified))

    def extend(self, tokens: Sequence[int]) -> None:
        """Append the tokens of one verification."""
        self._num_verified += 1
        self._last = [*self._last, *tokens][-SHORTEST:]
        self._segments = [
            (segment, kept_at)
            for segment, kept_at in self._segments
            if self._num_verified - kept_at <= LIFETIME
        ]

    def branches(self) -> list[tuple[float, tuple[int, ...]]]:
        """Return every segment with its belief, the newest first: first the rests of the segments that the
        text is inside of, then all segments whole.
        """
        segments = [segment for segment, _ in reversed(self._segments)]
        inside = [(INSIDE, _rest_after(segment, self._last)) for segment in segments]
        return [
            *((belief, rest) for belief, rest in inside if rest),
            *((AT_ONCE, segment) for segment in segments),
        ]

    def propose(self, branch: Sequence[int], limit: int) -> Continuation | None:
        """Return the rest of the newest segment that the text is inside of,
        or else a segment just rejected.
        """
        end = [*self._last, *branch]
        for segment, _ in reversed(self._segments):
            rest = _rest_after(segment, end)[:limit]
            if rest:
                return Continuation(self.source, rest, (INSIDE,) * len(rest))
        fresh = [segment for segment, kept_at in self._segments if kept_at == self._num_verified - 1]
        if branch or not fresh:
            return None
        return Continuation(self.source, fresh[-1][:limit], (AT_ONCE,) * len(fresh[-1][:limit]))


def _rest_after(segment: tuple[int, ...], end: Sequence[int]) -> tuple[int, ...]:
    """Return what follows the end of `end` in a segment, matched by two tokens or else by one."""
    for size in (2, 1):
        tail = tuple(end[-size:])
        for start in range(len(segment) - size):
            if len(tail) == size and segment[start : start + size] == tail:
                return segment[start + size :]
    return ()
