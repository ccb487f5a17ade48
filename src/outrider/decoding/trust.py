"""How far an early exit is believed, and what it says about the outcome of the running verification."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from outrider.decoding.estimates import MEMORY, PRIOR_TRIALS
from outrider.decoding.jobs import ExitHint, Judgement

SURE = 0.85
Stance = Literal["agrees", "differs", "overruled", "free"]


class Trust:
    """How an early exit's word on one position has fared; apart where it was sure, and by its stance.

    `agrees`: it says what the draft says. `differs`: it says something else, and is right. `overruled`: it
    says something else, and the draft is right. `free`: there is no draft.
    """

    def __init__(self) -> None:
        self._right_of: dict[tuple[int, bool, Stance], tuple[float, float]] = {}
        """How often right, of how many trials."""

    def on_outcome(self, exit_index: int, confidence: float, stance: Stance, right: bool) -> None:
        key = exit_index, confidence >= SURE, stance
        rights, trials = self._right_of.get(key, (0.0, 0.0))
        self._right_of[key] = MEMORY * rights + right, MEMORY * trials + 1.0

    def chance(self, exit_index: int, confidence: float, stance: Stance) -> float:
        """The chance of that stance to be right; at first half of what the exit takes itself to be worth."""
        rights, trials = self._right_of.get((exit_index, confidence >= SURE, stance), (0.0, 0.0))
        return (rights + PRIOR_TRIALS * confidence / 2.0) / (trials + PRIOR_TRIALS)

    def outcomes(self, hint: ExitHint, draft: Sequence[int]) -> Iterator[tuple[tuple[int, ...], float]]:
        """How the verification of a draft may end, as an exit sees it, each with its chance.

        Where the exit contradicts the draft either may be right.
        """
        alive = 1.0
        for at, (token, confidence) in enumerate(zip(hint.choices, hint.confidences, strict=True)):
            stance = _stance(token, draft, at)
            chance = self.chance(hint.exit, confidence, stance)
            if stance != "agrees":
                yield (*draft[:at], token), alive * chance
                chance = self.chance(hint.exit, confidence, "overruled")
            alive *= chance

    def on_judged(self, hint: ExitHint, draft: Sequence[int], judgement: Judgement) -> None:
        """Compare what an exit said with what came; beyond the first rejection nothing is known."""
        for at in range(min(judgement.accepted + 1, len(hint.choices))):
            token, confidence, stance = (
                hint.choices[at],
                hint.confidences[at],
                _stance(hint.choices[at], draft, at),
            )
            stood = at < judgement.accepted
            if stance == "differs":
                self.on_outcome(hint.exit, confidence, "overruled", stood)
            right = stood if stance == "agrees" else not stood and token == judgement.next_token
            self.on_outcome(hint.exit, confidence, stance, right)


def _stance(token: int, draft: Sequence[int], at: int) -> Stance:
    if at == len(draft):
        return "free"
    return "agrees" if token == draft[at] else "differs"
