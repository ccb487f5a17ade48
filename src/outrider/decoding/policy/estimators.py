# SPDX-License-Identifier: Apache-2.0
"""Estimators for both sides: acceptance, times of models and link. Plain numbers, no clock."""

from __future__ import annotations

import copy
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Sequence
from math import exp, sqrt
from operator import mul

from outrider.decoding.tuning import DEFAULT_TUNING, AdaptiveTuning

FARTHEST_ODDS = 30.0
"""Bound on log-odds: beyond it a chance is as good as certain, and the exponential could overflow."""


class AcceptanceRates:
    """How often the target picks the draft's choice of each rank, given that it picked none before it.

    A rate is a mean over trials with fading memory. It starts from the tuning's `acceptance_priors`, which
    weigh `prior_trials`.
    """

    def __init__(self, tuning: AdaptiveTuning = DEFAULT_TUNING) -> None:
        priors = tuning.acceptance_priors
        self.memory = tuning.rate_memory
        self._hits = [prior * tuning.prior_trials for prior in priors]
        self._trials = [tuning.prior_trials] * len(priors)

    def on_outcome(self, rank: int | None) -> None:
        """Record that the target picked the choice of this rank, or (None) none of the ranked ones."""
        for index in range(len(self._hits)):
            hit = rank == index
            self._trials[index] = self.memory * self._trials[index] + 1.0
            self._hits[index] = self.memory * self._hits[index] + hit
            if hit:
                return

    def rate(self, rank: int = 0) -> float:
        """Return the chance that the choice of this rank is right, given that no earlier one is."""
        if rank >= len(self._hits):
            return 0.0
        return self._hits[rank] / self._trials[rank]

    def proves_less_than(self, rate: float, deviations: float) -> bool:
        """Whether the rate of first choices is below `rate` by more than `deviations` standard deviations."""
        return rate - self.rate() > deviations * sqrt(rate * (1.0 - rate) / self._trials[0])


class CalibratedAcceptance(AcceptanceRates):
    """Acceptance rates that also distinguish first choices by the confidence of the draft."""

    def __init__(
        self,
        tuning: AdaptiveTuning = DEFAULT_TUNING,
        memory: float | None = None,
    ) -> None:
        """`memory`: the weight that a rate keeps at each trial; `rate_memory` of the tuning by default."""
        super().__init__(tuning)
        self.memory = tuning.rate_memory if memory is None else memory
        self._prior_trials = tuning.prior_trials
        self._limits = tuning.confidence_levels if tuning.draft_levels else ()
        self._level_hits = [0.0] * (len(self._limits) + 1)
        self._level_trials = [0.0] * (len(self._limits) + 1)

    def with_memory(self, memory: float) -> CalibratedAcceptance:
        """Return a copy of these rates that uses another memory from now on."""
        copied = copy.deepcopy(self)
        copied.memory = memory
        return copied

    def on_verdict(self, rank: int | None, confidence: float) -> None:
        """Record an outcome as `on_outcome` does, for a draft with this confidence in its first choice."""
        self.on_outcome(rank)
        level = bisect_right(self._limits, confidence)
        self._level_trials[level] = self.memory * self._level_trials[level] + 1.0
        self._level_hits[level] = self.memory * self._level_hits[level] + (rank == 0)

    def chance(self, rank: int, confidence: float) -> float:
        """Return the chance that the choice of this rank is right, by the confidence in the first choice."""
        level, prior_trials = bisect_right(self._limits, confidence), self._prior_trials
        hits, trials = self._level_hits[level], self._level_trials[level]
        chance, missed = (hits + prior_trials * self.rate()) / (trials + prior_trials), 1.0
        for choice in range(1, rank + 1):
            missed *= 1.0 - chance
            chance = self.rate(choice)
        return missed * chance


