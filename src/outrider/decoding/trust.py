"""How far early exits are believed, and what one says about the outcome of the running verification."""

from __future__ import annotations

from collections.abc import Sequence
from operator import eq
from typing import Literal

from outrider.decoding.digest import Tokens
from outrider.decoding.estimates import MEMORY, PRIOR_TRIALS
from outrider.decoding.jobs import ExitHint

SURE = 0.85
LONGEST_RUN = 5
"""Exits in a row that say the same; more of them are worth no more."""
Stance = Literal["agrees", "differs", "overruled", "prefers", "outvoted", "free"]
Runs = tuple[tuple[int, ...], ...]
"""For how many exits in a row each position of each draft has had its choice."""


class Trust:
    """How the word of early exits on one position has fared; apart where the exit was sure, by its stance,
    and by how many exits in a row had said the same: what changes no more is most likely what the last layer
    says (the patience of Zhou et al. 2020, "BERT loses patience").

    `agrees`: it says what the draft says. `differs`: it says something else, and is right. `overruled`: it
    says something else, and the draft is right. `prefers` and `outvoted`: the same where a draft beside it
    says what the exit says. `free`: there is no draft.
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
        runs: Runs,
        drafts: Sequence[Tokens],
        known: int = 0,
        known_chance: float = 1.0,
    ) -> list[tuple[Tokens, float]]:
        """How the verification of a draft, the first, and others beside it may end as an exit sees it.

        Each end has its chance. Where the exit contradicts the draft either may be right. A deeper exit has
        said before that the first `known` tokens stand, with that chance.
        """
        ends, walks = [], [(0, known, known_chance)]
        while walks:
            branch, begin, alive = walks.pop()
            draft, (choices, confidences) = drafts[branch], hint.words[branch]
            for at in range(begin, len(choices)):
                token, confidence, run = choices[at], confidences[at], runs[branch][at]
                if at == len(draft):
                    ends.append(((*draft, token), alive * self.chance(confidence, "free", run)))
                elif token == draft[at]:
                    alive *= self.chance(confidence, "agrees", run)
                elif (other := _goes_on(hint, drafts, (*draft[:at], token))) is not None:
                    walks.append((other, at + 1, alive * self.chance(confidence, "prefers", run)))
                    alive *= self.chance(confidence, "outvoted", run)
                else:
                    ends.append(((*draft[:at], token), alive * self.chance(confidence, "differs", run)))
                    alive *= self.chance(confidence, "overruled", run)
        return ends

    def stands(
        self, hint: ExitHint, runs: Runs, tokens: Tokens, known: int = 0, known_chance: float = 1.0
    ) -> float:
        """The chance that the text goes on with `tokens`: the draft that the exit spoke of, and one more."""
        choices, confidences = hint.words[0]
        for at in range(known, len(tokens)):
            stance: Stance = "agrees" if choices[at] == tokens[at] else "overruled"
            known_chance *= self.chance(confidences[at], stance, runs[0][at])
        return known_chance

    def on_judged(
        self, hint: ExitHint, runs: Runs, drafts: Sequence[Tokens], new: Tokens, known: int = 0
    ) -> None:
        """Compare what an exit said with what came, `new`; where no draft goes on with that nothing is known,
        and of the first `known` tokens it has been learnt already.
        """
        branch = 0 if drafts[0][:known] == new[:known] else None
        for at in range(known, len(new)):
            if branch is None or at >= len(hint.words[branch].choices):
                return
            draft, (choices, confidences) = drafts[branch], hint.words[branch]
            token, confidence, run = choices[at], confidences[at], runs[branch][at]
            if at == len(draft):
                self.on_outcome(confidence, "free", run, token == new[at])
                return
            stood = draft[at] == new[at]
            if token == draft[at]:
                self.on_outcome(confidence, "agrees", run, stood)
            else:
                preferred = _goes_on(hint, drafts, (*draft[:at], token)) is not None
                self.on_outcome(confidence, "outvoted" if preferred else "overruled", run, stood)
                self.on_outcome(confidence, "prefers" if preferred else "differs", run, token == new[at])
            if not stood:
                branch = _goes_on(hint, drafts, new[: at + 1])


def _goes_on(hint: ExitHint, drafts: Sequence[Tokens], tokens: Tokens) -> int | None:
    """Which of the drafts that an exit spoke of begins with these tokens."""
    count = len(tokens)
    heard = (branch for branch, word in enumerate(hint.words) if len(word.choices) > count)
    return next((branch for branch in heard if drafts[branch][:count] == tokens), None)


def runs_of(hint: ExitHint, before: Sequence[tuple[ExitHint, Runs]]) -> Runs:
    """The runs of a hint; `before`: those heard so far, each with its own. They begin anew where the last one
    was no exit before this one, or of other drafts.
    """
    last, runs = before[-1] if before else (hint, ())
    if last.exit >= hint.exit or list(map(_length, last.words)) != list(map(_length, hint.words)):
        return tuple([(1,) * len(word.choices) for word in hint.words])
    return tuple(
        [
            tuple([run + 1 if stays else 1 for run, stays in zip(run_of, map(eq, new, old), strict=True)])
            for run_of, (new, _), (old, _) in zip(runs, hint.words, last.words, strict=True)
        ]
    )


def _length(word: tuple[Tokens, Sequence[float]]) -> int:
    return len(word[0])
