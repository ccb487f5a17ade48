# SPDX-License-Identifier: Apache-2.0
"""The most tokens per second of a schedule that finishes its verifications, one after the other.

A Markov decision process (Howard 1971). Its only state is the number of tokens of the right branch that are
at the cloud. The edge drafts on every first and second choice at once, at the cost of time alone; its bytes
are free; the cloud verifies all of them in one forward; and the edge knows at once which hints are true.
Three times remain that cannot be hidden: drafts are made one after the other, a verification takes its
time, and an outcome that neither a second choice nor a hint predicts must cross the link before it can be
drafted on. A schedule that aborts verifications (`policy.exit_predictions`) may exceed the bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from outrider.decoding.theory import expected_tokens

_STEPS_PER_TOKEN = 20
_MAX_SWEEPS = 2000
"""Far more than are needed: policies only improve, apart from rounding."""
ALMOST_SURE = 1.0 - 1e-6


@dataclass(frozen=True)
class Conditions:
    """The process's parameters. Times are in seconds.

    `acceptance_rate`: of a first choice; `second_choice`: the share of the rest that the second choice gets
    right. `predicted`: for each exit, the probability that it, and no earlier exit, predicts a position's
    token. `exit_fractions`: the part of a verification after which each exit reports.
    """

    draft_token_s: float
    step_s: float
    verify_s: float
    round_trip_s: float
    acceptance_rate: float
    second_choice: float
    predicted: tuple[float, ...] = ()
    exit_fractions: tuple[float, ...] = ()


def best_tokens_per_s(conditions: Conditions, longest: int) -> float:
    """Return the rate of the best schedule that verifies at most `longest` tokens at a time.

    The state is rounded up to a twentieth of a token. So the rate is never too low, and too high by at most
    that much per verification.
    """
    process = _Process(conditions, longest)
    policy = np.zeros(process.num_states, dtype=np.int64)
    for _ in range(_MAX_SWEEPS):
        rate, values = process.evaluate(policy)
        better = process.improve(rate, values, policy)
        if np.array_equal(better, policy):
            return rate
        policy = better
    raise ArithmeticError(f"no best schedule was found for {conditions}")


class _Process:
    """States: tokens of the right branch at the cloud, from none for a round trip to come up to `longest`.

    Action n verifies n tokens (0: a step); the last action waits for the next token.
    """

    def __init__(self, conditions: Conditions, longest: int) -> None:
        # Keep some doubt, so that every schedule is surprised at times and has one rate from all states.
        self._conditions = conditions = replace(
            conditions,
            acceptance_rate=min(conditions.acceptance_rate, ALMOST_SURE),
            second_choice=min(conditions.second_choice, ALMOST_SURE),
        )
        self._lowest = -conditions.round_trip_s / conditions.draft_token_s
        self.num_states = math.ceil((longest - self._lowest) * _STEPS_PER_TOKEN) + 1
        available = self._lowest + np.arange(self.num_states) / _STEPS_PER_TOKEN
        actions = [self._verification(available, drafted) for drafted in range(longest + 1)]
        self._actions = [*actions, self._wait(available)]
        whole = np.floor(available + 1e-9)
        self._allowed = np.array([whole >= drafted for drafted in range(longest + 1)])
        self._allowed[0] = True
        self._allowed = np.vstack([self._allowed, available < longest])

    def evaluate(self, policy: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the tokens per second of a policy, and the value of each state beyond that, in tokens."""
        size = self.num_states
        system = np.zeros((size + 1, size + 1))
        gains = np.zeros(size + 1)
        for action, (tokens, seconds, moves) in enumerate(self._actions):
            chosen = np.flatnonzero(policy == action)
            gains[chosen] = tokens
            system[chosen, chosen] += 1.0
            system[chosen, size] = seconds[chosen]
            for chance, targets in moves:
                np.add.at(system, (chosen, targets[chosen]), -chance)
        system[size, size - 1] = 1.0
        solved = np.linalg.solve(system, gains)
        return float(solved[size]), solved[:size]

    def improve(self, rate: float, values: np.ndarray, policy: np.ndarray) -> np.ndarray:
        """Return each state's best action for these values; the current one if no other is better."""
        action_values = np.full((len(self._actions), self.num_states), -np.inf)
        for action, (tokens, seconds, moves) in enumerate(self._actions):
            ahead = sum(chance * values[targets] for chance, targets in moves)
            action_values[action] = np.where(self._allowed[action], tokens - rate * seconds + ahead, -np.inf)
        best = action_values.argmax(0)
        states = np.arange(self.num_states)
        return np.where(action_values[best, states] > action_values[policy, states] + 1e-9, best, policy)

    def _verification(self, available: np.ndarray, drafted: int) -> _Action:
        """Return a verification's tokens, seconds, and next states with their probabilities."""
        conditions = self._conditions
        duration_s = conditions.verify_s if drafted else conditions.step_s
        gained = available + duration_s / conditions.draft_token_s
        rate = conditions.acceptance_rate + (1.0 - conditions.acceptance_rate) * conditions.second_choice
        foreseen = rate ** (drafted + 1)
        drafted_on = self._states(gained - drafted - 1.0)
        moves = []
        for chance, known_s in self._roots(duration_s):
            start = (known_s - conditions.round_trip_s) / conditions.draft_token_s
            known = self._states(np.full(self.num_states, start))
            # A foreseen outcome may be known for sure before it could be drafted.
            moves.append((foreseen * chance, np.maximum(drafted_on, known)))
            moves.append(((1.0 - foreseen) * chance, known))
        return expected_tokens(rate, drafted), np.full(self.num_states, duration_s), moves

    def _roots(self, duration_s: float) -> Sequence[tuple[float, float]]:
        """Return how long before a verification's end its outcome is known, with each probability."""
        conditions = self._conditions
        hinted = [
            (chance, duration_s * (1.0 - fraction))
            for chance, fraction in zip(conditions.predicted, conditions.exit_fractions, strict=True)
        ]
        return [*hinted, (1.0 - sum(conditions.predicted), 0.0)]

    def _wait(self, available: np.ndarray) -> _Action:
        until = np.maximum(np.floor(available + 1e-9) + 1.0, 1.0)
        seconds = (until - available) * self._conditions.draft_token_s
        return 0.0, seconds, [(1.0, self._states(until))]

    def _states(self, available: np.ndarray) -> np.ndarray:
        index = np.ceil((available - self._lowest) * _STEPS_PER_TOKEN - 1e-6)
        return np.clip(index, 0, self.num_states - 1).astype(np.int64)


_Action = tuple[float, np.ndarray, list[tuple[float, np.ndarray]]]
