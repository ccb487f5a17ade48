# SPDX-License-Identifier: Apache-2.0
"""The estimates of a session's policy (acceptance, times, speed) and the value of its choices by them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from outrider.decoding.jobs import Verify
from outrider.decoding.policy.cloud_drafting import (
    CloudDrafting,
    Extent,
    Price,
    Prospect,
    Ready,
    best_extent,
    steady_tokens_per_s,
)
from outrider.decoding.policy.estimators import (
    AcceptanceRates,
    ExponentialMean,
    SteadyAcceptance,
    Throughput,
)
from outrider.decoding.policy.exit_calibration import ExitCalibrator
from outrider.decoding.policy.exit_gate import ExitGate, ExitTimes
from outrider.decoding.policy.step_times import ForwardTimes
from outrider.decoding.protocol.prefix_digest import Tokens, common_length
from outrider.decoding.theory import expected_tokens
from outrider.decoding.tuning import DEFAULT_TUNING, AdaptiveTuning

Ending = Literal["step", "whole", "rejected"]
"""How a verification ended: it had no draft, all of the draft was accepted, or not all."""


class VerificationOutcome(NamedTuple):
    """The result of a verification.

    `new`: the accepted tokens and the target's own; `num_committed`: how many of them lie within the text's
    end. `accepted`: number of accepted draft tokens; `num_drafted`: draft tokens that came from the edge.
    `compute_s`: 0 if no forward was needed; `alone`: no other robot's work was in the forward. `offered`:
    the first token of the draft that was available before, if any; `num_ready`: length of the draft
    available now, None if the text is complete.
    """

    job: Verify
    new: Tokens
    num_committed: int
    accepted: int
    num_drafted: int
    compute_s: float
    alone: bool
    offered: int | None
    num_ready: int | None
    now_s: float


def ending_of(num_drafted: int, num_accepted: int) -> Ending:
    """Return how a verification of `num_drafted` tokens ended, with `num_accepted` of them accepted."""
    if not num_drafted:
        return "step"
    return "whole" if num_accepted >= num_drafted else "rejected"


class SessionEstimates:
    """One session's estimates at the cloud, over all its texts. Times in seconds of the cloud's clock."""

    def __init__(self, tuning: AdaptiveTuning = DEFAULT_TUNING, cloud_drafts: bool = False) -> None:
        """`cloud_drafts`: whether the cloud has a draft model of its own."""
        self.tuning = tuning
        self.cloud_drafts = cloud_drafts
        self.calibrator = ExitCalibrator(tuning)
        self._times = ForwardTimes(tuning, cloud_drafts)
        self._times_unread = ForwardTimes(tuning, cloud_drafts)
        """Times of forwards whose exits are not read."""
        self._speed = Throughput(tuning)
        self._acceptance = SteadyAcceptance(tuning) if cloud_drafts else AcceptanceRates(tuning)
        self._ready: dict[Ending, ExponentialMean] = {
            ending: ExponentialMean(tuning) for ending in ("step", "whole", "rejected")
        }
        self.exit_gate = ExitGate(tuning)
        self.cloud = CloudDrafting(tuning)
        self._alone_tokens_per_s = 0.0
        self._committed_s: float | None = None

    @property
    def times(self) -> ForwardTimes:
        """Forward times in the current mode (exits read or not); in the other mode if this one has none."""
        both = self._times, self._times_unread
        current, other = both if self.exit_gate.reads else both[::-1]
        return current if current.any_known else other

    def begin_text(self) -> None:
        """Begin another text."""
        self._committed_s = None
        self._speed.begin_text()
        self.exit_gate.begin_text()
        self.cloud.begin_text()

    def on_verdict(self, outcome: VerificationOutcome, known: int = 0, exits_used: bool = False) -> None:
        """Learn from a verification. The first `known` tokens of its draft were learnt from before.
        `exits_used`: whether exit predictions have changed what the cloud drafts ahead.
        """
        job, new, forwarded = outcome.job, outcome.new, outcome.compute_s > 0.0
        exits_read = job.hints if outcome.alone else None
        if forwarded:
            self.cloud.on_forward(outcome.compute_s)
            self.on_verified(len(job.draft), outcome.compute_s, job.hints)
            self._learn_from_draft(job, new, known)
        if not job.draft and outcome.offered is not None and new:
            self.on_step_despite_draft(outcome.offered == new[0])
        self._learn_help(outcome)
        self.on_committed(outcome.num_committed, outcome.now_s)
        gated = exits_read if job.needs_forward else None
        times, may_try = self._exit_times(len(job.draft)), self.cloud.is_quiet
        used = exits_used or known > 0 or outcome.num_drafted > 0
        if self.exit_gate.on_commit(outcome.num_committed, outcome.now_s, gated, times, may_try, used):
            self.cloud.acceptance.begin_anew()
        if outcome.num_ready is not None:
            self.on_ready(outcome.num_ready, outcome.num_drafted, outcome.accepted)

    def _learn_help(self, outcome: VerificationOutcome) -> None:
        """Compare the tokens written since the last commit with those the cloud alone would have written."""
        if self._committed_s is not None and self._alone_tokens_per_s:
            seconds = outcome.now_s - self._committed_s
            self.cloud.on_committed(outcome.num_committed, self._alone_tokens_per_s * seconds)
        self._committed_s = outcome.now_s

    def _learn_from_draft(self, job: Verify, new: Tokens, known: int) -> None:
        """Learn how far a draft was right; if the cloud drafts too, its tokens and the edge's separately."""
        num_accepted = common_length(job.draft, new)
        if not self.cloud_drafts or not job.scheme.deterministic:
            self.on_draft_judged(num_accepted - known, known <= num_accepted < len(job.draft))
            return
        for at in range(known, min(num_accepted + 1, len(job.draft))):
            sure = job.evidence[at]
            if sure is None:
                self._acceptance.on_outcome(0 if at < num_accepted else None)
            else:
                self.cloud.on_judged(sure, at < num_accepted)

    def on_committed(self, num_tokens: int, now_s: float) -> None:
        """Record that the text has grown."""
        self._speed.on_commit(num_tokens, now_s)

    def on_verified(self, num_drafted: int, compute_s: float, exits_read: bool = False) -> None:
        """Record the time of a forward over a draft, or of a step if `num_drafted` is 0."""
        both = self._times, self._times_unread
        times, other_times = both if exits_read else both[::-1]
        if times.on_forward(num_drafted, compute_s):
            other_times.forget()

    def _exit_times(self, num_drafted: int) -> ExitTimes | None:
        """Return what reading exits costs in a verification of `num_drafted` tokens; None if unknown."""
        if not self._times.any_known or not self._times_unread.any_known:
            return None
        cost = self._times.ratio_to(self._times_unread, num_drafted) - 1.0
        return ExitTimes(self._times_unread.draft_s(0), cost)

    def on_draft_judged(self, num_accepted: int, rejected: bool) -> None:
        """Record accepted draft tokens and, if `rejected`, that the next one was rejected."""
        for _ in range(num_accepted):
            self._acceptance.on_outcome(0)
        if rejected:
            self._acceptance.on_outcome(None)

    def on_step_despite_draft(self, agreed: bool) -> None:
        """Record a step taken despite a draft: whether the target wrote the draft's first token."""
        self._acceptance.on_outcome(0 if agreed else None)

    def on_ready(self, num_ready: int, num_drafted: int, num_accepted: int) -> None:
        """Record how many tokens were ready after a verification of `num_drafted` tokens."""
        self._ready[ending_of(num_drafted, num_accepted)].add(num_ready)

    def expected_tokens(self, num_drafted: int) -> float:
        """Return the tokens that a verification of `num_drafted` draft tokens yields on average."""
        return expected_tokens(self._acceptance.rate(), num_drafted)

    def num_worth_verifying(self, num_offered: int) -> int:
        """Return how many of the offered tokens to verify; 0 to take a step instead."""
        if not self.times.known or not self.tuning.choose_length:
            return num_offered
        rate, best, most = self._acceptance.rate(), 0, 0.0
        tokens = survives = 1.0  # `expected_tokens` of every length, in one sum
        for length in range(num_offered + 1):
            gain = tokens / self.times.draft_s(length)
            if gain >= most:
                best, most = length, gain
            survives *= rate
            tokens += survives
        return best

    def prospect(self, evidence: Sequence[float | None], certain: int, room: int) -> Prospect:
        """Return the prospect of the next verification, given the ready draft's evidence; see `extent`."""
        extent, own = self.extent(evidence, certain, room), self.cloud.rate
        tokens = alive = 1.0
        for token in self._ready_tokens(evidence[: extent.ready], certain):
            alive *= token.chance
            tokens += alive
        return Prospect(tokens, alive * own if extent.more else 0.0, own)

    def _ready_tokens(self, evidence: Sequence[float | None], certain: int) -> list[Ready]:
        """Return the ready tokens with their chances; the first `certain` count as surely accepted."""
        rate = self._edge_rate
        draft = [
            Ready(rate, False) if sure is None else Ready(self.cloud.chance(sure), True) for sure in evidence
        ]
        draft[:certain] = [Ready(1.0, True)] * min(certain, len(draft))
        return draft

    @property
    def _edge_rate(self) -> float:
        """The chance of a token drafted by the edge. If robots share the target, drafting the token again
        would cost them all: then it counts as no less than the cloud's own, until it is shown to be less.
        """
        rate, own = self._acceptance.rate(), self.cloud.rate
        if not self.cloud.is_shared or self._acceptance.proves_less_than(own, self.tuning.change_deviations):
            return rate
        return max(rate, own)

    def extent(
        self, evidence: Sequence[float | None], certain: int, room: int, may_draft: bool = True
    ) -> Extent:
        """Return how much of the ready draft to verify, and how many tokens the cloud should draft behind
        it if it `may_draft`. `evidence`: of the ready tokens; the first `certain` are always verified.
        """
        draft = self._ready_tokens(evidence, certain)
        price = Price(self._cloud_price(room), self.cloud.draft_s(self.times.draft_s(0)))
        own = self.cloud.rate if may_draft else 0.0
        return best_extent(draft, own, room, price, self.times.draft_s)

    def chance_of(self, rank: int, evidence: float | None) -> float:
        """Return the chance of a token of this rank, drafted by the edge or cloud, given the text before."""
        if evidence is None:
            first = self._edge_rate
        else:
            first = self.cloud.chance(1.0 - evidence if rank else evidence)
        if not rank:
            return first
        second = self.tuning.acceptance_priors[1]
        return (1.0 - first) * second * (1.0 - second) ** (rank - 1)

    def on_cloud_drafted(self, seconds: float, num_positions: int) -> None:
        """Record the time of one batch of the cloud's draft: one token at each of `num_positions`."""
        self.cloud.on_drafted(seconds, self.times.draft_s(0), num_positions)

    def probe_due(self, num_ready: int) -> bool:
        """Whether the cloud should draft a token behind `num_ready` ones only to test whether it is right."""
        row_s = max(0.0, self.times.draft_s(num_ready + 1) - self.times.draft_s(num_ready))
        return self.cloud.probe_due(row_s, self.times.draft_s(0), self._tokens_per_s, self.exit_gate.is_quiet)

    def _cloud_price(self, room: int) -> float:
        """Return the tokens per second that time is worth where the cloud drafts: its speed alone, times
        the factor by which the robot's drafts and the exits speed it up.
        """
        cloud = self.cloud
        draft_s = cloud.draft_s(self.times.draft_s(0))
        self._alone_tokens_per_s = steady_tokens_per_s(cloud.rate, room, draft_s, self.times.draft_s)
        return cloud.help * self._alone_tokens_per_s

    def gain_of_restart(
        self, chance: float, num_drafted: int, num_named: int, num_ready: int, elapsed_s: float
    ) -> float:
        """Return the tokens gained if a verification of `num_drafted` tokens is aborted after `elapsed_s`.

        The next one begins with a predicted outcome of `num_named` tokens and the `num_ready` ready ones
        after it. If the prediction is right (probability `chance`), one forward replaces two, less the
        draft tokens that would still have arrived before the second. If it is wrong, the correct rest of
        the current draft is lost. The elapsed time and the time to restart are lost either way.
        """
        if not self._timed:
            return 0.0
        rate, running_s = self._acceptance.rate(), self.times.draft_s(num_drafted)
        whole_s, speed = self.times.draft_s(num_named + num_ready), self._tokens_per_s
        to_come = max(0.0, self._usually_ready(num_drafted, num_named) - num_ready)
        to_come *= max(0.0, 1.0 - elapsed_s / running_s)
        fewer = expected_tokens(rate, num_ready + to_come) - expected_tokens(rate, num_ready)
        right = speed * (running_s + self.times.draft_s(num_ready) - whole_s) - fewer
        lost = expected_tokens(rate, max(0, num_drafted - num_named + 1))
        wrong = lost + speed * max(0.0, whole_s - running_s)
        return chance * right - (1.0 - chance) * wrong - speed * (elapsed_s + self.times.begin_again_s)

    @property
    def _timed(self) -> bool:
        """Whether enough forwards have been timed to compare two."""
        return self.times.any_known if self.cloud_drafts else self.times.step_known

    def _usually_ready(self, num_drafted: int, num_named: int) -> float:
        """Return how many tokens are usually ready after a verification that ends with `num_named` tokens."""
        return self._ready[ending_of(num_drafted, num_named - 1)].value

    @property
    def _tokens_per_s(self) -> float:
        """The worth of a second in tokens, once a forward has been timed; at least what steps write."""
        lately = self.cloud.help * self._alone_tokens_per_s if self.cloud_drafts else self._speed.value
        return max(lately, 1.0 / self.times.draft_s(0))
