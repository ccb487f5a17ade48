"""What both sides learn from what they see: acceptance, times of models and link. Plain numbers, no clock."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Sequence
from math import exp, sqrt
from operator import mul

PRIOR_TRIALS = 4.0
MEMORY = 0.97
RECENT_ROUND_TRIPS = 64
RECENT_BATCHES = 200
RESERVE_BYTES = 150.0
CONFIDENCE_STEPS = (0.4, 0.6, 0.8, 0.95)
"""Where drafts of one confidence end and those of the next begin."""
LEAST_PRICE, FULL_PRICE = 0.015, 0.8
LEARNING_RATE, FADING = 0.2, 0.999
FARTHEST_ODDS = 30.0
"""Log-odds beyond these are as good as sure, and their exponentials might overflow."""


class Odds:
    """How often the target writes the draft's first choice, and its second where not the first, and so on.

    A rate is a mean over trials with fading memory, begun with a guess that counts as `PRIOR_TRIALS`.
    """

    def __init__(self, priors: tuple[float, ...] = (0.7, 0.4, 0.3)) -> None:
        self._hits = [prior * PRIOR_TRIALS for prior in priors]
        self._trials = [PRIOR_TRIALS] * len(priors)

    def on_outcome(self, rank: int | None) -> None:
        """The target wrote the choice of this rank, or none of those ranked."""
        for index in range(len(self._hits)):
            hit = rank == index
            self._trials[index] = MEMORY * self._trials[index] + 1.0
            self._hits[index] = MEMORY * self._hits[index] + hit
            if hit:
                return

    def rate(self, rank: int = 0) -> float:
        """The chance that the choice of this rank is right, given that none before it is."""
        if rank >= len(self._hits):
            return 0.0
        return self._hits[rank] / self._trials[rank]


class DraftOdds(Odds):
    """Odds that know the first choice apart for drafts of different confidence."""

    def __init__(self, priors: tuple[float, ...] = (0.7, 0.4, 0.3)) -> None:
        super().__init__(priors)
        self._level_hits = [0.0] * (len(CONFIDENCE_STEPS) + 1)
        self._level_trials = [0.0] * (len(CONFIDENCE_STEPS) + 1)

    def on_verdict(self, rank: int | None, confidence: float) -> None:
        """As `on_outcome`, of a draft so sure of its first choice."""
        self.on_outcome(rank)
        level = bisect_right(CONFIDENCE_STEPS, confidence)
        self._level_trials[level] = MEMORY * self._level_trials[level] + 1.0
        self._level_hits[level] = MEMORY * self._level_hits[level] + (rank == 0)

    def chance(self, rank: int, confidence: float) -> float:
        """The chance that the choice of this rank is right, of a draft so sure of its first."""
        level = bisect_right(CONFIDENCE_STEPS, confidence)
        hits, trials = self._level_hits[level], self._level_trials[level]
        chance, missed = (hits + PRIOR_TRIALS * self.rate()) / (trials + PRIOR_TRIALS), 1.0
        for choice in range(1, rank + 1):
            missed *= 1.0 - chance
            chance = self.rate(choice)
        return missed * chance


class Regression:
    """The chance of an event by what speaks for it, learnt as it comes or not: logistic regression, whose
    weights each outcome moves by the steps of AdaGrad (Duchi, Hazan and Singer 2011), with a fading memory of
    the steps so far: what changes late is learnt as well.
    """

    def __init__(self, weights: Sequence[float]) -> None:
        """`weights`: those to begin with, of each sign."""
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
            self._moved[index] = max(1.0, FADING * self._moved[index] + slope * slope)
            self._weights[index] -= LEARNING_RATE * slope / sqrt(self._moved[index])


class Mean:
    """A mean with fading memory; 0 until the first value."""

    def __init__(self) -> None:
        self._sum = self._weight = 0.0

    def add(self, value: float) -> None:
        self._sum = 0.8 * self._sum + value
        self._weight = 0.8 * self._weight + 1.0

    @property
    def known(self) -> bool:
        return self._weight > 0.0

    @property
    def value(self) -> float:
        return self._sum / self._weight if self._weight else 0.0


class BatchTime:
    """A batch's time by the number of its sessions: means with fading memory, straight lines between.

    What has not been seen among so many batches is forgotten: sizes that a hiccup made seem dear come again.
    """

    def __init__(self) -> None:
        self._means: dict[int, Mean] = {}
        self._seen_at: dict[int, int] = {}
        self._batches = 0

    def add(self, sessions: int, seconds: float) -> None:
        """A batch took so long."""
        self._batches += 1
        self._seen_at[sessions] = self._batches
        self._means.setdefault(sessions, Mean()).add(seconds)
        for size in [size for size, at in self._seen_at.items() if at <= self._batches - RECENT_BATCHES]:
            del self._means[size], self._seen_at[size]

    def seconds(self, sessions: int) -> float:
        """Beyond the sizes seen as at the nearest; 1 while none has been seen."""
        sizes = sorted(self._means)
        if not sizes:
            return 1.0
        at = bisect_left(sizes, sessions)
        low, high = sizes[max(at - 1, 0)], sizes[min(at, len(sizes) - 1)]
        share = (sessions - low) / (high - low) if low < sessions < high else float(sessions >= high)
        return self._means[low].value + share * (self._means[high].value - self._means[low].value)


class Speed:
    """Tokens per second of late, from one commit to the next of a text; 0 until known."""

    def __init__(self) -> None:
        self._tokens = self._seconds = 0.0
        self._last_s: float | None = None

    def begin_text(self) -> None:
        """The time since the last text does not count."""
        self._last_s = None

    def on_commit(self, num_tokens: int, now_s: float) -> None:
        if self._last_s is not None:
            self._tokens = MEMORY * self._tokens + num_tokens
            self._seconds = MEMORY * self._seconds + now_s - self._last_s
        self._last_s = now_s

    @property
    def value(self) -> float:
        return self._tokens / self._seconds if self._seconds > 0.0 else 0.0


class RoundTrip:
    """The link's round trip: the least of recent answers' times, what the cloud computed taken off."""

    def __init__(self) -> None:
        self._recent: deque[float] = deque(maxlen=RECENT_ROUND_TRIPS)
        self.value = 0.0

    def add(self, elapsed_s: float, compute_s: float) -> None:
        self._recent.append(max(0.0, elapsed_s - compute_s))
        self.value = min(self._recent)


class Purse:
    """Bytes that may be spent, filled by every emitted token: the emptier it is, the surer a use must be."""

    def __init__(self, per_token: float) -> None:
        self._per_token = per_token
        self._bytes = RESERVE_BYTES

    def earn(self, num_tokens: int) -> None:
        self._bytes += self._per_token * num_tokens

    def spend(self, num_bytes: float) -> None:
        self._bytes -= num_bytes

    def holds(self, num_bytes: float) -> bool:
        return self._bytes >= num_bytes

    @property
    def bytes(self) -> float:
        return self._bytes

    @property
    def price(self) -> float:
        """The least likelihood worth bytes: LEAST_PRICE of a full purse, FULL_PRICE of an empty one."""
        emptiness = 1.0 - max(0.0, min(1.0, self._bytes / RESERVE_BYTES))
        return LEAST_PRICE + (FULL_PRICE - LEAST_PRICE) * emptiness**2
