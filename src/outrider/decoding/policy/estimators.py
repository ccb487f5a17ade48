# SPDX-License-Identifier: Apache-2.0
"""What both sides learn from what they see: acceptance, times of models and link. Plain numbers, no clock."""

from __future__ import annotations

import copy
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Sequence
from math import exp, sqrt
from operator import mul

from outrider.decoding.tuning import DEFAULT_TUNING, AdaptiveTuning

FARTHEST_ODDS = 30.0
"""Log-odds beyond these are as good as sure, and their exponentials might overflow."""


class AcceptanceRates:
    """How often the target writes the draft's first choice, and its second where not the first, and so on.

    A rate is a mean over trials with fading memory, begun with a guess that counts as `prior_trials`.
    """

    def __init__(
        self, tuning: AdaptiveTuning = DEFAULT_TUNING, priors: tuple[float, ...] | None = None
    ) -> None:
        """`priors`: the guesses by rank, `acceptance_priors` where none are given."""
        priors = tuning.acceptance_priors if priors is None else priors
        self.memory = tuning.rate_memory
        self._hits = [prior * tuning.prior_trials for prior in priors]
        self._trials = [tuning.prior_trials] * len(priors)

    def on_outcome(self, rank: int | None) -> None:
        """The target wrote the choice of this rank, or none of those ranked."""
        for index in range(len(self._hits)):
            hit = rank == index
            self._trials[index] = self.memory * self._trials[index] + 1.0
            self._hits[index] = self.memory * self._hits[index] + hit
            if hit:
                return

    def rate(self, rank: int = 0) -> float:
        """The chance that the choice of this rank is right, given that none before it is."""
        if rank >= len(self._hits):
            return 0.0
        return self._hits[rank] / self._trials[rank]

    def proves_less_than(self, rate: float, signs: float) -> bool:
        """Whether first choices are right more seldom than a rate, by so many standard deviations."""
        return rate - self.rate() > signs * sqrt(rate * (1.0 - rate) / self._trials[0])


class CalibratedAcceptance(AcceptanceRates):
    """Odds that know the first choice apart for drafts of different confidence."""

    def __init__(
        self,
        tuning: AdaptiveTuning = DEFAULT_TUNING,
        priors: tuple[float, ...] | None = None,
        memory: float | None = None,
    ) -> None:
        """`memory`: the weight that a rate keeps at the next trial, `rate_memory` where none is given."""
        super().__init__(tuning, priors)
        self.memory = tuning.rate_memory if memory is None else memory
        self._prior_trials = tuning.prior_trials
        self._limits = tuning.confidence_levels if tuning.draft_levels else ()
        self._level_hits = [0.0] * (len(self._limits) + 1)
        self._level_trials = [0.0] * (len(self._limits) + 1)

    def with_memory(self, memory: float) -> CalibratedAcceptance:
        """The same odds as of now with another memory from now on."""
        other = copy.deepcopy(self)
        other.memory = memory
        return other

    def on_verdict(self, rank: int | None, confidence: float) -> None:
        """As `on_outcome`, of a draft so sure of its first choice."""
        self.on_outcome(rank)
        level = bisect_right(self._limits, confidence)
        self._level_trials[level] = self.memory * self._level_trials[level] + 1.0
        self._level_hits[level] = self.memory * self._level_hits[level] + (rank == 0)

    def chance(self, rank: int, confidence: float) -> float:
        """The chance that the choice of this rank is right, of a draft so sure of its first."""
        level, prior_trials = bisect_right(self._limits, confidence), self._prior_trials
        hits, trials = self._level_hits[level], self._level_trials[level]
        chance, missed = (hits + prior_trials * self.rate()) / (trials + prior_trials), 1.0
        for choice in range(1, rank + 1):
            missed *= 1.0 - chance
            chance = self.rate(choice)
        return missed * chance


