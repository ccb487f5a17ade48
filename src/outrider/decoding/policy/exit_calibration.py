# SPDX-License-Identifier: Apache-2.0
"""How reliable early exits are, and what one predicts about the running verification."""

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
"""Initial weights of the features other than the bias and the confidence."""


@dataclass(eq=False, slots=True)
class ExitObservation:
    """What an exit predicted. Per position, `runs`: for how many exits in a row it has had the same choice;
    `peaks`: the highest confidence among those exits.
    """

    hint: ExitHint
    runs: tuple[int, ...]
    peaks: tuple[float, ...]
    tuning: AdaptiveTuning = DEFAULT_TUNING
    _features: dict[int, tuple[float, ...]] = field(default_factory=dict)

    def features(self, at: int) -> tuple[float, ...]:
        """Return the features of the exit's choice at a position: numbers of similar size."""
        features = self._features.get(at)
        if features is None:
            own = self._log_odds(self.hint.confidences[at])
            features = (1.0, own, *self._other_features(at, own)) if self.tuning.exit_features else (1.0, own)
            self._features[at] = features
        return features

    def _other_features(self, at: int, own: float) -> tuple[float, float, float, float]:
        peak = self.peaks[at]
        since, depth = log(self.runs[at]), log(1 + self.hint.exit)
        return self._log_odds(peak) - own, float(peak >= self.tuning.sure_confidence), since, depth

    def _log_odds(self, chance: float) -> float:
        """Return log-odds of a chance, kept off 0 and 1 by `least_confidence`; NaN counts as the least."""
        least = self.tuning.least_confidence
        chance = min(1.0 - least, max(least, chance))
        return log(chance / (1.0 - chance))


class ExitCalibrator:
    """How often an exit's prediction for a position is right: one logistic regression per stance.

    The features are the exit's confidence, its depth and for how many exits in a row the choice has been
    the same: a choice that no longer changes is likely the last layer's too (the patience of Zhou et al.
    2020, "BERT loses patience"). `agrees`: the exit predicts the draft's token. `differs`: it predicts
    another one, and is right. `overruled`: it predicts another one, and the draft is right. `free`: there
    is no draft.
    """

    def __init__(self, tuning: AdaptiveTuning = DEFAULT_TUNING) -> None:
        others = OTHER_SIGNS if tuning.exit_features else ()
        self._learns = tuning.calibrate_exits
        self._of: dict[str, Regression] = {
            stance: Regression((*prior, *others), tuning)
            for stance, prior in tuning.exit_priors._asdict().items()
        }

    def chance(self, stance: Stance, features: tuple[float, ...]) -> float:
        """Return the chance that a prediction of this stance is right."""
        return self._of[stance].chance(features)

    def _chance_of_draft(self, features: tuple[float, ...]) -> float:
        """Return the chance of the draft's token that the exit contradicts; at most what the exit leaves."""
        return min(self.chance("overruled", features), 1.0 - self.chance("differs", features))

    def on_outcome(self, stance: Stance, features: tuple[float, ...], right: bool) -> None:
        """Learn whether an exit of this stance and these features was right."""
        if self._learns:
            self._of[stance].on_outcome(features, right)

    def outcomes(
        self,
        observed: ExitObservation,
        draft: Tokens,
        known: int = 0,
        known_chance: float = 1.0,
        least: float = 0.0,
    ) -> list[tuple[Tokens, float]]:
        """Return how the verification of a draft may end according to an exit, each end with its chance.

        If the exit contradicts the draft, either may be right. The first `known` tokens were predicted by
        exits before, with `known_chance`. Ends less likely than `least` are omitted.
        """
        ends, alive, choices = [], known_chance, observed.hint.choices
        for at in range(known, len(choices)):
            if alive < least:
                break
            token, features = choices[at], observed.features(at)
            if at == len(draft):
                ends.append(((*draft, token), alive * self.chance("free", features)))
            elif token == draft[at]:
                alive *= self.chance("agrees", features)
            else:
                ends.append(((*draft[:at], token), alive * self.chance("differs", features)))
                alive *= self._chance_of_draft(features)
        return [(tokens, chance) for tokens, chance in ends if chance >= least]

    def on_judged(self, observed: ExitObservation, draft: Tokens, new: Tokens, known: int = 0) -> None:
        """Compare what an exit predicted with the verdict `new`, up to the first rejected token and
        including it. The first `known` tokens have been learnt from already.
        """
        if draft[:known] != new[:known]:
            return
        for at in range(known, min(len(new), len(observed.hint.choices))):
            token, features = observed.hint.choices[at], observed.features(at)
            if at == len(draft):
                self.on_outcome("free", features, token == new[at])
                return
            accepted = draft[at] == new[at]
            if token == draft[at]:
                self.on_outcome("agrees", features, accepted)
            else:
                self.on_outcome("overruled", features, accepted)
                self.on_outcome("differs", features, token == new[at])
            if not accepted:
                return


def observed_after(
    hint: ExitHint, before: ExitObservation | None, tuning: AdaptiveTuning = DEFAULT_TUNING
) -> ExitObservation:
    """Return a hint together with the observation before it. Runs restart if that was not from a shallower
    exit, or was of another draft length.
    """
    count = len(hint.choices)
    if before is None or before.hint.exit >= hint.exit or len(before.hint.choices) != count:
        return ExitObservation(hint, (1,) * count, hint.confidences, tuning)
    stays = list(map(eq, hint.choices, before.hint.choices))
    runs = tuple([run + 1 if same else 1 for run, same in zip(before.runs, stays, strict=True)])
    surest = zip(hint.confidences, before.peaks, stays, strict=True)
    peaks = tuple([max(own, peak) if same else own for own, peak, same in surest])
    return ExitObservation(hint, runs, peaks, tuning)
