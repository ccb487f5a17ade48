# SPDX-License-Identifier: Apache-2.0
"""Parameters with which the synthetic models show a measured acceptance, second choice and exits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from outrider.core.errors import ConfigError

NUM_CHOICES = 15
"""Tokens that the models choose from; the end token is not among them and is never chosen."""


def draft_row(confidence: float, second_choice: float) -> list[float]:
    """Return probabilities by rank; the end token gets none."""
    second = (1.0 - confidence) * second_choice
    others = (1.0 - confidence - second) / (NUM_CHOICES - 2)
    return [confidence, second] + [others] * (NUM_CHOICES - 2)


def draft_confidence(acceptance_rate: float, second_choice: float, sampled: bool) -> float:
    """Return the draft's confidence at which a token is accepted with this rate.

    Greedy: the rate itself. Sampled: draft and target choose independently from the draft's calibrated row,
    so the rate is the sum of that row's squares. Raises ConfigError for a rate below that of a flat row.
    """
    if not sampled:
        return acceptance_rate
    low, high = 1.0 / NUM_CHOICES, 1.0
    if not _sum_of_squares(low, second_choice) <= acceptance_rate <= 1.0:
        raise ConfigError(f"no calibrated draft reaches acceptance_rate={acceptance_rate:.3f} when sampled")
    for _ in range(50):
        middle = (low + high) / 2.0
        too_low = _sum_of_squares(middle, second_choice) < acceptance_rate
        low, high = (middle, high) if too_low else (low, middle)
    return high


def second_choice_rate(confidence: float, second_choice: float, sampled: bool) -> float:
    """Return how often the draft's second choice is the target's token, given that its first is not.

    Sampled: the draft draws both without replacement, the target independently from the same row.
    """
    if not sampled:
        return second_choice
    row = draft_row(confidence, second_choice)
    both = sum(
        own * first * own / (1.0 - first)
        for rank, own in enumerate(row)
        for other, first in enumerate(row)
        if other != rank
    )
    return both / (1.0 - sum(weight * weight for weight in row))


def exit_agreement(
    acceptance_rate: float, num_draft_tokens: int, num_exits: int, miss_rate: float, average_exit: float
) -> tuple[float, ...]:
    """Return the probability, per exit, that it agrees with the target at a position.

    They are chosen so that in a share `miss_rate` of the rounds no exit predicts the outcome, and in the
    others the first exit to predict it is on average number `average_exit` (from 1). An exit predicts the
    outcome of a round if it agrees at every position that the round decides. The probabilities rise with
    depth as 1 - decay^exit.
    """
    ceiling = _solve(lambda chance: _predicted(chance, acceptance_rate, num_draft_tokens), 1.0 - miss_rate)
    # The faster the probabilities rise, the earlier the first exit: the average falls as `steepness` grows.
    steepness = _solve(
        lambda value: -_average_exit(_chances(ceiling, value, num_exits), acceptance_rate, num_draft_tokens),
        -average_exit,
    )
    return _chances(ceiling, steepness, num_exits)


def _chances(ceiling: float, steepness: float, num_exits: int) -> tuple[float, ...]:
    decay = max(1.0 - steepness, 1e-9)
    if decay > 1.0 - 1e-9:
        return tuple(ceiling * (number + 1) / num_exits for number in range(num_exits))
    full = 1.0 - decay**num_exits
    return tuple(ceiling * (1.0 - decay ** (number + 1)) / full for number in range(num_exits))


def _predicted(chance: float, acceptance_rate: float, num_draft_tokens: int) -> float:
    """Return the probability that all positions of a round are predicted, each with probability `chance`."""
    stopped = sum(
        acceptance_rate ** (count - 1) * (1.0 - acceptance_rate) * chance**count
        for count in range(1, num_draft_tokens + 1)
    )
    return stopped + acceptance_rate**num_draft_tokens * chance ** (num_draft_tokens + 1)


def _average_exit(chances: Sequence[float], acceptance_rate: float, num_draft_tokens: int) -> float:
    predicted = [_predicted(chance, acceptance_rate, num_draft_tokens) for chance in chances]
    later = [1.0 - share / predicted[-1] for share in predicted[:-1]]
    return 1.0 + sum(later)


def _solve(rising: Callable[[float], float], wanted: float) -> float:
    """Return where a function that rises on 0 to 1 reaches a value; the nearer end if it does not."""
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2.0
        low, high = (middle, high) if rising(middle) < wanted else (low, middle)
    return (low + high) / 2.0


def _sum_of_squares(confidence: float, second_choice: float) -> float:
    return sum(weight * weight for weight in draft_row(confidence, second_choice))
