# SPDX-License-Identifier: Apache-2.0
"""Reuse of rejected segments (sd.npu, section 4.4): what was right of a draft but for an earlier mistake.

Given a draft x and the target's own choices y, with the first difference at e, the longest run i > e with
x_i = y_i is what the target would have gone on with, had the text been as drafted (eq. 3). It is kept for a
few verifications and proposed again: right after the text, and wherever the text comes to stand inside it.
"""

from __future__ import annotations

from collections.abc import Sequence

from outrider.decoding.drafting.retrieval.continuation import Continuation, Drafter

LIFETIME = 3
"""Verifications that a segment is kept for."""
SHORTEST = 2
AT_ONCE, INSIDE = 0.35, 0.6
"""First beliefs: of a segment right after the rejection, and where the text has come to stand inside it."""


def longest_run(draft: Sequence[int], choices: Sequence[int]) -> tuple[int, ...]:
    """Start and end of the longest run of a draft that equals the choices, both from past the mistake on.

    Nothing where there is none of SHORTEST tokens.
    """
    best, start = (0, 0), 0
    for place, (drafted, chosen) in enumerate(zip(draft, choices, strict=True)):
        if drafted != chosen:
            start = place + 1
        elif place + 1 - start > best[1] - best[0]:
            best = start, place + 1
    return best if best[1] - best[0] >= SHORTEST else ()


class SegmentReuse(Drafter):
    """Segments of rejected drafts, each for a few verifications."""

    source = "reuse"

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self._kept: list[tuple[tuple[int, ...], int]] = []
        self._num_verified = 0
        self._last: list[int] = []

    def begin(self, prompt: Sequence[int]) -> None:
        """Segments do not outlive their text: the next one may be another's."""
        self.forget()

    def keep(self, segment: Sequence[int]) -> None:
        """A rejected draft had this run in it; to be told before the verdict's tokens are added."""
        self._kept.append((tuple(segment), self._num_verified))

    def extend(self, tokens: Sequence[int]) -> None:
        """A verification's tokens; they count as one."""
        self._num_verified += 1
        self._last = [*self._last, *tokens][-SHORTEST:]
        self._kept = [one for one in self._kept if self._num_verified - one[1] <= LIFETIME]

    def branches(self) -> list[tuple[float, tuple[int, ...]]]:
        """Every segment, the newest first, each with the belief in it: what is left of it where the text has
        come to stand inside, and all of it right after the text.
        """
        segments = [segment for segment, _ in reversed(self._kept)]
        inside = [(INSIDE, _rest_after(segment, self._last)) for segment in segments]
        return [*(one for one in inside if one[1]), *((AT_ONCE, segment) for segment in segments)]

    def propose(self, branch: Sequence[int], limit: int) -> Continuation | None:
        """The rest of the newest segment that the text has come to stand in; else all of a fresh one."""
        end = [*self._last, *branch]
        for segment, _ in reversed(self._kept):
            rest = _rest_after(segment, end)[:limit]
            if rest:
                return Continuation(self.source, rest, (INSIDE,) * len(rest))
        fresh = [segment for segment, born in self._kept if born == self._num_verified - 1]
        if branch or not fresh:
            return None
        return Continuation(self.source, fresh[-1][:limit], (AT_ONCE,) * len(fresh[-1][:limit]))


def _rest_after(segment: tuple[int, ...], end: Sequence[int]) -> tuple[int, ...]:
    """What follows the last token of `end` in a segment, where two tokens agree or else one."""
    for size in (2, 1):
        tail = tuple(end[-size:])
        for place in range(len(segment) - size):
            if len(tail) == size and segment[place : place + size] == tail:
                return segment[place + size :]
    return ()