class SteadyAcceptance:
    """The odds of a draft's first choice, with a long memory as long as nothing changes.

    Other estimates have shorter ones. Where one differs from the long by more than chance explains, the draft
    is another now: all longer memories begin anew with what the short one holds. Without `steady_rates` there
    is one memory, `rate_memory`.
    """

    def __init__(self, tuning: AdaptiveTuning = DEFAULT_TUNING) -> None:
        self._tuning = tuning
        longest, shorter = tuning.steady_memory, tuning.change_memories
        if not tuning.steady_rates:
            longest, shorter = tuning.rate_memory, ()
        self._odds = CalibratedAcceptance(tuning, memory=longest)
        self._shorter = [CalibratedAcceptance(tuning, memory=memory) for memory in shorter]

    def on_outcome(self, rank: int | None, confidence: float = 1.0) -> None:
        """The target wrote the choice of this rank, or none; the draft was so sure of its first."""
        for odds in (self._odds, *self._shorter):
            odds.on_verdict(rank, confidence)
        for place, odds in enumerate(self._shorter):
            if self._differs(odds):
                self._adopt(place)

    def begin_anew(self) -> None:
        """Hold for true what the shortest memory does, if that is less."""
        if self._shorter and self._shorter[-1].rate() < self._odds.rate():
            self._adopt(len(self._shorter) - 1)

    def _adopt(self, place: int) -> None:
        """Begin all longer memories anew with what this one holds."""
        odds = self._shorter[place]
        self._odds = odds.with_memory(self._odds.memory)
        for longer in range(place):
            self._shorter[longer] = odds.with_memory(self._shorter[longer].memory)

    def _differs(self, odds: CalibratedAcceptance) -> bool:
        rate = (self._odds.rate() + odds.rate()) / 2.0
        deviation = sqrt(rate * (1.0 - rate) * (1.0 - odds.memory))
        return abs(self._odds.rate() - odds.rate()) > self._tuning.change_signs * deviation

    def rate(self) -> float:
        """The chance of a first choice."""
        return self._odds.rate()

    def proves_less_than(self, rate: float, signs: float) -> bool:
        """Whether first choices are right more seldom than a rate; see `AcceptanceRates`."""
        return self._odds.proves_less_than(rate, signs)

    def chance(self, confidence: float) -> float:
        """The chance of a first choice of which the draft is so sure."""
        return self._odds.chance(0, confidence)


class Regression:
    """The chance of an event by what speaks for it, learnt as it comes or not: logistic regression, whose
    weights each outcome moves by the steps of AdaGrad (Duchi, Hazan and Singer 2011), with a fading memory of
    the steps so far: what changes late is learnt as well.
    """

    def __init__(self, weights: Sequence[float], tuning: AdaptiveTuning = DEFAULT_TUNING) -> None:
        """`weights`: those to begin with, of each sign."""
        self._learning_rate, self._step_memory = tuning.learning_rate, tuning.step_memory
        self._weights = list(weights)
        self._moved = [1.0] * len(self._weights)

    def chance(self, signs: Sequence[float]) -> float:
        """Given these signs, one number each."""
        log_odds = sum(map(mul, self._weights, signs))
        return 1.0 / (1.0 + exp(min(max(-log_odds, -FARTHEST_ODDS), FARTHEST_ODDS)))

    def on_outcome(self, signs: Sequence[float], came: bool) -> None:
        """The event came, or did not, where the signs were these."""
        error = self.chance(signs) - came
        for index, sign in enumerate(signs):
            slope = error * sign
            self._moved[index] = max(1.0, self._step_memory * self._moved[index] + slope * slope)
            self._weights[index] -= self._learning_rate * slope / sqrt(self._moved[index])


class ExponentialRatio:
    """A ratio of sums with fading memory, begun as 1 with a prior's weight."""

    def __init__(self, memory: float, weight: float, unknown: float = 1.0) -> None:
        """`unknown`: the ratio as long as the sums are 0."""
        self._memory, self._unknown = memory, unknown
        self._above = self._below = weight

    def add(self, above: float, below: float = 1.0) -> None:
        """Add to both sums, after the older entries have lost weight."""
        self._above = self._memory * self._above + above
        self._below = self._memory * self._below + below

    @property
    def value(self) -> float:
        """The ratio of the two sums."""
        return self._above / self._below if self._below else self._unknown


class ExponentialMean(ExponentialRatio):
    """A mean with fading memory, of the values that are added; 0 until the first one."""

    def __init__(self, tuning: AdaptiveTuning = DEFAULT_TUNING) -> None:
        super().__init__(tuning.mean_memory, 0.0, 0.0)

    @property
    def known(self) -> bool:
        """Whether a value was added."""
        return self._below > 0.0


class Deviation:
    """The standard deviation of values, with fading memory, begun as that of two values with their guess."""

    def __init__(self, memory: float, guess: float) -> None:
        self._memory, self._weight, self._sum, self._squares = memory, 2.0, 2.0, 2.0 * (1.0 + guess**2)

    def add(self, value: float) -> None:
        """Add a value, after the older ones have lost weight."""
        self._weight = self._memory * self._weight + 1.0
        self._sum = self._memory * self._sum + value
        self._squares = self._memory * self._squares + value * value

    @property
    def value(self) -> float:
        """The deviation from the mean."""
        return sqrt(max(0.0, self._squares / self._weight - (self._sum / self._weight) ** 2))


