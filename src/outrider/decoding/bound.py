"""The most tokens per second that a schedule can write which ends its verifications, one after the other.

A Markov decision process (Howard 1971) whose only state is how long drafts of the right branch have been made
that now lie at the cloud. The edge knows at once which hints are true and, once it needs them, which of its
second choices were worth a draft; its bytes are free, and the cloud verifies a whole tree in one forward.
What remains are the four times that nobody can hide: drafts are made one after the other, a second choice's
beside the first costs its part of a forward, a verification takes what it takes, and an outcome that neither
a drafted choice nor a hint names must cross the link before it can be drafted on. One that gives up
verifications (`decoding.aim`) is not bound by it.

A forward drafts what follows some nodes of the tree, both choices of each. A tree of some depth that was
drafted after `beside` nodes off its first choices takes depth + branch_cost * beside tokens' time at the
least: its depth must be as many forwards, and each further node is a further prefix in one of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np

from outrider.decoding.theory import expected_tokens

_STEPS_PER_TOKEN = 20
_MAX_SWEEPS = 100
ALMOST_SURE = 1.0 - 1e-6
BESIDE = (0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 18, 22, 27, 33, 40)
"""After how many nodes off its first choices a tree may be drafted. Each is charged for so many and has one
less than the next; the last has all there are.
"""


@dataclass(frozen=True)
class Conditions:
    """Times in seconds. `acceptance_rate`: of a first choice; `second_choice`: the share of the rest that the
    second takes. `foretold`: for each exit the chance that it, but none before it, names a position's token;
    `exit_fractions`: when in a verification it speaks. `branch_cost`: the share of a draft token's time, at
    most 1, that a further prefix adds to a forward.
    """

    draft_token_s: float
    step_s: float
    verify_s: float
    round_trip_s: float
    acceptance_rate: float
    second_choice: float
    foretold: tuple[float, ...] = ()
    exit_fractions: tuple[float, ...] = ()
    branch_cost: float = 0.0


def best_tokens_per_s(conditions: Conditions, longest: int) -> float:
    """The rate of the best schedule that verifies at most `longest` tokens of a branch at a time.

    Never too low: states are rounded up to a twentieth of a token, and the tree that a verification reads and
    the one that foresees its outcome are each the best of their size.
    """
    process = _Process(conditions, longest)
    policy = np.zeros(process.num_states, dtype=np.int64)
    rate = 0.0
    for _ in range(_MAX_SWEEPS):
        rate, values = process.evaluate(policy)
        better = process.improve(rate, values, policy)
        if np.array_equal(better, policy):
            break
        policy = better
    return rate


class _Choice(NamedTuple):
    """Verify a tree of this depth (0: a step), and what that is to yield. `needed`: what must lie at the
    cloud, in draft tokens' time; `used`: what is gone where the outcome is foreseen.
    """

    depth: int
    tokens: float
    needed: float
    used: float
    foreseen: float


class _Process:
    """States: time spent on drafts that lie at the cloud, in draft tokens, from a round trip yet to come up.

    Actions: the choices, and last to wait for one state more.
    """

    def __init__(self, conditions: Conditions, longest: int) -> None:
        # A last doubt, so that every schedule is surprised now and then and has one rate from all states.
        given = replace(
            conditions,
            acceptance_rate=min(conditions.acceptance_rate, ALMOST_SURE),
            second_choice=min(conditions.second_choice, ALMOST_SURE),
        )
        self._wait_s = given.draft_token_s / _STEPS_PER_TOKEN
        self._lowest = -given.round_trip_s / given.draft_token_s
        highest = longest + given.branch_cost * BESIDE[-1]
        self.num_states = math.ceil((highest - self._lowest) * _STEPS_PER_TOKEN) + 1
        ready = self._lowest + np.arange(self.num_states) / _STEPS_PER_TOKEN
        choices = list(_choices(given, longest))
        self._tokens = np.array([one.tokens for one in choices])
        self._foreseen = np.array([one.foreseen for one in choices])
        self._is_step = np.array([one.depth == 0 for one in choices])
        self._seconds = np.where(self._is_step, given.step_s, given.verify_s)
        needed = np.array([one.needed for one in choices])
        self._allowed = self._is_step[:, None] | (ready >= needed[:, None] - 1e-9)
        left = self._seconds / given.draft_token_s - np.array([one.used for one in choices])
        self._after = self._states(ready + left[:, None])
        self._known = [
            [
                (chance, int(self._states(np.array(known_s / given.draft_token_s + self._lowest))))
                for chance, known_s in _known_before(given, duration_s)
            ]
            for duration_s in (given.verify_s, given.step_s)
        ]
        """Of verifications and of steps: with what chance an exit, or the verdict, leads to a state."""

    def evaluate(self, policy: np.ndarray) -> tuple[float, np.ndarray]:
        """Tokens per second of a policy, and what each state is worth beyond that, in tokens."""
        size = self.num_states
        system, gains = np.zeros((size + 1, size + 1)), np.zeros(size + 1)
        states = np.arange(size)
        system[states, states] = 1.0
        waiting = policy == len(self._tokens)
        system[states[waiting], np.minimum(states[waiting] + 1, size - 1)] -= 1.0
        system[states[waiting], size] = self._wait_s
        acting, chosen = states[~waiting], policy[~waiting]
        gains[acting] = self._tokens[chosen]
        system[acting, size] = self._seconds[chosen]
        for is_step, known in enumerate(self._known):
            of_kind = self._is_step[chosen] == is_step
            rows, action = acting[of_kind], chosen[of_kind]
            foreseen, after = self._foreseen[action], self._after[action, rows]
            for chance, state in known:
                system[rows, np.maximum(after, state)] -= chance * foreseen
                system[rows, state] -= chance * (1.0 - foreseen)
        system[size, size - 1] = 1.0
        solved = np.linalg.solve(system, gains)
        return float(solved[size]), solved[:size]

    def improve(self, rate: float, values: np.ndarray, policy: np.ndarray) -> np.ndarray:
        """The best action of each state against these values; the present one where none is better."""
        kind, states = self._is_step.astype(np.int64), np.arange(self.num_states)
        surprised = [sum(chance * values[state] for chance, state in known) for known in self._known]
        foreseen = [
            sum(chance * values[np.maximum(states, state)] for chance, state in known)
            for known in self._known
        ]
        otherwise = (1.0 - self._foreseen) * np.array(surprised)[kind]
        gained = self._tokens - rate * self._seconds + otherwise
        worth = gained[:, None] + self._foreseen[:, None] * np.array(foreseen)[kind[:, None], self._after]
        waited = np.append(values[1:] - rate * self._wait_s, -np.inf)
        worth = np.vstack([np.where(self._allowed, worth, -np.inf), waited])
        best = worth.argmax(0)
        return np.where(worth[best, states] > worth[policy, states] + 1e-9, best, policy)

    def _states(self, ready: np.ndarray) -> np.ndarray:
        index = np.ceil((ready - self._lowest) * _STEPS_PER_TOKEN - 1e-6)
        return np.clip(index, 0, self.num_states - 1).astype(np.int64)


def _choices(given: Conditions, longest: int) -> Iterable[_Choice]:
    """Every depth with every size of the tree that is verified and of the one that foresees the outcome."""
    for depth in range(longest + 1):
        tokens, foreseen = tree_tokens(given, depth), tree_foresight(given, depth)
        sizes = range(len(BESIDE)) if depth else range(1)
        for size, whole in combinations_with_replacement(range(len(BESIDE)), 2):
            if size in sizes:
                needed = depth + given.branch_cost * BESIDE[size]
                used = depth + 1 + given.branch_cost * BESIDE[whole]
                yield _Choice(depth, tokens[size], needed, used, foreseen[whole])


def tree_tokens(given: Conditions, depth: int) -> list[float]:
    """For each of `BESIDE` the tokens that a verification of the best such tree yields on average."""
    first, second = _chances(given)
    nodes = [
        (1, first ** (at - beside) * second**beside, math.comb(at, beside))
        for at in range(1, depth)
        for beside in range(1, at + 1)
    ]
    if depth == 0:
        return [1.0] * len(BESIDE)
    chain = expected_tokens(first, depth - 1)
    return [1.0 + (first + second) * (chain + gain) for gain in _most(nodes)]


def tree_foresight(given: Conditions, depth: int) -> list[float]:
    """For each of `BESIDE` the chance at most that such a tree, one deeper, holds a verification's outcome.

    A last node whose path has one second choice shares none beside the first choices with other such nodes;
    one with more has at least itself.
    """
    first, second = _chances(given)
    last = [(length, first ** (depth - 1) * second, 1) for length in range(1, depth + 1)]
    last += [
        (1, first ** (depth - beside) * second**beside, math.comb(depth, beside))
        for beside in range(2, depth + 1)
    ]
    return [(first + second) * (first**depth + gain) for gain in _most(last)]


def _chances(given: Conditions) -> tuple[float, float]:
    """Of the likelier and of the other choice; beside one another they are drafted in this order."""
    other = (1.0 - given.acceptance_rate) * given.second_choice
    return max(given.acceptance_rate, other), min(given.acceptance_rate, other)


def _most(items: Sequence[tuple[int, float, int]]) -> list[float]:
    """The most worth that fits into each of `BESIDE`, parts of items allowed. Items: size, worth, number."""
    dearest = sorted(items, key=lambda item: -item[1] / item[0])
    sizes = np.cumsum([0, *(size * number for size, _, number in dearest)])
    worths = np.cumsum([0.0, *(worth * number for _, worth, number in dearest)])
    room = [*(following - 1 for following in BESIDE[1:]), math.inf]
    return [float(worth) for worth in np.interp(room, sizes, worths)]


def _known_before(given: Conditions, duration_s: float) -> Sequence[tuple[float, float]]:
    """How long before the end of a verification its outcome was known for sure, each with its chance."""
    hinted = [
        (chance, duration_s * (1.0 - fraction))
        for chance, fraction in zip(given.foretold, given.exit_fractions, strict=True)
    ]
    return [*hinted, (1.0 - sum(given.foretold), 0.0)]
