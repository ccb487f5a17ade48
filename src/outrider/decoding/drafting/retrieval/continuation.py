# SPDX-License-Identifier: Apache-2.0
"""The port for sources of retrieved drafts, and the record of how far each source's beliefs hold."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol

MEMORY = 0.98
PRIOR_TRIALS = 4.0
GRADES = [1.0 - 2.0 ** (-grade / 2) for grade in range(1, 17)]
"""The lower bounds of the grades of belief but the first: two grades per halving of the doubt."""


@dataclass(frozen=True)
class Continuation:
    """A proposed continuation from one `source`.

    `beliefs[i]`: the source's probability that tokens[i] is right, given that those before it are.
    """

    source: str
    tokens: tuple[int, ...]
    beliefs: tuple[float, ...]


class Drafter(Protocol):
    """Proposes how a text continues. Takes microseconds; uses no model, clock or I/O.

    A text is a prompt and the tokens of its answer that are final. What a drafter holds may be sent to the
    verifier, so give it only what may leave the robot.
    """

    source: str

    def begin(self, prompt: Sequence[int]) -> None:
        """Start a new text with this prompt and an empty answer."""

    def extend(self, tokens: Sequence[int]) -> None:
        """Append tokens of the answer that are final now."""

    def propose(self, branch: Sequence[int], limit: int) -> Continuation | None:
        """Return a continuation of the text and `branch` with 1 to `limit` tokens, or None."""

    def forget(self) -> None:
        """Drop all earlier text; the next call is `begin`."""


class KindRates:
    """By kind and grade of belief, the share of tokens that were right: what such a belief is worth.

    It is a mean with exponential forgetting whose prior is the belief itself. A kind is any label that
    separates statistics.
    """

    def __init__(self) -> None:
        self._outcomes: dict[tuple[Hashable, int], tuple[float, float]] = {}

    def learn(self, kind: Hashable, belief: float, is_right: bool) -> None:
        """Record whether a token with this belief was right."""
        key = kind, _grade(belief)
        right, trials = self._outcomes.get(key, (0.0, 0.0))
        self._outcomes[key] = MEMORY * right + is_right, MEMORY * trials + 1.0

    def chance(self, kind: Hashable, belief: float) -> float:
        """Return the chance that a token is right, given that those before it are."""
        right, trials = self._outcomes.get((kind, _grade(belief)), (0.0, 0.0))
        return (right + PRIOR_TRIALS * belief) / (trials + PRIOR_TRIALS)


class Credit(KindRates):
    """The observed reliability of each source's beliefs."""

    def on_outcome(self, proposed: Continuation, written: Sequence[int]) -> None:
        """Learn from what the target wrote in place of a proposal, up to and with the first difference."""
        for token, belief, truth in zip(proposed.tokens, proposed.beliefs, written, strict=False):
            self.learn(proposed.source, belief, token == truth)
            if token != truth:
                return


def _grade(belief: float) -> int:
    return bisect_right(GRADES, belief)
