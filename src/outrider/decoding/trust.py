"""How far early exits are believed, and what one says about the outcome of the running verification."""

from __future__ import annotations

from collections.abc import Sequence
from operator import eq
from typing import Literal

from outrider.decoding.estimates import MEMORY, PRIOR_TRIALS
from outrider.decoding.jobs import ExitHint, Judgement

SURE = 0.85
LONGEST_RUN = 5
"""Exits in a row that say the same; more of them are worth no more."""
Stance = Literal["agrees", "differs", "overruled", "free"]


class Trust:
    """How the word of early exits on one position has fared; apart where the exit was sure, by its stance,
    and by how many exits in a row had said the same: what changes no more is most likely what the last layer
    says (the patience of Zhou et al. 2020, "BERT loses patience").

    `agrees`: it says what the draft says. `differs`: it says something else, and is right. `overruled`: it
    says something else, and the draft is right. `free`: there is no draft.
    """

    def __init__(self) -> None:
        self._right_of: dict[tuple[bool, Stance, int], tuple[float, float]] = {}
        """How often right, of how many trials."""

    def on_outcome(self, confidence: float, stance: Stance, run: int, right: bool) -> None:
        key = confidence >= SURE, stance, run if run < LONGEST_RUN else LONGEST_RUN
        rights, trials = self._right_of.get(key, (0.0, 0.0))
        self._right_of[key] = MEMORY * rights + right, MEMORY * trials + 1.0

    def chance(self, confidence: float, stance: Stance, run: int) -> float:
        """The chance of that stance to be right; at first half of what the exit takes itself to be worth."""
        key = confidence >= SURE, stance, run if run < LONGEST_RUN else LONGEST_RUN
        rights, trials = self._right_of.get(key, (0.0, 0.0))
        return (rights + PRIOR_TRIALS * confidence / 2.0) / (trials + PRIOR_TRIALS)

    def outcomes(
        self,
        hint: ExitHint,
        runs: Sequence[int],
        draft: Sequence[int],
        known: int = 0,
        known_chance: float = 1.0,
    ) -> list[tuple[tuple[int, ...], float]]:
        """How the verification of a draft may end, as an exit sees it, each with its chance.

        Where the exit contradicts the draft either may be right. `runs`: of `runs_of`. A deeper exit has said
        before that the first `known` tokens stand, with that chance.
        """
        ends, alive, drafted = [], known_chance, len(draft)
        for at in range(known, len(hint.choices)):
            token, confidence, run = hint.choices[at], hint.confidences[at], runs[at]
            if at == drafted:
                ends.append(((*draft, token), alive * self.chance(confidence, "free", run)))
            elif token == draft[at]:
                alive *= self.chance(confidence, "agrees", run)
            else:
                ends.append(((*draft[:at], token), alive * self.chance(confidence, "differs", run)))
                alive *= self.chance(confidence, "overruled", run)
        return ends

    def on_judged(
        self,
        hint: ExitHint,
        runs: Sequence[int],
        draft: Sequence[int],
        judgement: Judgement,
        known: int = 0,
    ) -> None:
        """Compare what an exit said with what came; beyond the first rejection nothing is known, and of the
        first `known` tokens it has been learnt already.
        """
        accepted, drafted = judgement.accepted, len(draft)
        for at in range(known, min(len(hint.choices), accepted + 1)):
            token, confidence, run, stood = hint.choices[at], hint.confidences[at], runs[at], at < accepted
            right = not stood and token == judgement.next_token
            if at == drafted:
                self.on_outcome(confidence, "free", run, right)
            elif token == draft[at]:
                self.on_outcome(confidence, "agrees", run, stood)
            else:
                self.on_outcome(confidence, "overruled", run, stood)
                self.on_outcome(confidence, "differs", run, right)


def runs_of(hint: ExitHint, before: Sequence[tuple[ExitHint, tuple[int, ...]]]) -> tuple[int, ...]:
    """For how many exits in a row each position has had its choice; `before`: hints heard so far, each with
    its runs, the last of them the exit before or of a verification that was given up.
    """
    last, runs = before[-1] if before else (hint, ())
    if last.exit >= hint.exit or len(runs) != len(hint.choices):
        return (1,) * len(hint.choices)
    same = map(eq, hint.choices, last.choices)
    return tuple([run + 1 if stays else 1 for run, stays in zip(runs, same, strict=True)])
