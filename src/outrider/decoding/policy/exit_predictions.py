# SPDX-License-Identifier: Apache-2.0
"""What early exits predict of how a verification ends, and what is learnt once its outcome has come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from outrider.decoding.jobs import ExitHint
from outrider.decoding.policy.exit_calibration import ExitObservation, observed_after
from outrider.decoding.policy.restart import RestartRule
from outrider.decoding.policy.session_estimates import SessionEstimates
from outrider.decoding.protocol.prefix_digest import Tokens, common_length

Outcome = tuple[Tokens, float]
"""How a verification may end, and the chance of that."""


class AbortedVerification(NamedTuple):
    """An aborted verification: its draft, whose first `known` tokens had been predicted before, and what the
    exits said of it.
    """

    draft: Tokens
    known: int
    said: list[ExitObservation]


class ExitPredictions:
    """From one commit of a text to the next. Times in seconds of the cloud's clock."""

    def __init__(self, estimates: SessionEstimates) -> None:
        self._estimates = estimates
        self._restart = RestartRule(estimates)
        self.forget()

    def forget(self) -> None:
        """The text is another: nothing is predicted of it yet."""
        self._said: list[ExitObservation] = []
        self._aborted: list[AbortedVerification] = []
        self._restart.drop()

    @property
    def tokens(self) -> Tokens:
        """What the next verification begins with, predicted by one that was aborted for it."""
        return self._restart.tokens

    def num_exit_tokens(self, stood: int, judged: int) -> int:
        """Return how many of the first `judged` tokens came from early exits rather than from the edge.

        A trailing exit token counts as the edge's if it was accepted (`stood`) and the edge had already
        drafted past it. In a batch of several robots a draft may be cut within `tokens`.
        """
        ends, last = self._restart.ends, judged
        while last - 1 in ends:
            last -= 1
        return sum([min(stood, last) <= end < judged for end in ends])

    @property
    def is_better(self) -> bool:
        """Whether the running verification should be aborted and begun again with more tokens known."""
        return self._restart.is_better

    def begin(self, now_s: float) -> None:
        """A verification begins."""
        self._restart.begin(now_s)

    def running_s(self, now_s: float) -> float:
        """For how long the verification has run."""
        return self._restart.running_s(now_s)

    def observe(self, hint: ExitHint) -> ExitObservation:
        """An exit has spoken."""
        observed = observed_after(hint, self._said[-1] if self._said else None, self._estimates.tuning)
        self._said.append(observed)
        return observed

    def outcomes(self, observed: ExitObservation, draft: Tokens) -> list[Outcome]:
        """How a verification may well end by what an exit said, as far as exits are trusted. An outcome that
        is less likely is neither told nor worth aborting a verification for.
        """
        known, chance = len(self._restart.tokens), self._restart.chance
        return self._estimates.trust.outcomes(
            observed, draft, known, chance, self._estimates.tuning.min_outcome_prob
        )

    def look(
        self,
        draft: Tokens,
        outcomes: Sequence[Outcome],
        after: Callable[[Tokens], Tokens],
        now_s: float,
    ) -> None:
        """Whether to begin again with one of those outcomes; see `RestartRule.look`."""
        if self._estimates.tuning.restart:
            self._restart.look(draft, outcomes, after, now_s)

    def on_aborted(self, draft: Tokens) -> None:
        """A verification was aborted. What exits said of it will be compared with what comes of the next,
        unless that one begins with the same draft: they will say it again.
        """
        known = self._restart.tokens
        self._restart.take()
        if self._restart.tokens != known:
            self._aborted.append(AbortedVerification(draft, len(known), self._said))
        self._said = []

    def learn_from_aborted(self, new: Tokens) -> None:
        """Learn what the `new` tokens say of the verifications that were aborted before."""
        for aborted in self._aborted:
            learn_from_one(self._estimates, aborted, new)

    def on_judged(self, draft: Tokens, new: Tokens) -> None:
        """Learn what the `new` tokens say of the exits of the verification that has ended."""
        known = len(self._restart.tokens)
        for observed in self._said:
            self._estimates.trust.on_judged(observed, draft, new, known)
        self.forget()


def learn_from_one(estimates: SessionEstimates, aborted: AbortedVerification, new: Tokens) -> None:
    """What came tells how far the draft of a verification would have stood that was aborted."""
    for observed in aborted.said:
        estimates.trust.on_judged(observed, aborted.draft, new, aborted.known)
    draft = aborted.draft
    stood = common_length(draft, new)
    estimates.on_draft_judged(stood - aborted.known, aborted.known <= stood < min(len(draft), len(new)))
