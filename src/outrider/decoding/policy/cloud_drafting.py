# SPDX-License-Identifier: Apache-2.0
"""How far the cloud should draft itself before it verifies, by one price for each second of its device."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from math import sqrt
from statistics import median
from typing import NamedTuple

from outrider.decoding.policy.estimators import (
    BatchTime,
    ExponentialRatio,
    SteadyAcceptance,
)
from outrider.decoding.tuning import DEFAULT_TUNING, AdaptiveTuning

NUM_CHOICES = 2
"""Choices kept per token of the cloud's draft: the second one starts another branch."""
SAME_GAIN = 1e-9
"""Gains, in tokens, that differ by less count as equal: the difference is rounding."""
NUM_CHOICES_AHEAD = 4
"""Choices kept per token drafted ahead: a verification may end with any of them and continue from it."""


class Extent(NamedTuple):
    """What to verify: the first `ready` tokens of the ready draft, and `more` that the cloud drafts after
    them. `gain`: the expected tokens less the tokens that the time is worth.
    """

    ready: int
    more: int
    gain: float


class Prospect(NamedTuple):
    """The prospect of the next verification. `tokens`: expected yield. `next_chance`: that one more token,
    drafted by the cloud first, is accepted; 0 if none is wanted. `later_chance`: that of each further
    token, given that all before it are accepted.
    """

    tokens: float
    next_chance: float = 0.0
    later_chance: float = 0.0


class Ready(NamedTuple):
    """A token of the ready draft. `chance`: to be right if all before it are. `of_cloud`: it is from the
    cloud's draft model, which would draft it again.
    """

    chance: float
    of_cloud: bool


class Price(NamedTuple):
    """`tokens_per_s`: worth of a second of the target's device; `draft_s`: seconds per cloud draft token."""

    tokens_per_s: float
    draft_s: float


def best_extent(
    draft: Sequence[Ready],
    cloud_rate: float,
    room: int,
    price: Price,
    verify_s: Callable[[int], float],
) -> Extent:
    """Return the extent of the largest gain at a price.

    `cloud_rate`: the chance of a token that the cloud drafts. At most `room` tokens are verified; `verify_s`
    gives the seconds by length. Among extents of equal gain, the one with the most ready tokens wins.
    """
    best = Extent(0, 0, float("-inf"))
    tokens = alive = 1.0
    for ready in range(len(draft) + 1):
        most = 0 if ready < len(draft) and draft[ready].of_cloud else room - ready
        more, gain = _best_more(ready, tokens, alive * cloud_rate, cloud_rate, most, price, verify_s)
        if gain >= best.gain - SAME_GAIN:
            best = Extent(ready, more, gain)
        if ready < len(draft):
            alive *= draft[ready].chance
            tokens += alive
    return best


def _best_more(
    ready: int,
    tokens: float,
    alive: float,
    cloud_rate: float,
    room: int,
    price: Price,
    verify_s: Callable[[int], float],
) -> tuple[int, float]:
    """Return how many tokens, up to `room`, to draft after `ready` ones, and the gain. `tokens`: expected
    from the ready ones; `alive`: the chance that the first drafted one is accepted.
    """
    best, most = 0, tokens - price.tokens_per_s * verify_s(ready)
    for more in range(1, room + 1):
        tokens += alive
        alive *= cloud_rate
        gain = tokens - price.tokens_per_s * (more * price.draft_s + verify_s(ready + more))
        if gain <= most and alive < price.tokens_per_s * price.draft_s:
            break
        if gain > most:
            best, most = more, gain
    return best, most


def steady_tokens_per_s(
    cloud_rate: float, room: int, draft_s: float, verify_s: Callable[[int], float]
) -> float:
    """Return the tokens per second of a text that only the cloud drafts, at the best draft length."""
    best = tokens = alive = 0.0
    for count in range(room + 1):
        alive = cloud_rate**count
        tokens += alive
        best = max(best, tokens / (count * draft_s + verify_s(count)))
    return best


