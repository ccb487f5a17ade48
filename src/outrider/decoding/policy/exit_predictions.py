# SPDX-License-Identifier: Apache-2.0
"""What early exits predict of how a verification ends, when this is reason to abort it for a better one,
and what is learnt from its outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from outrider.decoding.jobs import ExitHint
from outrider.decoding.policy.exit_calibration import ExitObservation, observed_after
from outrider.decoding.policy.session_estimates import SessionEstimates
from outrider.decoding.policy.speculation import Outcome
from outrider.decoding.protocol.prefix_digest import Tokens, common_length


class _Better(NamedTuple):
    """A better verification. `tokens`: the predicted ones to begin with, which no draft need hold;
    `chance`: of these; `found_s`: when it was found; `gain`: expected tokens gained by the restart.
    """

    tokens: Tokens
    chance: float
    found_s: float
    gain: float


class RestartRule:
    """Decides what one text's next verification begins with. Times are seconds of the cloud's clock.

    One forward can judge both how a verification ends and what follows. So a verification may be aborted
    and restarted with the predicted end as its draft, and the ready branch after it, if any. That costs the
    time since the verification began. It saves the next one if the exits were right. If they were wrong,
    the text is still correct: a predicted token is judged like any draft token. Without a ready branch,
    above all for a distant edge, the target drafts for itself in this way, with its own first layers (as
    Kangaroo, arXiv 2404.18911, and LayerSkip, arXiv 2404.16710).
    """

    def __init__(self, estimates: SessionEstimates) -> None:
        self._estimates = estimates
        self._begun_s = 0.0
        self.drop()

    def drop(self) -> None:
        """Drop all predictions."""
        self.tokens: Tokens = ()
        self.chance = 1.0
        self._better: _Better | None = None
        self._aborted_s: float | None = None
        self.ends: tuple[int, ...] = ()
        """Positions in `tokens` of tokens from an exit, which contradict the draft or continue it."""

    def begin(self, now_s: float) -> None:
        """Note that a verification begins, possibly one that another was aborted for."""
        if self._aborted_s is not None:
            self._estimates.times.on_begun_again(now_s - self._aborted_s)
        self._begun_s, self._aborted_s = now_s, None
        self._better = None

    @property
    def should_abort(self) -> bool:
        """Whether the running verification should be aborted for a better one."""
        return self._better is not None

    def running_s(self, now_s: float) -> float:
        """Return how long the verification has run."""
        return now_s - self._begun_s

    def consider(
        self,
        draft: Tokens,
        outcomes: Sequence[Outcome],
        after: Callable[[Tokens], Tokens],
        now_s: float,
    ) -> None:
        """Weigh a restart for each predicted outcome of the verification. `after` gives the ready branch
        after an outcome, empty if there is none.
        """
        for tokens, chance in outcomes if self._estimates.tuning.restart else ():
            ready = after(tokens)
            whole = tokens + ready
            if draft[: len(whole)] == whole:
                continue
            gain = self._estimates.gain_of_restart(
                chance, len(draft), len(tokens), len(ready), self.running_s(now_s)
            )
            self._weigh(_Better(tokens, chance, now_s, gain))

    def _weigh(self, found: _Better) -> None:
        """Keep a restart that gains the most so far, and at least a minimum: estimates are uncertain, and
        the next exit will be surer.
        """
        least = self._estimates.tuning.min_restart_gain if self._better is None else self._better.gain
        if found.gain > least:
            self._better = found

    def adopt_better(self) -> None:
        """Adopt the better start: the verification has been aborted, and the next one begins with it."""
        if self._better is None:
            return
        self.tokens, self.chance, self._aborted_s, _ = self._better
        self.ends = (*self.ends, len(self.tokens) - 1)


class AbortedVerification(NamedTuple):
    """An aborted verification: its draft, whose first `known` tokens were predicted before, and the exit
    observations it produced.
    """

    draft: Tokens
    known: int
    observations: list[ExitObservation]


class ExitPredictions:
    """Exit predictions from one commit of a text to the next. `restart`: what they make of the running
    verification and of the next one.
    """

    def __init__(self, estimates: SessionEstimates) -> None:
        self._estimates = estimates
        self.restart = RestartRule(estimates)
        self._observations: list[ExitObservation] = []
        """Those of the running verification."""
        self._aborted: list[AbortedVerification] = []

    def forget(self) -> None:
        """Reset for another text: nothing is predicted of it yet."""
        self._observations, self._aborted = [], []
        self.restart.drop()

    def num_exit_tokens(self, num_accepted: int, judged: int) -> int:
        """Return how many of the first `judged` tokens came from early exits rather than from the edge.

        An accepted exit token (`num_accepted`) counts as the edge's if a token of the edge follows it: the
        edge had drafted past it. In a batch of several robots, a draft may be cut within `tokens`.
        """
        ends, last = self.restart.ends, judged
        while last - 1 in ends:
            last -= 1
        return sum([min(num_accepted, last) <= end < judged for end in ends])

    def observe(self, hint: ExitHint) -> ExitObservation:
        """Record an exit's prediction. Return it with its history."""
        before = self._observations[-1] if self._observations else None
        observed = observed_after(hint, before, self._estimates.tuning)
        self._observations.append(observed)
        return observed

    def outcomes(self, observed: ExitObservation, draft: Tokens) -> list[Outcome]:
        """Return the outcomes of a verification by an exit's prediction, with calibrated chances. Less
        likely ones are omitted: they are neither sent as hints nor worth a restart.
        """
        known, chance = len(self.restart.tokens), self.restart.chance
        return self._estimates.calibrator.outcomes(
            observed, draft, known, chance, self._estimates.tuning.min_outcome_prob
        )

    def on_aborted(self, draft: Tokens) -> None:
        """Note an abort. Exit predictions are kept for comparison with the next verification's outcome,
        unless the next one begins with the same draft: then its exits will repeat them.
        """
        known = self.restart.tokens
        self.restart.adopt_better()
        if self.restart.tokens != known:
            self._aborted.append(AbortedVerification(draft, len(known), self._observations))
        self._observations = []

    def learn_from_aborted(self, new: Tokens) -> None:
        """Learn from `new` tokens about the verifications that were aborted before."""
        for aborted in self._aborted:
            learn_from_abort(self._estimates, aborted, new)

    def on_judged(self, draft: Tokens, new: Tokens) -> None:
        """Learn from `new` tokens about the exits of the verification that has ended."""
        known = len(self.restart.tokens)
        for observed in self._observations:
            self._estimates.calibrator.on_judged(observed, draft, new, known)
        self.forget()


def learn_from_abort(estimates: SessionEstimates, aborted: AbortedVerification, new: Tokens) -> None:
    """Learn from `new` how much of the draft of an aborted verification would have been accepted."""
    for observed in aborted.observations:
        estimates.calibrator.on_judged(observed, aborted.draft, new, aborted.known)
    draft = aborted.draft
    num_accepted = common_length(draft, new)
    rejected = aborted.known <= num_accepted < min(len(draft), len(new))
    estimates.on_draft_judged(num_accepted - aborted.known, rejected)