class SteadyAcceptance:
    """The acceptance rate of a draft's first choice, with a long memory as long as nothing changes.

    Estimates with shorter memories run in parallel. If one differs from the long one by more than chance
    explains, the draft's quality has changed: all longer memories restart from the shorter one. Without
    `steady_rates` there is one estimate only, with `rate_memory`.
    """

    def __init__(self, tuning: AdaptiveTuning = DEFAULT_TUNING) -> None:
        self._tuning = tuning
        longest, shorter = tuning.steady_memory, tuning.change_memories
        if not tuning.steady_rates:
            longest, shorter = tuning.rate_memory, ()
        self._longest = CalibratedAcceptance(tuning, memory=longest)
        self._shorter = [CalibratedAcceptance(tuning, memory=memory) for memory in shorter]

    def on_outcome(self, rank: int | None, confidence: float = 1.0) -> None:
        """Record the rank that the target picked (None: none) and the confidence in the first choice."""
        for rates in (self._longest, *self._shorter):
            rates.on_verdict(rank, confidence)
        for index, rates in enumerate(self._shorter):
            if self._differs(rates):
                self._adopt(index)

    def begin_anew(self) -> None:
        """Restart from the shortest memory if its rate is lower."""
        if self._shorter and self._shorter[-1].rate() < self._longest.rate():
            self._adopt(len(self._shorter) - 1)

    def _adopt(self, index: int) -> None:
        """Restart all longer memories from the shorter one at this index."""
        rates = self._shorter[index]
        self._longest = rates.with_memory(self._longest.memory)
        for longer in range(index):
            self._shorter[longer] = rates.with_memory(self._shorter[longer].memory)

    def _differs(self, rates: CalibratedAcceptance) -> bool:
        rate = (self._longest.rate() + rates.rate()) / 2.0
        deviation = sqrt(rate * (1.0 - rate) * (1.0 - rates.memory))
        return abs(self._longest.rate() - rates.rate()) > self._tuning.change_deviations * deviation

    def rate(self) -> float:
        """Return the chance that a first choice is right."""
        return self._longest.rate()

    def proves_less_than(self, rate: float, deviations: float) -> bool:
        """Whether first choices are right less often than `rate`; see `AcceptanceRates`."""
        return self._longest.proves_less_than(rate, deviations)

    def chance(self, confidence: float) -> float:
        """Return the chance that a first choice with this confidence is right."""
        return self._longest.chance(0, confidence)


class Regression:
    """The chance of an event given its features: online logistic regression.

    Each outcome moves the weights by a step of AdaGrad (Duchi, Hazan and Singer 2011). The memory of earlier
    steps fades, so that late changes are learnt too.
    """

    def __init__(self, weights: Sequence[float], tuning: AdaptiveTuning = DEFAULT_TUNING) -> None:
        """`weights`: the initial ones, one per feature."""
        self._learning_rate, self._step_memory = tuning.learning_rate, tuning.step_memory
        self._weights = list(weights)
        self._moved = [1.0] * len(self._weights)

    def chance(self, features: Sequence[float]) -> float:
        """Return the chance of the event given the features, one number each."""
        log_odds = sum(map(mul, self._weights, features))
        return 1.0 / (1.0 + exp(min(max(-log_odds, -FARTHEST_ODDS), FARTHEST_ODDS)))

    def on_outcome(self, features: Sequence[float], came: bool) -> None:
        """Learn whether the event came, given these features."""
        error = self.chance(features) - came
        for index, feature in enumerate(features):
            slope = error * feature
            self._moved[index] = max(1.0, self._step_memory * self._moved[index] + slope * slope)
            self._weights[index] -= self._learning_rate * slope / sqrt(self._moved[index])


class ExponentialRatio:
    """A ratio of two sums with fading memory. Both sums start at `weight`, so that the ratio starts at 1."""

    def __init__(self, memory: float, weight: float, unknown: float = 1.0) -> None:
        """`unknown`: the ratio while the lower sum is 0."""
        self._memory, self._unknown = memory, unknown
        self._above = self._below = weight

    def add(self, above: float, below: float = 1.0) -> None:
        """Add to both sums; older entries lose weight first."""
        self._above = self._memory * self._above + above
        self._below = self._memory * self._below + below

    @property
    def value(self) -> float:
        """The ratio of the two sums."""
        return self._above / self._below if self._below else self._unknown


class ExponentialMean(ExponentialRatio):
    """A mean with fading memory; 0 until the first value."""

    def __init__(self, tuning: AdaptiveTuning = DEFAULT_TUNING) -> None:
        super().__init__(tuning.mean_memory, 0.0, 0.0)

    @property
    def known(self) -> bool:
        """Whether a value was added."""
        return self._below > 0.0


