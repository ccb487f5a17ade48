# SPDX-License-Identifier: Apache-2.0
"""What early exits predict of how a verification ends, when that is reason to abort it for one that knows
more, and what is learnt once its outcome has come.
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
    """The tokens to begin with that no draft need hold, and their chance; when that was found, and the tokens
    it gains.
    """

    tokens: Tokens
    chance: float
    found_s: float
    gain: float


class RestartRule:
    """What one text's next verification begins with. Times in seconds of the cloud's clock.

    One forward can judge how a verification ends and what comes after it: it begins again, with the end
    predicted as its draft and the branch that lies ready after it, or none. That costs the time since the
    verification began and saves the next one where the exits were right. Where they were not, the target has
    its word all the same: what is predicted is judged like any draft. Where no branch lies ready, above all
    where the edge is far away, the target so drafts for itself with its own first layers (as Kangaroo, arXiv
    2404.18911, and LayerSkip, arXiv 2404.16710).
    """

    def __init__(self, estimates: SessionEstimates) -> None:
        self._estimates = estimates
        self._begun_s = 0.0
        self.drop()

    def drop(self) -> None:
        """Nothing is predicted any more."""
        self.tokens: Tokens = ()
        self.chance = 1.0
        self._better: _Better | None = None
        self._aborted_s: float | None = None
        self.ends: tuple[int, ...] = ()
        """Of `tokens` the places whose token is an exit's own: it contradicted the draft or went on."""

    def begin(self, now_s: float) -> None:
        """A verification begins, maybe the one that another was aborted for."""
        if self._aborted_s is not None:
            self._estimates.times.on_begun_again(now_s - self._aborted_s)
        self._begun_s, self._aborted_s = now_s, None
        self._better = None

    @property
    def is_better(self) -> bool:
        """Whether the running verification should be aborted for another."""
        return self._better is not None

    def running_s(self, now_s: float) -> float:
        """For how long the verification has run."""
        return now_s - self._begun_s

    def look(
        self,
        draft: Tokens,
        outcomes: Sequence[Outcome],
        after: Callable[[Tokens], Tokens],
        now_s: float,
    ) -> None:
        """How the verification of a draft may end, each with its chance; `after` gives the branch that lies
        ready after one, or nothing.
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
        """Leaving must gain some tokens: less is lost in what is not known, and the next exit knows more."""
        least = self._estimates.tuning.min_restart_gain if self._better is None else self._better.gain
        if found.gain > least:
            self._better = found

    def take(self) -> None:
        """The verification has been aborted: what was better is what the next one begins with."""
        if self._better is None:
            return
        self.tokens, self.chance, self._aborted_s, _ = self._better
        self.ends = (*self.ends, len(self.tokens) - 1)


class AbortedVerification(NamedTuple):
    """An aborted verification: its draft, whose first `known` tokens had been predicted before, and what the
    exits said of it.
    """

    draft: Tokens
    known: int
    said: list[ExitObservation]


class ExitPredictions(RestartRule):
    """From one commit of a text to the next."""

    def __init__(self, estimates: SessionEstimates) -> None:
        super().__init__(estimates)
        self.forget()

    def forget(self) -> None:
        """The text is another: nothing is predicted of it yet."""
        self._said: list[ExitObservation] = []
        self._aborted: list[AbortedVerification] = []
        self.drop()

    def num_exit_tokens(self, stood: int, judged: int) -> int:
        """Return how many of the first `judged` tokens came from early exits rather than from the edge.

        A trailing exit token counts as the edge's if it was accepted (`stood`) and the edge had already
        drafted past it. In a batch of several robots a draft may be cut within `tokens`.
        """
        ends, last = self.ends, judged
        while last - 1 in ends:
            last -= 1
        return sum([min(stood, last) <= end < judged for end in ends])

    def observe(self, hint: ExitHint) -> ExitObservation:
        """An exit has spoken."""
        observed = observed_after(hint, self._said[-1] if self._said else None, self._estimates.tuning)
        self._said.append(observed)
        return observed

    def outcomes(self, observed: ExitObservation, draft: Tokens) -> list[Outcome]:
        """How a verification may well end by what an exit said, as far as exits are trusted. An outcome that
        is less likely is neither told nor worth aborting a verification for.
        """
        known, chance = len(self.tokens), self.chance
        return self._estimates.trust.outcomes(
            observed, draft, known, chance, self._estimates.tuning.min_outcome_prob
        )

    def on_aborted(self, draft: Tokens) -> None:
        """A verification was aborted. What exits said of it will be compared with what comes of the next,
        unless that one begins with the same draft: they will say it again.
        """
        known = self.tokens
        self.take()
        if self.tokens != known:
            self._aborted.append(AbortedVerification(draft, len(known), self._said))
        self._said = []

    def learn_from_aborted(self, new: Tokens) -> None:
        """Learn what the `new` tokens say of the verifications that were aborted before."""
        for aborted in self._aborted:
            learn_from_one(self._estimates, aborted, new)

    def on_judged(self, draft: Tokens, new: Tokens) -> None:
        """Learn what the `new` tokens say of the exits of the verification that has ended."""
        known = len(self.tokens)
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
