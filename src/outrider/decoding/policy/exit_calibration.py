# SPDX-License-Identifier: Apache-2.0
"""How far early exits are believed, and what one says about the outcome of the running verification."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import log
from operator import eq
from typing import Literal

from outrider.decoding.jobs import ExitHint
from outrider.decoding.policy.estimators import Regression
from outrider.decoding.protocol.prefix_digest import Tokens
from outrider.decoding.tuning import DEFAULT_TUNING, AdaptiveTuning

Stance = Literal["agrees", "differs", "overruled", "free"]
OTHER_SIGNS = (0.0,) * 4
"""What the other signs weigh before it is learnt."""


@dataclass(eq=False, slots=True)
class ExitObservation:
    """What an exit said, and for each position how many exits in a row have had its choice, and how sure the
    surest of them was.
    """

    hint: ExitHint
    runs: tuple[int, ...]
    peaks: tuple[float, ...]
    tuning: AdaptiveTuning = DEFAULT_TUNING
    _signs: dict[int, tuple[float, ...]] = field(default_factory=dict)

    def signs(self, at: int) -> tuple[float, ...]:
        """What speaks for the exit's choice at a position: numbers of a like size."""
        signs = self._signs.get(at)
        if signs is None:
            own = self._log_odds(self.hint.confidences[at])
            signs = (1.0, own, *self._other_signs(at, own)) if self.tuning.exit_features else (1.0, own)
            self._signs[at] = signs
        return signs

    def _other_signs(self, at: int, own: float) -> tuple[float, float, float, float]:
        peak = self.peaks[at]
        since, depth = log(self.runs[at]), log(1 + self.hint.exit)
        return self._log_odds(peak) - own, float(peak >= self.tuning.sure_confidence), since, depth

    def _log_odds(self, chance: float) -> float:
        """Confidences near 0 or 1 say no more than the limits do, nor does one that is not a number."""
        least = self.tuning.least_confidence
        chance = min(1.0 - least, max(least, chance))
        return log(chance / (1.0 - chance))


class ExitCalibrator:
    """How the word of early exits on one position fares: for each stance a logistic regression, from how sure
    the exit is, how deep it lies, and for how many exits in a row the choice has been the same: what changes
    no more is most likely what the last layer says (the patience of Zhou et al. 2020, "BERT loses patience").

    `agrees`: it says what the draft says. `differs`: it says something else, and is right. `overruled`: it
    says something else, and the draft is right. `free`: there is no draft.
    """

    def __init__(self, tuning: AdaptiveTuning = DEFAULT_TUNING) -> None:
        others = OTHER_SIGNS if tuning.exit_features else ()
        self._learns = tuning.calibrate_exits
        self._of: dict[str, Regression] = {
            stance: Regression((*prior, *others), tuning)
            for stance, prior in tuning.exit_priors._asdict().items()
        }

    def chance(self, stance: Stance, signs: tuple[float, ...]) -> float:
        """The chance of that stance to be right."""
        return self._of[stance].chance(signs)

    def _chance_of_draft(self, signs: tuple[float, ...]) -> float:
        """Where an exit contradicts it: no more than what the exit's own word leaves."""
        return min(self.chance("overruled", signs), 1.0 - self.chance("differs", signs))

    def on_outcome(self, stance: Stance, signs: tuple[float, ...], right: bool) -> None:
        """Learns whether an exit of this stance and with these features was right."""
        if self._learns:
            self._of[stance].on_outcome(signs, right)

    def outcomes(
        self,
        observed: ExitObservation,
        draft: Tokens,
        known: int = 0,
        known_chance: float = 1.0,
        least: float = 0.0,
    ) -> list[tuple[Tokens, float]]:
        """How the verification of a draft may end as an exit sees it.

        Each end has its chance. Where the exit contradicts the draft either may be right. A deeper exit has
        said before that the first `known` tokens stand, with that chance. Ends of less chance than `least`
        are left out.
        """
        ends, alive, choices = [], known_chance, observed.hint.choices
        for at in range(known, len(choices)):
            if alive < least:
                break
            token, signs = choices[at], observed.signs(at)
            if at == len(draft):
                ends.append(((*draft, token), alive * self.chance("free", signs)))
            elif token == draft[at]:
                alive *= self.chance("agrees", signs)
            else:
                ends.append(((*draft[:at], token), alive * self.chance("differs", signs)))
                alive *= self._chance_of_draft(signs)
        return [(tokens, chance) for tokens, chance in ends if chance >= least]

    def on_judged(self, observed: ExitObservation, draft: Tokens, new: Tokens, known: int = 0) -> None:
        """Compare what an exit said with what came, `new`, as far as the draft stood and one token further;
        of the first `known` tokens it has been learnt already.
        """
        if draft[:known] != new[:known]:
            return
        for at in range(known, min(len(new), len(observed.hint.choices))):
            token, signs = observed.hint.choices[at], observed.signs(at)
            if at == len(draft):
                self.on_outcome("free", signs, token == new[at])
                return
            stood = draft[at] == new[at]
            if token == draft[at]:
                self.on_outcome("agrees", signs, stood)
            else:
                self.on_outcome("overruled", signs, stood)
                self.on_outcome("differs", signs, token == new[at])
            if not stood:
                return


def observed_after(
    hint: ExitHint, before: ExitObservation | None, tuning: AdaptiveTuning = DEFAULT_TUNING
) -> ExitObservation:
    """What a hint is with the one before it. Runs begin anew where that was of no exit before this one, or of
    another draft.
    """
    count = len(hint.choices)
    if before is None or before.hint.exit >= hint.exit or len(before.hint.choices) != count:
        return ExitObservation(hint, (1,) * count, hint.confidences, tuning)
    stays = list(map(eq, hint.choices, before.hint.choices))
    runs = tuple([run + 1 if same else 1 for run, same in zip(before.runs, stays, strict=True)])
    surest = zip(hint.confidences, before.peaks, stays, strict=True)
    peaks = tuple([max(own, peak) if same else own for own, peak, same in surest])
    return ExitObservation(hint, runs, peaks, tuning)
