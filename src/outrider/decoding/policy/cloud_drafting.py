# SPDX-License-Identifier: Apache-2.0
"""How far the cloud should draft itself before it verifies: one price for every second of its device."""

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
"""Of the cloud's draft: its second choice may be verified beside the first."""
SAME_GAIN = 1e-9
"""Gains that differ by fewer tokens do so by rounding."""
NUM_CHOICES_AHEAD = 4
"""Of what it drafts ahead: a verification may end with any of them, and go on from there."""


class Extent(NamedTuple):
    """What a verification should judge: the first `ready` tokens of the draft that lies ready, and `more`
    that the cloud drafts behind them. `gain`: the tokens it yields less those that its time is worth.
    """

    ready: int
    more: int
    gain: float


class Prospect(NamedTuple):
    """Of the next verification: the `tokens` that it is expected to yield; the chance that one more token
    counts, which the cloud drafts before, 0 where none is wanted; that of each further one, where those
    before it count.
    """

    tokens: float
    next_chance: float = 0.0
    later_chance: float = 0.0


class Ready(NamedTuple):
    """A token of the draft that lies ready: its chance to be right where those before it are, and whether it
    is the cloud's own, which would draft it again.
    """

    chance: float
    of_cloud: bool


class Price(NamedTuple):
    """`tokens_per_s`: what a second of the target's device is worth; `draft_s`: a token of its own draft."""

    tokens_per_s: float
    draft_s: float


def best_extent(
    draft: Sequence[Ready],
    own: float,
    room: int,
    price: Price,
    verify_s: Callable[[int], float],
) -> Extent:
    """Return what gains most at a price.

    `own`: the chance of a token that the cloud drafts. No more than `room` tokens are verified, each length
    in `verify_s` seconds. Of extents that gain the same it is the one with the most that lies ready.
    """
    best = Extent(0, 0, float("-inf"))
    tokens = alive = 1.0
    for ready in range(len(draft) + 1):
        most = 0 if ready < len(draft) and draft[ready].of_cloud else room - ready
        more, gain = _best_more(ready, tokens, alive * own, own, most, price, verify_s)
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
    own: float,
    room: int,
    price: Price,
    verify_s: Callable[[int], float],
) -> tuple[int, float]:
    """Return how many tokens, up to `room`, to draft behind so many ready ones, and what that gains.
    `tokens`: expected of the ready ones; `alive`: the chance of the first drafted one to count.
    """
    best, most = 0, tokens - price.tokens_per_s * verify_s(ready)
    for more in range(1, room + 1):
        tokens += alive
        alive *= own
        gain = tokens - price.tokens_per_s * (more * price.draft_s + verify_s(ready + more))
        if gain <= most and alive < price.tokens_per_s * price.draft_s:
            break
        if gain > most:
            best, most = more, gain
    return best, most


def steady_tokens_per_s(own: float, room: int, draft_s: float, verify_s: Callable[[int], float]) -> float:
    """Return the tokens a second of a text that only the cloud drafts, at the best length of a draft."""
    best = tokens = alive = 0.0
    for count in range(room + 1):
        alive = own**count
        tokens += alive
        best = max(best, tokens / (count * draft_s + verify_s(count)))
    return best


class CloudDrafting:
    """What a session knows of the cloud's own draft: how often it is right, and what a token takes.

    A draft that has been dropped as useless is tried again ever more seldom: see `probe_due`.
    """

    def __init__(self, tuning: AdaptiveTuning = DEFAULT_TUNING) -> None:
        self._tuning = tuning
        self.odds = SteadyAcceptance(tuning)
        self._of_all: SteadyAcceptance | None = None
        """The odds over the texts of all robots, where they share the target."""
        self._shares: deque[float] = deque(maxlen=tuning.draft_window)
        """What a token of the draft took, of a step: both run on one device."""
        self._untimed = False
        """Whether the text's one token so far was not timed, for the prompt had to be taken in with it."""
        self._places = BatchTime(tuning)
        """What a token at so many places of a text takes, in one batch."""
        self._help = ExponentialRatio(tuning.steady_memory, tuning.help_prior_tokens)
        self._begins = True
        self._unused_s, self._unused = 0.0, 0
        """Seconds and number of the target's forwards since a token of the draft was judged."""
        self._failed_probes = 0

    def share(self, of_all: SteadyAcceptance | None) -> None:
        """From now on what the drafts of all robots' texts show counts; None: this session's own alone."""
        self._of_all = of_all

    @property
    def is_shared(self) -> bool:
        """Whether other robots' texts want the target too."""
        return self._of_all is not None

    def begin_text(self) -> None:
        """A text's first draft may have to take in its prompt."""
        self._begins, self._untimed = True, False

    def on_drafted(self, seconds: float, step_s: float, places: int = 1) -> None:
        """A token of the draft at so many places took so long, where a step of the target takes `step_s`."""
        self._untimed = self._begins
        if not self._begins:
            self._places.add(places, seconds)
            if places == 1 or not self._shares:
                self._shares.append(seconds / step_s)
        self._begins = False

    def on_forward(self, seconds: float) -> None:
        """A forward of the target took so long."""
        self._unused_s += seconds
        self._unused += 1

    @property
    def is_quiet(self) -> bool:
        """Whether no token of the draft has been judged lately, so that something else may be tried."""
        return self._unused >= self._tuning.trials_apart or not self._failed_probes

    def on_judged(self, confidence: float, right: bool) -> None:
        """A token that the draft was so sure of was right, or wrong."""
        self.odds.on_outcome(0 if right else None, confidence)
        if self._of_all is not None:
            self._of_all.on_outcome(0 if right else None, confidence)
        self._failed_probes = 0 if right else self._failed_probes + 1
        self._unused_s, self._unused = 0.0, 0

    def probe_due(self, row_s: float, step_s: float, tokens_per_s: float, may_try: bool = True) -> bool:
        """Return whether to draft and judge a token that does not seem to pay, in case the draft is better
        by now. At once after one that was right, where it pays if it takes as long as that one, or where that
        one's time is not known; else its time, the least of late with `row_s` seconds of the forward for its
        row, may be a share of the time since the last one, which falls with every failure. `tokens_per_s`:
        what a second is worth; `may_try`: whether one that may fail may begin.
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
        """So many tokens have become final in a time in which the cloud alone would write those expected."""
        self._help.add(num_tokens, expected)

    @property
    def help(self) -> float:
        """Return how many times as fast the text is written as by the cloud's drafts alone; at least 1."""
        return max(1.0, self._help.value)

    def chance(self, confidence: float) -> float:
        """Return the chance of a token that the draft is so sure of."""
        return (self._of_all or self.odds).chance(confidence)

    @property
    def rate(self) -> float:
        """Return the chance of a token that is not drafted yet."""
        return (self._of_all or self.odds).rate()

    def length_ahead(self, room: int, verify_s: Callable[[int], float]) -> int:
        """Return how many tokens are worth verifying of drafts that cost nothing, as far as one verification
        leaves time for them. `verify_s`: the seconds of each length, 0 a step.
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

    def num_places(self, chances: Sequence[float]) -> int:
        """Return at how many places to draft at once, of those with these chances to become the text,
        likeliest first: a further one makes all others wait for it.
        """
        best, most, worth = 0, 0.0, 0.0
        for count, chance in enumerate(chances, 1):
            worth += chance
            gain = worth / self._places.seconds(count)
            if gain > most:
                best, most = count, gain
        return best

    def draft_s(self, step_s: float) -> float:
        """Return the seconds of one token, where a step takes `step_s`; 0 until one has been timed."""
        return median(self._shares) * step_s if self._shares else 0.0
