# SPDX-License-Identifier: Apache-2.0
"""What verifications of a pair say of it: how often drafts, second choices and early exits are right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from outrider.core.ports import ExitInfo
from outrider.evaluation.pair.exit_quality import share
from outrider.evaluation.pair.speculation import Verification


@dataclass(frozen=True)
class Acceptance:
    """Of greedy drafts: tokens a verification yields, how often the draft at each position is accepted where
    those before it are, and how often the draft's second choice is right where its first is not.
    """

    verifications: int
    tokens_per_verification: float
    by_position: tuple[float, ...]
    second_choice: float


@dataclass(frozen=True)
class ExitShares:
    """Of an exit after a layer, at this `depth` of all layers: how often its choice is the target's at the
    tokens of the verdict, and how often its hint is the whole verdict.
    """

    layer: int
    depth: float
    agreement: float
    hint_agreement: float


@dataclass(frozen=True)
class ExitPrediction:
    """`miss_rate`: verdicts that no exit predicts. `average`: the first that does, counted from 1, on
    average; None where none ever does.
    """

    miss_rate: float
    average: float | None


def acceptance_of(rounds: Sequence[Verification]) -> Acceptance:
    """The shares of some verifications; drafts that end their text have fewer positions."""
    reached: Counter[int] = Counter()
    accepted: Counter[int] = Counter()
    rescued: list[bool] = []
    for one in rounds:
        for position, (token, choice) in enumerate(zip(one.draft, one.choices, strict=False)):
            reached[position] += 1
            if token != choice:
                rescued.append(one.runners_up[position] == choice)
                break
            accepted[position] += 1
    emitted = sum(len(one.emitted) for one in rounds)
    shares = tuple(accepted[position] / reached[position] for position in sorted(reached))
    return Acceptance(len(rounds), emitted / len(rounds), shares, share(rescued))


def exit_shares(rounds: Sequence[Verification], exits: ExitInfo) -> list[ExitShares]:
    """One for each exit."""
    return [
        _of_exit(rounds, index, layer / exits.num_layers, layer) for index, layer in enumerate(exits.layers)
    ]


def _of_exit(rounds: Sequence[Verification], index: int, depth: float, layer: int) -> ExitShares:
    right = [
        choice == token
        for one in rounds
        for choice, token in zip(one.exits[index].choices, one.emitted, strict=False)
    ]
    hints = [one.exits[index].hint == one.emitted for one in rounds]
    return ExitShares(layer, depth, share(right), share(hints))


def exit_prediction(rounds: Iterable[Verification]) -> ExitPrediction:
    """How soon the exits together predict a verdict."""
    firsts = [_first_right(one) for one in rounds]
    hits = [first for first in firsts if first is not None]
    return ExitPrediction(1.0 - len(hits) / len(firsts), sum(hits) / len(hits) if hits else None)


def _first_right(one: Verification) -> int | None:
    return next((n for n, word in enumerate(one.exits, start=1) if word.hint == one.emitted), None)
