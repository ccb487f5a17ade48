# SPDX-License-Identifier: Apache-2.0
"""In-context distribution calibration (sd.npu, section 4.3): replaces retrieved tokens by those that a
model prefers, according to the logits of its prefill.

The paper samples a successor of each prompt token from those logits, looks for it in the context, and
expands it by its own logits. Here a copy follows the context. At each token it may take the model's choice
instead and then continue at the next position in the context that the model expects after that choice.
Whether it does is learnt from the cases where choice and context differed: which of the two did the target
write?
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from outrider.core.values import Successors

WINDOW = 8
"""How many tokens ahead in the context a copy looks for the position to continue at."""
PRIOR_TRIALS = 4.0
CONTEXT_GUESS = 0.6
"""The prior rate at which the context is right where the model prefers another token. The prior of the
model's choice is its probability.
"""
GRADES = 4
SURE, SURE_GUESS = 0.25, 0.4
"""For a tree: the least probability at which a model's first choice becomes a branch, and its prior rate of
being right.
"""
OTHER, OTHER_GUESS = 0.15, 0.3
"""The same for the other choices; their prior rate is this factor times their probability."""
HELD_GRADES = (0.0, 0.1, 0.5)
"""Lower bounds of the grades of the probability that the model gave a context token."""


class Rival(NamedTuple):
    """A token that a model may write where the context holds another one.

    `grade`: of its probability, separate for first choices; `guess`: the prior rate at which it is right.
    """

    token: int
    grade: int
    guess: float


class Substitute(NamedTuple):
    """The model's choice where the context holds another token, its chance, and the index to continue at."""

    token: int
    chance: float
    at: int


class Calibration:
    """The model's choices for the tokens of a store of texts, by index, and how often they were right."""

    def __init__(self) -> None:
        self._after: dict[int, tuple[Sequence[int], Sequence[float]]] = {}
        self._latest: dict[int, int] = {}
        self._record: dict[tuple[int, int], list[float]] = {}
        self._rivals: dict[int, tuple[Rival, ...]] = {}
        self._held: dict[int, int] = {}
        self._worth: dict[tuple[int, int], tuple[float, float]] = {}
        """By the rank of a position and the grade of a rival: how often it was right, in how many trials."""

    def add(self, tokens: Sequence[int], end: int, successors: Successors) -> None:
        """Store the model's expectations at the last of a prompt's `tokens`;
        `end` is the index after the prompt.
        """
        for offset in range(1, min(len(tokens), len(successors.ids)) + 1):
            ids, probs = successors.ids[-offset], successors.probs[-offset]
            at = end - offset + 1
            self._after[at - 1] = ids, probs
            self._rivals[at] = tuple(_rivals(ids, probs))
            if offset > 1:
                self._held[at] = _held_grade(tokens[1 - offset], ids, probs)
        for index in range(end - len(tokens), end):
            self._latest[tokens[index - end]] = index

    def substitute(self, at: int, ahead: Sequence[int]) -> Substitute | None:
        """Return the model's choice to write in place of ahead[0], or None to follow the context.

        `at`: the index of ahead[0]. `ahead`: the context from there on, WINDOW tokens at most.
        """
        disagreement = self._disagreement(at, ahead[0])
        if disagreement is None:
            return None
        token, key = disagreement
        context, choice = self._rates(key)
        return Substitute(token, choice, at + (self.skip(token, ahead) or 1)) if choice > context else None

    def rivals(self, at: int, context: int) -> list[Rival]:
        """Return the tokens that the model may write in place of the context's token at an index."""
        return [rival for rival in self._rivals.get(at, ()) if rival.token != context]

    def held(self, at: int) -> int:
        """Return the grade, from 1, of the model's probability for the context's token;
        0 if no model read it.
        """
        return self._held.get(at, 0)

    def chance(self, rank: int, rival: Rival) -> float:
        """Return the chance that a rival is right.

        `rank`: that of its position among the possible continuations.
        """
        right, trials = self._worth.get((rank, rival.grade), (0.0, 0.0))
        return (right + PRIOR_TRIALS * rival.guess) / (trials + PRIOR_TRIALS)

    def learn_rival(self, rank: int, rival: Rival, is_right: bool) -> None:
        """Record whether the target wrote the rival, for `chance`."""
        right, trials = self._worth.get((rank, rival.grade), (0.0, 0.0))
        self._worth[rank, rival.grade] = right + is_right, trials + 1.0

    def learn(self, at: int, context: int, written: int) -> None:
        """Record that the target wrote `written` where the context holds `context`."""
        disagreement = self._disagreement(at, context)
        if disagreement is not None:
            token, key = disagreement
            record = self._record.setdefault(key, [0.0, 0.0, 0.0])
            record[0] += written == context
            record[1] += written == token
            record[2] += 1.0

    def _disagreement(self, at: int, context: int) -> tuple[int, tuple[int, int]] | None:
        """Return the model's choice and the key of its record, or None if it is the context's token."""
        ids, probs = self._after.get(at - 1, ((), ()))
        if not ids or ids[0] == context:
            return None
        held = probs[ids.index(context)] if context in ids else 0.0
        return ids[0], (int(GRADES * probs[0]), int(GRADES * held / probs[0]))

    def _rates(self, key: tuple[int, int]) -> tuple[float, float]:
        """Return the rates at which the context and the choice have been right, with their priors."""
        context, choice, trials = self._record.get(key, (0.0, 0.0, 0.0))
        guess, total = min(1.0, (key[0] + 0.5) / GRADES), trials + PRIOR_TRIALS
        return (context + PRIOR_TRIALS * CONTEXT_GUESS) / total, (choice + PRIOR_TRIALS * guess) / total

    def skip(self, token: int, ahead: Sequence[int]) -> int | None:
        """Return how many tokens of the context to pass over after a choice.

        Up to and including the choice itself if it occurs in `ahead`; otherwise up to a token that the
        model expects after it; None if there is neither.
        """
        if token in ahead[1:]:
            return ahead.index(token, 1) + 1
        expected, _ = self._after.get(self._latest.get(token, -1), ((), ()))
        return next((skipped for skipped in range(1, len(ahead)) if ahead[skipped] in expected), None)


def _rivals(ids: Sequence[int], probs: Sequence[float]) -> Iterator[Rival]:
    """Yield the choices that are likely enough for branches; first choices have the lower grades."""
    for rank, (token, prob) in enumerate(zip(ids, probs, strict=True)):
        if rank == 0 and prob >= SURE:
            yield Rival(token, int(GRADES * prob), SURE_GUESS)
        elif rank and prob >= OTHER:
            yield Rival(token, GRADES + 1 + int(GRADES * prob), OTHER_GUESS * prob)


def _held_grade(token: int, ids: Sequence[int], probs: Sequence[float]) -> int:
    """Return the grade of a token's probability; 1 if it is not among the choices."""
    return 1 + bisect_right(HELD_GRADES, probs[ids.index(token)]) if token in ids else 1