class CloudDrafting:
    """A session's estimates of the cloud's own draft: how often it is right, and its seconds per token.

    A draft that has stopped paying is tried again ever more rarely: see `probe_due`.
    """

    def __init__(self, tuning: AdaptiveTuning = DEFAULT_TUNING) -> None:
        self._tuning = tuning
        self.acceptance = SteadyAcceptance(tuning)
        self._of_all: SteadyAcceptance | None = None
        """The acceptance over the texts of all robots, if they share the target."""
        self._shares: deque[float] = deque(maxlen=tuning.draft_window)
        """Time of a draft token as a share of a step's: both run on one device."""
        self._untimed = False
        """Whether the last draft token was not timed: a first token may include the prefill of the prompt."""
        self._batch_time = BatchTime(tuning)
        """Time of one batch of draft tokens by its number of positions in the text."""
        self._help = ExponentialRatio(tuning.steady_memory, tuning.help_prior_tokens)
        self._begins = True
        self._unused_s, self._unused = 0.0, 0
        """Seconds and number of the target's forwards since a token of the draft was last judged."""
        self._failed_probes = 0

    def share(self, of_all: SteadyAcceptance | None) -> None:
        """Use the acceptance over all robots' texts from now on; None: of this session only."""
        self._of_all = of_all

    @property
    def is_shared(self) -> bool:
        """Whether other robots share the target."""
        return self._of_all is not None

    def begin_text(self) -> None:
        """Begin a text: its first draft may have to prefill the prompt."""
        self._begins, self._untimed = True, False

    def on_drafted(self, seconds: float, step_s: float, num_positions: int = 1) -> None:
        """Record the time of one batch of draft tokens, while a step of the target takes `step_s`."""
        self._untimed = self._begins
        if not self._begins:
            self._batch_time.add(num_positions, seconds)
            if num_positions == 1 or not self._shares:
                self._shares.append(seconds / step_s)
        self._begins = False

    def on_forward(self, seconds: float) -> None:
        """Record the time of one forward of the target."""
        self._unused_s += seconds
        self._unused += 1

    @property
    def is_quiet(self) -> bool:
        """Whether no probe of the draft has failed recently, so that something else may be tried."""
        return self._unused >= self._tuning.trials_apart or not self._failed_probes

    def on_judged(self, confidence: float, right: bool) -> None:
        """Record whether a draft token of this confidence was right."""
        self.acceptance.on_outcome(0 if right else None, confidence)
        if self._of_all is not None:
            self._of_all.on_outcome(0 if right else None, confidence)
        self._failed_probes = 0 if right else self._failed_probes + 1
        self._unused_s, self._unused = 0.0, 0

    def probe_due(self, row_s: float, step_s: float, tokens_per_s: float, may_try: bool = True) -> bool:
        """Return whether to draft and judge a token that seems not to pay, in case the draft has improved.

        At once if the last judged token was right, and either a token as fast as the newest pays or the
        newest was not timed. Otherwise the token's time may be at most a share of the forwards' time since
        the last judged one; the share falls with each failure. Its time is the shortest recent one, plus
        `row_s` that it adds to the verification. `tokens_per_s`: what a second is worth; `may_try`: whether
        a token that may fail is allowed.
        """
        tuning, shares = self._tuning, self._shares or (0.0,)
        if not tuning.probe_drafts:
            return False
        newest_s, least_s = shares[-1] * step_s + row_s, min(shares) * step_s + row_s
        if not self._failed_probes and (self._untimed or newest_s * tokens_per_s < 1.0):
            return True
        share = tuning.probe_cost / sqrt(min(max(1, self._failed_probes), tuning.probes_rarer))
        return may_try and least_s <= share * self._unused_s

    def on_committed(self, num_tokens: int, expected: float) -> None:
        """Record that `num_tokens` became final where the cloud alone would have written `expected`."""
        self._help.add(num_tokens, expected)

    @property
    def help(self) -> float:
        """The text's speed as a multiple of that with the cloud's drafts alone; at least 1."""
        return max(1.0, self._help.value)

    def chance(self, confidence: float) -> float:
        """Return the chance of a draft token with this confidence."""
        return (self._of_all or self.acceptance).chance(confidence)

    @property
    def rate(self) -> float:
        """The chance of a token that has not been drafted yet."""
        return (self._of_all or self.acceptance).rate()

    def length_ahead(self, room: int, verify_s: Callable[[int], float]) -> int:
        """Return how many tokens to draft ahead while the target verifies: the length with the most
        tokens per second, within the time of one verification. `verify_s`: seconds by draft length, 0 for a
        step.
        """
        draft_s, rate = self.draft_s(verify_s(0)), self.rate
        best, most, tokens, alive = 1, 0.0, 1.0, 1.0
        for length in range(1, room + 1):
            alive *= rate
            tokens += alive
            seconds = verify_s(length)
            if length * draft_s > seconds:
                break
            if tokens / seconds > most:
                best, most = length, tokens / seconds
        return best

    def num_positions(self, chances: Sequence[float]) -> int:
        """Return at how many positions to draft in one batch. `chances`: of each position to become the
        text, likeliest first. A further position delays all others.
        """
        best, most, worth = 0, 0.0, 0.0
        for count, chance in enumerate(chances, 1):
            worth += chance
            gain = worth / self._batch_time.seconds(count)
            if gain > most:
                best, most = count, gain
        return best

    def draft_s(self, step_s: float) -> float:
        """Return the seconds per draft token, if a step takes `step_s`; 0 until one has been timed."""
        return median(self._shares) * step_s if self._shares else 0.0
