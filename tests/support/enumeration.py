"""Exact distributions of programs that decide by a `Chance`: every branch runs and is weighted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable
from typing import TypeVar

from outrider.core.ports import Array
from outrider.decoding.acceptance.counter_rng import Purpose

Result = TypeVar("Result", bound=Hashable)


class OnePath:
    """A Chance that follows the given branches, and then always the first possible one.

    As with counter-based randomness, a repeated decision has the same result. Two different decisions must
    not share their bits.
    """

    def __init__(self, branches: list[int]) -> None:
        self.probability = 1.0
        self.taken: list[int] = []
        self.possible: list[list[int]] = []
        self._given = branches
        self._decided: dict[tuple[Purpose, int, int], tuple[list[float], int]] = {}

    def happens(self, probability: float, purpose: Purpose, position: int, index: int = 0) -> bool:
        assert 0.0 <= probability <= 1.0
        return self._branch([1.0 - probability, probability], (purpose, position, index)) == 1

    def pick(self, weights: Array, purpose: Purpose, position: int, index: int = 0) -> int:
        return self._branch((weights / weights.sum()).tolist(), (purpose, position, index))

    def _branch(self, probs: list[float], key: tuple[Purpose, int, int]) -> int:
        if key in self._decided:
            known_probs, branch = self._decided[key]
            assert known_probs == probs, f"two decisions share the bits of {key}"
            return branch
        possible = [branch for branch, prob in enumerate(probs) if prob > 0.0]
        depth = len(self.taken)
        branch = self._given[depth] if depth < len(self._given) else possible[0]
        self.taken.append(branch)
        self.possible.append(possible)
        self.probability *= probs[branch]
        self._decided[key] = probs, branch
        return branch


def outcomes(program: Callable[[OnePath], Result]) -> dict[Result, float]:
    """Returns the probability of each result of a program."""
    found: dict[Result, float] = defaultdict(float)
    pending: list[list[int]] = [[]]
    while pending:
        given = pending.pop()
        path = OnePath(given)
        found[program(path)] += path.probability
        for depth in range(len(given), len(path.taken)):
            pending += [[*path.taken[:depth], other] for other in path.possible[depth][1:]]
    return dict(found)


def texts(
    step: Callable[[tuple[int, ...], OnePath], tuple[int, ...]], length: int
) -> dict[tuple[int, ...], float]:
    """Returns the distribution of the first `length` tokens if `step` extends a text round by round."""
    done: dict[tuple[int, ...], float] = defaultdict(float)
    begun: dict[tuple[int, ...], float] = {(): 1.0}
    while begun:
        text = min(begun, key=len)
        reached = begun.pop(text)
        for tokens, prob in outcomes(lambda chance, text=text: step(text, chance)).items():
            longer = (text + tokens)[:length]
            into = done if len(longer) == length else begun
            into[longer] = into.get(longer, 0.0) + reached * prob
    return dict(done)
