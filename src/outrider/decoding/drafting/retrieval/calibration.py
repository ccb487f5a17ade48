# SPDX-License-Identifier: Apache-2.0
"""In-context distribution calibration (sd.npu, section 4.3): retrieved tokens give way to those that a model
would rather write, as the logits of its prefill tell.

The paper samples a successor of each prompt token from those logits, looks for it in the context, and expands
it by its own logits. Here a copy follows the context; at each token it may take the model's choice instead,
and goes on at the first place ahead that the model expects after it. Whether it does is learnt: where choice
and context differ, the record of which of them the target wrote decides.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from outrider.core.values import Successors

WINDOW = 8
"""How far ahead in the context a copy looks for where to go on."""
PRIOR_TRIALS = 4.0
CONTEXT_GUESS = 0.6
"""How often the context is taken to be right where the model would rather write another token, before any
such place has been seen; the model's choice is taken at its probability.
"""
GRADES = 4
SURE, SURE_GUESS = 0.25, 0.4
"""Of a tree: the probability from which on a choice is a branch, and how often it is taken to be right before
any has been seen.
"""
OTHER, OTHER_GUESS = 0.15, 0.3
"""The same of the choices after the first; the guess is a part of their probability."""
HELD_GRADES = (0.0, 0.1, 0.5)
"""Of a token of the context: by the probability that a model gave it there, the least of each grade."""


class Rival(NamedTuple):
    """What a model may write where the context holds another token. `grade`: of its probability and its place
    among the choices; `guess`: how likely it is right before any of its grade has been seen.
    """

    token: int
    grade: int
    guess: float


class Turn(NamedTuple):
    """The model's choice where the context holds another token: how likely right, and where to go on."""

    token: int
    chance: float
    at: int


class Calibration:
    """The model's choices for the tokens of a store of texts, by index, and what they proved worth."""

    def __init__(self) -> None:
        self._after: dict[int, tuple[Sequence[int], Sequence[float]]] = {}
        self._latest: dict[int, int] = {}
        self._record: dict[tuple[int, int], list[float]] = {}
        self._rivals: dict[int, tuple[Rival, ...]] = {}
        self._held: dict[int, int] = {}
        self._worth: dict[tuple[int, int], tuple[float, float]] = {}
        """By the rank of a place and the grade of a rival: how often it was right, of how often."""

    def add(self, tokens: Sequence[int], end: int, successors: Successors) -> None:
        """What was expected after the last of a prompt's `tokens`, the index after which is `end`."""
        for offset in range(1, min(len(tokens), len(successors.ids)) + 1):
            ids, probs = successors.ids[-offset], successors.probs[-offset]
            at = end - offset + 1
            self._after[at - 1] = ids, probs
            self._rivals[at] = tuple(_rivals(ids, probs))
            if offset > 1:
                self._held[at] = _held_grade(tokens[1 - offset], ids, probs)
        for index in range(end - len(tokens), end):
            self._latest[tokens[index - end]] = index

    def turn(self, at: int, ahead: Sequence[int]) -> Turn | None:
        """What to write instead of ahead[0], the context's token at an index; None for nothing.

        `ahead`: the context from there on, WINDOW tokens at most.
        """
        disagreement = self._disagreement(at, ahead[0])
        if disagreement is None:
            return None
        token, key = disagreement
        context, choice = self._rates(key)
        return Turn(token, choice, at + (self.skip(token, ahead) or 1)) if choice > context else None

    def rivals(self, at: int, context: int) -> list[Rival]:
        """What the model may write rather than the context's token at an index."""
        return [rival for rival in self._rivals.get(at, ()) if rival.token != context]

    def held(self, at: int) -> int:
        """How likely the model held the context's token at an index: a grade from 1; 0 where none read it."""
        return self._held.get(at, 0)

    def chance(self, rank: int, rival: Rival) -> float:
        """How likely a rival is right; `rank`: that of its place among those that may go on here."""
        right, trials = self._worth.get((rank, rival.grade), (0.0, 0.0))
        return (right + PRIOR_TRIALS * rival.guess) / (trials + PRIOR_TRIALS)

    def learn_rival(self, rank: int, rival: Rival, is_right: bool) -> None:
        """It was written or not, for the use of `chance`."""
        right, trials = self._worth.get((rank, rival.grade), (0.0, 0.0))
        self._worth[rank, rival.grade] = right + is_right, trials + 1.0

    def learn(self, at: int, context: int, written: int) -> None:
        """The target wrote this where the context holds that."""
        disagreement = self._disagreement(at, context)
        if disagreement is not None:
            token, key = disagreement
            record = self._record.setdefault(key, [0.0, 0.0, 0.0])
            record[0] += written == context
            record[1] += written == token
            record[2] += 1.0

    def _disagreement(self, at: int, context: int) -> tuple[int, tuple[int, int]] | None:
        """The model's choice where it is not the context's token, and what to look up its record by."""
        ids, probs = self._after.get(at - 1, ((), ()))
        if not ids or ids[0] == context:
            return None
        held = probs[ids.index(context)] if context in ids else 0.0
        return ids[0], (int(GRADES * probs[0]), int(GRADES * held / probs[0]))

    def _rates(self, key: tuple[int, int]) -> tuple[float, float]:
        """How often the context has been right, and how often the choice; the guesses count in."""
        context, choice, trials = self._record.get(key, (0.0, 0.0, 0.0))
        guess, total = min(1.0, (key[0] + 0.5) / GRADES), trials + PRIOR_TRIALS
        return (context + PRIOR_TRIALS * CONTEXT_GUESS) / total, (choice + PRIOR_TRIALS * guess) / total

    def skip(self, token: int, ahead: Sequence[int]) -> int | None:
        """How many tokens of the context to pass over for a choice.

        Up to and with the choice itself where it comes soon; else up to what is expected after it; else
        nothing tells.
        """
        if token in ahead[1:]:
            return ahead.index(token, 1) + 1
        expected, _ = self._after.get(self._latest.get(token, -1), ((), ()))
        places = [place for place in range(1, len(ahead)) if ahead[place] in expected]
        return places[0] if places else None


def _rivals(ids: Sequence[int], probs: Sequence[float]) -> Iterator[Rival]:
    """The choices that are likely enough for branches; the first one's grades come before the others'."""
    for rank, (token, prob) in enumerate(zip(ids, probs, strict=True)):
        if rank == 0 and prob >= SURE:
            yield Rival(token, int(GRADES * prob), SURE_GUESS)
        elif rank and prob >= OTHER:
            yield Rival(token, GRADES + 1 + int(GRADES * prob), OTHER_GUESS * prob)


def _held_grade(token: int, ids: Sequence[int], probs: Sequence[float]) -> int:
    """1 for a token that is none of the choices."""
    return 1 + bisect_right(HELD_GRADES, probs[ids.index(token)]) if token in ids else 1
