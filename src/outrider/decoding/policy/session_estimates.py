# SPDX-License-Identifier: Apache-2.0
"""What a session's policy knows: acceptance, times and speed, and what choices are worth by them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from outrider.decoding.jobs import Verify
from outrider.decoding.policy.estimators import AcceptanceRates, ExponentialMean, Throughput
from outrider.decoding.policy.exit_calibration import ExitCalibrator
from outrider.decoding.policy.exit_gate import ExitGate
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


class SessionEstimates:
    """One session's estimates at the cloud, over all its texts. Times in seconds of the cloud's clock."""

    def __init__(self, tuning: AdaptiveTuning = DEFAULT_TUNING) -> None:
        self.tuning = tuning
        self.trust = ExitCalibrator(tuning)
        self.times = ForwardTimes(tuning)
        self._speed = Throughput(tuning)
        self._odds = AcceptanceRates(tuning)
        self._second = AcceptanceRates(tuning, (tuning.sibling_prior,))
        self._ready: dict[Ending, ExponentialMean] = {
            ending: ExponentialMean(tuning) for ending in ("step", "whole", "fell")
        }
        self.exit_gate = ExitGate(tuning)

    def begin_text(self) -> None:
        """Another text begins."""
        self.times.begin_text()
        self._speed.begin_text()
        self.exit_gate.begin_text()

    def on_verdict(self, outcome: VerificationOutcome, known: int = 0) -> None:
        """Learn from a verification; of the first `known` tokens of its draft it was learnt before."""
        job, new, forwarded = outcome.job, outcome.new, outcome.compute_s > 0.0
        exits_read = job.hints if outcome.alone else None
        if forwarded:
            num_beside = job.num_rows - 1 - len(job.draft)
            self.on_verified(len(job.draft), outcome.compute_s, num_beside, exits_read)
            self._learn_from_siblings(job, new)
            stood = common_length(job.draft, new)
            self.on_draft_judged(stood - known, known <= stood < len(job.draft))
        if not job.draft and outcome.offered is not None and new:
            self.on_stepped_beside(outcome.offered == new[0])
        self.on_committed(outcome.num_committed, outcome.now_s)
        gated = exits_read if job.needs_forward else None
        self.exit_gate.on_commit(outcome.num_committed, outcome.now_s, gated)
        if outcome.num_ready is not None:
            self.on_ready(outcome.num_ready, outcome.num_drafted, outcome.accepted)

    def _learn_from_siblings(self, job: Verify, new: Tokens) -> None:
        """Where the draft was rejected, note whether a sibling that left it there was right."""
        stood = common_length(job.draft, new)
        others = [draft[stood] for draft in job.beside if draft[:stood] == job.draft[:stood]]
        if stood < len(job.draft) and others:
            self.on_second_judged(new[stood] in others)

    def on_committed(self, num_tokens: int, now_s: float) -> None:
        """The text has grown."""
        self._speed.on_commit(num_tokens, now_s)

    def on_verified(
        self, num_drafted: int, compute_s: float, num_beside: int = 0, heard: bool | None = None
    ) -> None:
        """A forward over a draft (or a step, with none) and so many tokens of others took so long. `heard`:
        whether its early exits were asked; None where other robots' work was done with it.
        """
        if self.times.step_known and heard is not None:
            usual_s = (
                self.times.wide_s(num_drafted + num_beside) if num_beside else self.times.draft_s(num_drafted)
            )
            self.exit_gate.on_forward(heard, compute_s, usual_s)
        self.times.on_forward(num_drafted, compute_s, num_beside)

    def on_draft_judged(self, stood: int, fell: bool) -> None:
        """So many tokens of a draft stood, and whether the next one did not."""
        for _ in range(stood):
            self._odds.on_outcome(0)
        if fell:
            self._odds.on_outcome(None)

    def on_second_judged(self, stood: bool) -> None:
        """Whether another draft that was verified beside one went on where that one fell."""
        self._second.on_outcome(0 if stood else None)

    def on_stepped_beside(self, agreed: bool) -> None:
        """A step was taken although a draft lay there, whose first token it did or did not write."""
        self._odds.on_outcome(0 if agreed else None)

    def on_ready(self, num_ready: int, num_drafted: int, stood: int) -> None:
        """Of so many drafted tokens so many stood; of a draft that goes on from there so much lay ready."""
        self._ready[_ending(num_drafted, stood)].add(num_ready)

    def expected_tokens(self, num_drafted: int) -> float:
        """What the verification of so many yields on average."""
        return expected_tokens(self._odds.rate(), num_drafted)

    def chunk_length(self, num_offered: int) -> int:
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

    def num_beside(self, num_drafted: int, leaves: Sequence[tuple[int, int]]) -> int:
        """How many of the drafts that leave one of so many tokens to verify beside it, each given by where it
        leaves and its length. What they yield is weighed against what is written in the time they take.
        """
        if not self.times.known or not self.tuning.siblings:
            return 0
        rate, second, alone_s = self._odds.rate(), self._second.rate(), self.times.draft_s(num_drafted)
        speed = self._tokens_per_s
        best, most, tokens, rows = 0, 0.0, 0.0, num_drafted
        places: set[int] = set()
        for count, (left_at, length) in enumerate(leaves, 1):
            if left_at not in places:  # `second` is the chance of all that leave there
                tokens += rate**left_at * (1.0 - rate) * second * expected_tokens(rate, length - left_at - 1)
            places.add(left_at)
            rows += length + 1
            gain = tokens - speed * (self.times.wide_s(rows) - alone_s)
            if gain >= most:
                best, most = count, gain
        return best

    def gain_of_aim(
        self, chance: float, num_drafted: int, num_named: int, num_ready: int, elapsed_s: float
    ) -> float:
        """Tokens gained by giving up a verification after so long for one of its likely outcome, of so many
        tokens, and so many more that lie ready, or none.

        With that `chance` one forward does for two, but for what would have come to those ready before the
        second, as much as usually lies ready by then; else is lost what else the draft had right from where
        the outcome leaves it. To begin again takes its time too.
        """
        num_beyond = max(0, num_drafted - num_named + 1)
        lost = expected_tokens(self._odds.rate(), num_beyond)
        to_come = max(0.0, self._usually_ready(num_drafted, num_named) - num_ready)
        return self._gain_of_leaving(chance, num_drafted, num_named, num_ready, elapsed_s, to_come, lost)

    def gain_of_more(self, chance: float, num_drafted: int, num_more: int, elapsed_s: float) -> float:
        """Tokens gained by giving up the verification of so many after so long for one that goes on with so
        many more, the first of which it judges right with that `chance`. Where it does not, only time is
        lost. Drafts have come and go on coming, however many lie ready.
        """
        num_named, num_ready = num_drafted + 1, num_more - 1
        to_come = self._usually_ready(num_drafted, num_named)
        return self._gain_of_leaving(chance, num_drafted, num_named, num_ready, elapsed_s, to_come, lost=0.0)

    def _gain_of_leaving(
        self,
        chance: float,
        num_drafted: int,
        num_named: int,
        num_ready: int,
        elapsed_s: float,
        to_come: float,
        lost: float,
    ) -> float:
        """`to_come`: tokens that would have joined those ready, were none of the forward's time over yet;
        `lost`: tokens, where it was wrong.
        """
        if not self.times.step_known:
            return 0.0
        rate, running_s = self._odds.rate(), self.times.draft_s(num_drafted)
        whole_s, speed = self.times.draft_s(num_named + num_ready), self._tokens_per_s
        to_come *= max(0.0, 1.0 - elapsed_s / running_s)
        fewer = expected_tokens(rate, num_ready + to_come) - expected_tokens(rate, num_ready)
        right = speed * (running_s + self.times.draft_s(num_ready) - whole_s) - fewer
        wrong = lost + speed * max(0.0, whole_s - running_s)
        return chance * right - (1.0 - chance) * wrong - speed * (elapsed_s + self.times.begin_again_s)

    def _usually_ready(self, num_drafted: int, num_named: int) -> float:
        """How many tokens usually lie ready after the verification of so many that ends with those named."""
        return self._ready[_ending(num_drafted, num_named - 1)].value

    @property
    def _tokens_per_s(self) -> float:
        """What time is worth, once a step has been timed: never less than steps write."""
        return max(self._speed.value, 1.0 / self.times.step_s)


def _ending(num_drafted: int, stood: int) -> Ending:
    if not num_drafted:
        return "step"
    return "whole" if stood >= num_drafted else "fell"
