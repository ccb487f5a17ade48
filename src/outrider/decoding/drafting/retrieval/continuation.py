# SPDX-License-Identifier: Apache-2.0
"""The port through which sources of retrieved drafts are asked, and how far each is to be believed."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol

MEMORY = 0.98
PRIOR_TRIALS = 4.0
GRADES = [1.0 - 2.0 ** (-grade / 2) for grade in range(1, 17)]
"""Beliefs by their doubt, two grades for each halving of it: the least belief of each grade but the first."""


@dataclass(frozen=True)
class Continuation:
    """What may come next, by one `source`. `beliefs[i]`: how likely it takes tokens[i] to be, those before it
    being right.
    """

    source: str
    tokens: tuple[int, ...]
    beliefs: tuple[float, ...]


class Drafter(Protocol):
    """Proposes how a text goes on. Takes microseconds; no model, clock or I/O inside.

    A text is a prompt and what is final of its answer. What it holds may be sent to the verifier, so it is
    to be given only what may leave the robot.
    """

    source: str

    def begin(self, prompt: Sequence[int]) -> None:
        """Another text, with nothing answered yet."""

    def extend(self, tokens: Sequence[int]) -> None:
        """More of the answer is final."""

    def propose(self, branch: Sequence[int], limit: int) -> Continuation | None:
        """What may follow the text and `branch`: 1 to `limit` tokens, or None."""

    def forget(self) -> None:
        """Nothing of any earlier text is kept; the next event is `begin`."""


class KindOdds:
    """What the beliefs of kinds have proved to be worth: of those alike, the share that came true.

    A mean with fading memory, begun with the belief itself. A kind is what beliefs are told apart by.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[Hashable, int], tuple[float, float]] = {}

    def learn(self, kind: Hashable, belief: float, is_right: bool) -> None:
        """A token that was so believed in was right, or wrong."""
        key = kind, _grade(belief)
        right, trials = self._seen.get(key, (0.0, 0.0))
        self._seen[key] = MEMORY * right + is_right, MEMORY * trials + 1.0

    def chance(self, kind: Hashable, belief: float) -> float:
        """The chance that a token is right, those before it being right."""
        right, trials = self._seen.get((kind, _grade(belief)), (0.0, 0.0))
        return (right + PRIOR_TRIALS * belief) / (trials + PRIOR_TRIALS)


class Credit(KindOdds):
    """What the beliefs of each source have proved to be worth."""

    def on_outcome(self, proposed: Continuation, written: Sequence[int]) -> None:
        """The target wrote this where that was proposed; nothing is learnt past the first difference."""
        for token, belief, truth in zip(proposed.tokens, proposed.beliefs, written, strict=False):
            self.learn(proposed.source, belief, token == truth)
            if token != truth:
                return


def _grade(belief: float) -> int:
    return bisect_right(GRADES, belief)
