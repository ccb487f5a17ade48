# SPDX-License-Identifier: Apache-2.0
"""What a session's policy knows: acceptance, times and speed, and what choices are worth by them."""

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

Ending = Literal["step", "whole", "fell"]
"""Of a verification: it had no draft, all of it stood, or not all."""


class VerificationOutcome(NamedTuple):
    """What has come of a verification.

    `new`: the tokens judged right and the target's own; `num_committed`: of these, those before the text's
    end. `accepted`: of the branch that counts; `num_drafted`: its tokens that the edge had drafted.
    `compute_s`: 0 where no forward was needed; `alone`: no other robot's work was in the forward. `offered`:
    the draft token that lay at the text's end, if any; `num_ready`: tokens of the draft that lies there now,
    None where the text is complete.
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


def ending_of(num_drafted: int, stood: int) -> Ending:
    """How the verification of so many tokens ended, of which so many stood."""
    if not num_drafted:
        return "step"
    return "whole" if stood >= num_drafted else "fell"


class SessionEstimates:
    """One session's estimates at the cloud, over all its texts. Times in seconds of the cloud's clock."""

    def __init__(self, tuning: AdaptiveTuning = DEFAULT_TUNING, cloud_drafts: bool = False) -> None:
        """`cloud_drafts`: whether the cloud has a draft model of its own."""
        self.tuning = tuning
        self.cloud_drafts = cloud_drafts
        self.trust = ExitCalibrator(tuning)
        self._times = ForwardTimes(tuning, cloud_drafts)
        self._times_unread = ForwardTimes(tuning, cloud_drafts)
        """Of forwards whose exits are not read."""
        self._speed = Throughput(tuning)
        self._odds = SteadyAcceptance(tuning) if cloud_drafts else AcceptanceRates(tuning)
        self._ready: dict[Ending, ExponentialMean] = {
            ending: ExponentialMean(tuning) for ending in ("step", "whole", "fell")
        }
        self.exit_gate = ExitGate(tuning)
        self.cloud = CloudDrafting(tuning)
        self._alone_tokens_per_s = 0.0
        self._committed_s: float | None = None

    @property
    def times(self) -> ForwardTimes:
        """What forwards take as they are run now, with their exits read or not; else the other way."""
        both = self._times, self._times_unread
        now, other = both if self.exit_gate.reads else both[::-1]
        return now if now.any_known else other

    def begin_text(self) -> None:
        """Another text begins."""
        self._committed_s = None
        self._speed.begin_text()
        self.exit_gate.begin_text()
        self.cloud.begin_text()

    def on_verdict(self, outcome: VerificationOutcome, known: int = 0, steered: bool = False) -> None:
        """Learn from a verification; of the first `known` tokens of its draft it was learnt before.
        `steered`: whether what its exits said has moved what the cloud drafts ahead.
        """
        job, new, forwarded = outcome.job, outcome.new, outcome.compute_s > 0.0
        exits_read = job.hints if outcome.alone else None
        if forwarded:
            self.cloud.on_forward(outcome.compute_s)
            self.on_verified(len(job.draft), outcome.compute_s, job.hints)
            self._learn_from_draft(job, new, known)
        if not job.draft and outcome.offered is not None and new:
            self.on_stepped_beside(outcome.offered == new[0])
        self._learn_help(outcome)
        self.on_committed(outcome.num_committed, outcome.now_s)
        gated = exits_read if job.needs_forward else None
        times, may_try = self._exit_times(len(job.draft)), self.cloud.is_quiet
        used = steered or known > 0 or outcome.num_drafted > 0
        if self.exit_gate.on_commit(outcome.num_committed, outcome.now_s, gated, times, may_try, used):
            self.cloud.odds.begin_anew()
        if outcome.num_ready is not None:
            self.on_ready(outcome.num_ready, outcome.num_drafted, outcome.accepted)

    def _learn_help(self, outcome: VerificationOutcome) -> None:
        """Compare what was written since the last commit with what the cloud alone would have written."""
        if self._committed_s is not None and self._alone_tokens_per_s:
            seconds = outcome.now_s - self._committed_s
            self.cloud.on_committed(outcome.num_committed, self._alone_tokens_per_s * seconds)
        self._committed_s = outcome.now_s

    def _learn_from_draft(self, job: Verify, new: Tokens, known: int) -> None:
        """Note how far a draft was right; where the cloud drafts too, its tokens apart from the edge's."""
        stood = common_length(job.draft, new)
        if not self.cloud_drafts or not job.scheme.deterministic:
            self.on_draft_judged(stood - known, known <= stood < len(job.draft))
            return
        for at in range(known, min(stood + 1, len(job.draft))):
            sure = job.evidence[at]
            if sure is None:
                self._odds.on_outcome(0 if at < stood else None)
            else:
                self.cloud.on_judged(sure, at < stood)

    def on_committed(self, num_tokens: int, now_s: float) -> None:
        """The text has grown."""
        self._speed.on_commit(num_tokens, now_s)

    def on_verified(self, num_drafted: int, compute_s: float, exits_read: bool = False) -> None:
        """A forward over a draft (or a step, with none) took so long."""
        one, other = self._times, self._times_unread
        times, others = (one, other) if exits_read else (other, one)
        if times.on_forward(num_drafted, compute_s):
            others.forget()

    def _exit_times(self, num_drafted: int) -> ExitTimes | None:
        """What reading the exits costs in a verification of so many tokens, if it is known."""
        if not self._times.any_known or not self._times_unread.any_known:
            return None
        cost = self._times.ratio_to(self._times_unread, num_drafted) - 1.0
        return ExitTimes(self._times_unread.draft_s(0), cost)

    def on_draft_judged(self, stood: int, fell: bool) -> None:
        """So many tokens of a draft stood, and whether the next one did not."""
        for _ in range(stood):
            self._odds.on_outcome(0)
        if fell:
            self._odds.on_outcome(None)

    def on_stepped_beside(self, agreed: bool) -> None:
        """A step was taken although a draft lay there, whose first token it did or did not write."""
        self._odds.on_outcome(0 if agreed else None)

    def on_ready(self, num_ready: int, num_drafted: int, stood: int) -> None:
        """Of so many drafted tokens so many stood; of a draft that goes on from there so much lay ready."""
        self._ready[ending_of(num_drafted, stood)].add(num_ready)

    def expected_tokens(self, num_drafted: int) -> float:
        """What the verification of so many yields on average."""
        return expected_tokens(self._odds.rate(), num_drafted)

    def num_worth_verifying(self, num_offered: int) -> int:
        """How many of the offered tokens to verify; 0 to take a step instead."""
        if not self.times.known or not self.tuning.choose_length:
            return num_offered
        rate, best, most = self._odds.rate(), 0, 0.0
        tokens = survives = 1.0  # `expected_tokens` of every length, in one sum
        for length in range(num_offered + 1):
            gain = tokens / self.times.draft_s(length)
            if gain >= most:
                best, most = length, gain
            survives *= rate
            tokens += survives
        return best

    def prospect(self, evidence: Sequence[float | None], certain: int, room: int) -> Prospect:
        """What the next verification yields, by the evidence of the draft that lies ready; see `extent`."""
        extent, own = self.extent(evidence, certain, room), self.cloud.rate
        tokens = alive = 1.0
        for token in self._ready_tokens(evidence[: extent.ready], certain):
            alive *= token.chance
            tokens += alive
        return Prospect(tokens, alive * own if extent.more else 0.0, own)

    def _ready_tokens(self, evidence: Sequence[float | None], certain: int) -> list[Ready]:
        """The tokens that lie ready, of which the first `certain` are verified in any case."""
        rate = self._edge_rate
        draft = [
            Ready(rate, False) if sure is None else Ready(self.cloud.chance(sure), True) for sure in evidence
        ]
        draft[:certain] = [Ready(1.0, True)] * min(certain, len(draft))
        return draft

    @property
    def _edge_rate(self) -> float:
        """The chance of a token that the edge has drafted. Where the target is shared, so that drafting it
        anew would cost everyone, it is thought as good as the cloud's own until it proves less.
        """
        rate, own = self._odds.rate(), self.cloud.rate
        if not self.cloud.is_shared or self._odds.proves_less_than(own, self.tuning.change_signs):
            return rate
        return max(rate, own)

    def extent(
        self, evidence: Sequence[float | None], certain: int, room: int, may_draft: bool = True
    ) -> Extent:
        """What to verify of the draft that lies ready, by the evidence of its tokens, and how many the cloud
        should draft behind it, where it `may_draft`. The first `certain` tokens are verified in any case.
        """
        draft = self._ready_tokens(evidence, certain)
        price = Price(self._cloud_price(room), self.cloud.draft_s(self.times.draft_s(0)))
        own = self.cloud.rate if may_draft else 0.0
        return best_extent(draft, own, room, price, self.times.draft_s)

    def chance_of(self, rank: int, evidence: float | None) -> float:
        """The chance of a drafted token of this rank, the edge's or the cloud's, given the text before it."""
        if evidence is None:
            first = self._edge_rate
        else:
            first = self.cloud.chance(1.0 - evidence if rank else evidence)
        if not rank:
            return first
        second = self.tuning.acceptance_priors[1]
        return (1.0 - first) * second * (1.0 - second) ** (rank - 1)

    def on_cloud_drafted(self, seconds: float, places: int) -> None:
        """A token of the cloud's own draft at so many places of a text took so long."""
        self.cloud.on_drafted(seconds, self.times.draft_s(0), places)

    def probe_due(self, num_ready: int) -> bool:
        """Whether the cloud should draft a token behind so many ready ones only to see if it is right."""
        row_s = max(0.0, self.times.draft_s(num_ready + 1) - self.times.draft_s(num_ready))
        return self.cloud.probe_due(row_s, self.times.draft_s(0), self._tokens_per_s, self.exit_gate.is_quiet)

    def _cloud_price(self, room: int) -> float:
        """What time is worth where the cloud drafts: what it would write alone, and what is written beyond
        that with the drafts of the robot and the exits.
        """
        cloud = self.cloud
        draft_s = cloud.draft_s(self.times.draft_s(0))
        self._alone_tokens_per_s = steady_tokens_per_s(cloud.rate, room, draft_s, self.times.draft_s)
        return cloud.help * self._alone_tokens_per_s

    def gain_of_restart(
        self, chance: float, num_drafted: int, num_named: int, num_ready: int, elapsed_s: float
    ) -> float:
        """Tokens gained by aborting a verification after so long for one of its likely outcome, of so many
        tokens, and so many more that lie ready, or none.

        With that `chance` one forward does for two, but for what would have come to those ready before the
        second, as much as usually lies ready by then; else is lost what else the draft had right from where
        the outcome leaves it. To begin again takes its time too.
        """
        if not self._timed:
            return 0.0
        rate, running_s = self._odds.rate(), self.times.draft_s(num_drafted)
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
        """Whether a forward can be weighed against another."""
        return self.times.any_known if self.cloud_drafts else self.times.step_known

    def _usually_ready(self, num_drafted: int, num_named: int) -> float:
        """How many tokens usually lie ready after the verification of so many that ends with those named."""
        return self._ready[ending_of(num_drafted, num_named - 1)].value

    @property
    def _tokens_per_s(self) -> float:
        """What time is worth, once a forward has been timed: never less than steps write."""
        lately = self.cloud.help * self._alone_tokens_per_s if self.cloud_drafts else self._speed.value
        return max(lately, 1.0 / self.times.draft_s(0))
