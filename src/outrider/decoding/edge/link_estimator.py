# SPDX-License-Identifier: Apache-2.0
"""The edge's estimates: how likely drafts are, when the cloud will be free, what is worth sending now."""

from __future__ import annotations

from dataclasses import dataclass

from outrider.decoding.config import DecodingConfig
from outrider.decoding.policy.estimators import (
    CalibratedAcceptance,
    ExponentialMean,
    ExponentialRatio,
    MinRtt,
    Throughput,
)
from outrider.decoding.theory import expected_tokens


@dataclass(frozen=True)
class VerdictObservation:
    """The data of a verdict for the estimates.

    `compute_s`: None or 0 if there was no forward. `next_sent_s`: when a draft was sent that continues from
    the verdict, if any. `passes`: number of the target's forwards since the verdict before.
    """

    num_tokens: int
    drafted: int
    compute_s: float | None
    next_sent_s: float | None
    passes: int = 1


class EdgeEstimator:
    """One session's estimates. Times are seconds of the edge's clock."""

    def __init__(self, config: DecodingConfig) -> None:
        self._config = config
        self._tuning = tuning = config.tuning
        self.acceptance = CalibratedAcceptance(tuning)
        self.draft = ExponentialMean(tuning)
        self.verify = ExponentialMean(tuning)
        self.step = ExponentialMean(tuning)
        self.round_trip = MinRtt(tuning)
        self._at_once = ExponentialRatio(tuning.mean_memory, 2.0)
        """The share of drafts, of those that reached the cloud in time, that its next batch verified."""
        self._waited_s = ExponentialMean(tuning)
        self._waits_since_s: float | None = None
        self._speed = Throughput(tuning)
        self._free_s = 0.0

    def on_opened(self, now_s: float) -> None:
        """Note that the cloud has read the prompt and has nothing to verify yet."""
        self._free_s = now_s - self.round_trip.value / 2.0
        self._waits_since_s = None
        self._speed.begin_text()

    def on_sent(self, now_s: float) -> None:
        """Record a draft sent now. An idle cloud verifies it on arrival."""
        arrival_s = now_s + self.round_trip.value / 2.0
        if self._free_s <= arrival_s:
            self._free_s = arrival_s + self.verify.value

    def on_verdict(self, now_s: float, verdict: VerdictObservation) -> None:
        """Record a verdict."""
        self._speed.on_commit(verdict.num_tokens, now_s)
        if verdict.compute_s:
            (self.verify if verdict.drafted else self.step).add(verdict.compute_s)
            self._learn_wait(now_s, verdict)
        one_way_s = self.round_trip.value / 2.0
        self._free_s = now_s - one_way_s
        arrived = verdict.next_sent_s is not None and verdict.next_sent_s + one_way_s <= self._free_s
        self._waits_since_s = now_s if arrived else None
        if verdict.next_sent_s is not None:
            self._free_s = max(self._free_s, verdict.next_sent_s + one_way_s) + self.verify.value

    def _learn_wait(self, now_s: float, verdict: VerdictObservation) -> None:
        """Learn how long a draft that had arrived in time waited for its own forward.

        The time of aborted forwards of the same text, counted in `passes`, is no wait. A verdict without
        drafted tokens is ignored: it is a step, taken because the draft came late.
        """
        if self._waits_since_s is not None and verdict.drafted and verdict.compute_s:
            own_s, passed_s = verdict.passes * verdict.compute_s, now_s - self._waits_since_s
            self._at_once.add(passed_s <= self._tuning.turn_wait * own_s, 1.0)
            self._waited_s.add(passed_s - own_s)

    @property
    def waits_for_others(self) -> bool:
        """Whether robots share the target so much that most drafts wait for another batch first, and the
        wait is long enough to draft a whole chunk and one token more.
        """
        chunk_s = (self._config.num_draft_tokens + 1) * self.draft.value
        return self._at_once.value < 0.5 and self._waited_s.value > chunk_s

    @property
    def min_useful_tokens(self) -> int:
        """The fewest draft tokens that are worth more to verify than a step."""
        if not (self.verify.known and self.step.known):
            return 1
        rate = self.acceptance.rate()
        lengths = range(1, self._config.num_draft_tokens + 1)
        gain_of_step = self.verify.value / self.step.value
        return next((n for n in lengths if expected_tokens(rate, n) > gain_of_step), lengths[-1])

    def should_send(self, num_tokens: int, now_s: float) -> bool:
        """Return whether to send a draft of `num_tokens` now, rather than wait for one more token."""
        if not self.verify.known:
            return num_tokens >= self._config.num_draft_tokens
        # Waiting gains the chance of one token; it costs what is usually written while the cloud is idle.
        arrival_s = now_s + self.round_trip.value / 2.0
        idle_s = max(0.0, arrival_s + self.draft.value - max(arrival_s, self._free_s))
        return num_tokens > 0 and self.acceptance.rate() ** (num_tokens + 1) <= self._tokens_per_s * idle_s

    @property
    def _tokens_per_s(self) -> float:
        """Tokens per second as measured; at least `idle_speed` of the speed of a cloud that never waits."""
        well_fed = expected_tokens(self.acceptance.rate(), self._config.num_draft_tokens) / self.verify.value
        return max(self._speed.value, self._tuning.idle_speed * well_fed)