class BatchTime:
    """A batch's time by the number of its sessions: means with fading memory, straight lines between.

    What has not been seen among so many batches is forgotten: sizes that a hiccup made seem dear come again.
    """

    def __init__(self, tuning: AdaptiveTuning = DEFAULT_TUNING, unseen_s: float = 1.0) -> None:
        self._tuning, self._unseen_s = tuning, unseen_s
        self._means: dict[int, ExponentialMean] = {}
        self._seen_at: dict[int, int] = {}
        self._batches = 0

    def add(self, sessions: int, seconds: float) -> None:
        """A batch took so long."""
        self._batches += 1
        self._seen_at[sessions] = self._batches
        self._means.setdefault(sessions, ExponentialMean(self._tuning)).add(seconds)
        oldest = self._batches - self._tuning.batch_window
        for size in [size for size, at in self._seen_at.items() if at <= oldest]:
            del self._means[size], self._seen_at[size]

    def seconds(self, sessions: int) -> float:
        """Beyond the sizes seen as at the nearest; `unseen_s` while none has been seen."""
        sizes = sorted(self._means)
        if not sizes:
            return self._unseen_s
        at = bisect_left(sizes, sessions)
        low, high = sizes[max(at - 1, 0)], sizes[min(at, len(sizes) - 1)]
        share = (sessions - low) / (high - low) if low < sessions < high else float(sessions >= high)
        return self._means[low].value + share * (self._means[high].value - self._means[low].value)

    def unseen_beside(self, sessions: int) -> int:
        """Returns a size that may bring more sessions a second than one that was seen, its time not known:
        the middle of those above the next smaller one seen, else of those below the next larger; itself where
        there is none.
        """
        below = max((size for size in self._means if size < sessions), default=0)
        above = min((size for size in self._means if size > sessions), default=sessions)
        # It takes no less than a smaller batch: what is smaller yet is no gain.
        least = min(sessions, sessions * self.seconds(below) / self.seconds(sessions)) if below else 0.0
        middles = (int(max(below, least) + sessions + 1) // 2, (sessions + above) // 2)
        return next((middle for middle in middles if middle not in self._means), sessions)


class Throughput:
    """Tokens per second of late, from one commit to the next of a text; 0 until known."""

    def __init__(self, tuning: AdaptiveTuning = DEFAULT_TUNING) -> None:
        self._memory = tuning.rate_memory
        self._tokens = self._seconds = 0.0
        self._last_s: float | None = None

    def begin_text(self) -> None:
        """The time since the last text does not count."""
        self._last_s = None

    def on_commit(self, num_tokens: int, now_s: float) -> None:
        """Adds the tokens that became final at `now_s`."""
        if self._last_s is not None:
            self._tokens = self._memory * self._tokens + num_tokens
            self._seconds = self._memory * self._seconds + now_s - self._last_s
        self._last_s = now_s

    @property
    def value(self) -> float:
        """Returns tokens per second; 0 until two commits are known."""
        return self._tokens / self._seconds if self._seconds > 0.0 else 0.0


class MinRtt:
    """The link's round trip: the least of recent answers' times, what the cloud computed taken off."""

    def __init__(self, tuning: AdaptiveTuning = DEFAULT_TUNING) -> None:
        self._recent: deque[float] = deque(maxlen=tuning.round_trip_window)
        self.value = 0.0

    def add(self, elapsed_s: float, compute_s: float) -> None:
        """Adds an answer's time, less the seconds that the cloud computed."""
        self._recent.append(max(0.0, elapsed_s - compute_s))
        self.value = min(self._recent)


class ByteBudget:
    """Bytes that may be spent, filled by every emitted token: the emptier it is, the surer a use must be."""

    def __init__(self, per_token: float, tuning: AdaptiveTuning = DEFAULT_TUNING) -> None:
        """`per_token`: the bytes that a token earns. Without a `byte_budget` nothing is ever spent."""
        self._per_token = per_token
        self._tuning = tuning
        self.bytes = tuning.reserve_bytes
        """Those left, below zero where more were spent."""

    def earn(self, num_tokens: int) -> None:
        """Adds the bytes that emitted tokens allow."""
        self.bytes += self._per_token * num_tokens

    def spend(self, num_bytes: float) -> None:
        """Takes bytes out of the budget, if it is switched on."""
        self.bytes -= num_bytes if self._tuning.byte_budget else 0.0

    def holds(self, num_bytes: float) -> bool:
        """Whether these bytes may be spent."""
        return self.bytes >= num_bytes or not self._tuning.byte_budget

    @property
    def price(self) -> float:
        """The least likelihood worth bytes: `min_price` of a full purse, `full_price` of an empty one."""
        tuning = self._tuning
        emptiness = 1.0 - max(0.0, min(1.0, self.bytes / tuning.reserve_bytes))
        return tuning.min_price + (tuning.full_price - tuning.min_price) * emptiness**2