class Deviation:
    """The standard deviation of values, with fading memory. It starts at `guess`, weighted as two values."""

    def __init__(self, memory: float, guess: float) -> None:
        self._memory, self._weight, self._sum, self._squares = memory, 2.0, 2.0, 2.0 * (1.0 + guess**2)

    def add(self, value: float) -> None:
        """Add a value; older ones lose weight first."""
        self._weight = self._memory * self._weight + 1.0
        self._sum = self._memory * self._sum + value
        self._squares = self._memory * self._squares + value * value

    @property
    def value(self) -> float:
        """The deviation from the mean."""
        return sqrt(max(0.0, self._squares / self._weight - (self._sum / self._weight) ** 2))


class BatchTime:
    """The time of a batch by its number of sessions: means with fading memory, interpolated linearly.

    A size that has not occurred in the last `batch_window` batches is forgotten. So a size that one hiccup
    made look expensive is tried again.
    """

    def __init__(self, tuning: AdaptiveTuning = DEFAULT_TUNING, unseen_s: float = 1.0) -> None:
        self._tuning, self._unseen_s = tuning, unseen_s
        self._means: dict[int, ExponentialMean] = {}
        self._seen_at: dict[int, int] = {}
        self._batches = 0

    def add(self, sessions: int, seconds: float) -> None:
        """Record a batch of that many sessions and its time."""
        self._batches += 1
        self._seen_at[sessions] = self._batches
        self._means.setdefault(sessions, ExponentialMean(self._tuning)).add(seconds)
        oldest = self._batches - self._tuning.batch_window
        for size in [size for size, at in self._seen_at.items() if at <= oldest]:
            del self._means[size], self._seen_at[size]

    def seconds(self, sessions: int) -> float:
        """Return the time of a batch. Outside the sizes seen, that of the nearest; before any, `unseen_s`."""
        sizes = sorted(self._means)
        if not sizes:
            return self._unseen_s
        at = bisect_left(sizes, sessions)
        low, high = sizes[max(at - 1, 0)], sizes[min(at, len(sizes) - 1)]
        share = (sessions - low) / (high - low) if low < sessions < high else float(sessions >= high)
        return self._means[low].value + share * (self._means[high].value - self._means[low].value)

    def untimed_neighbour(self, sessions: int) -> int:
        """Return an untimed size that may have more throughput in sessions per second than `sessions` has.

        That is the middle between the next smaller timed size and `sessions`, else the middle between
        `sessions` and the next larger one, else `sessions` itself.
        """
        below = max((size for size in self._means if size < sessions), default=0)
        above = min((size for size in self._means if size > sessions), default=sessions)
        # A larger batch takes at least as long as the timed smaller one, so sizes up to `least` cannot win.
        least = min(sessions, sessions * self.seconds(below) / self.seconds(sessions)) if below else 0.0
        middles = (int(max(below, least) + sessions + 1) // 2, (sessions + above) // 2)
        return next((middle for middle in middles if middle not in self._means), sessions)


class Throughput:
    """Recent tokens per second of a text, measured between commits; 0 until known."""

    def __init__(self, tuning: AdaptiveTuning = DEFAULT_TUNING) -> None:
        self._memory = tuning.rate_memory
        self._tokens = self._seconds = 0.0
        self._last_s: float | None = None

    def begin_text(self) -> None:
        """Start a text: the time since the last one does not count."""
        self._last_s = None

    def on_commit(self, num_tokens: int, now_s: float) -> None:
        """Add the tokens that became final at `now_s`."""
        if self._last_s is not None:
            self._tokens = self._memory * self._tokens + num_tokens
            self._seconds = self._memory * self._seconds + now_s - self._last_s
        self._last_s = now_s

    @property
    def value(self) -> float:
        """Tokens per second; 0 until two commits are known."""
        return self._tokens / self._seconds if self._seconds > 0.0 else 0.0


class MinRtt:
    """The link's round trip: the least of the recent answer times, each less the cloud's compute time."""

    def __init__(self, tuning: AdaptiveTuning = DEFAULT_TUNING) -> None:
        self._recent: deque[float] = deque(maxlen=tuning.round_trip_window)
        self.value = 0.0

    def add(self, elapsed_s: float, compute_s: float) -> None:
        """Add the time that an answer took, less the seconds that the cloud computed."""
        self._recent.append(max(0.0, elapsed_s - compute_s))
        self.value = min(self._recent)
