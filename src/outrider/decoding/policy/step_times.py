# SPDX-License-Identifier: Apache-2.0
"""What the target's forwards over one session take, as measured: plain numbers, no clock."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque

from outrider.decoding.policy.estimators import ExponentialMean
from outrider.decoding.tuning import DEFAULT_TUNING, AdaptiveTuning


class ForwardTimes:
    """Means in seconds, over all texts of a session: of a step, and of verifications by their tokens.

    The time of a verification is forgotten after `forward_window` other forwards, and once a step takes
    `speed_change` times as long or as short as then: it was a hiccup's, or the machine is another now. Where
    the cloud drafts, so that steps are rare, two forwards in a row that differ so from those like them make
    all other times forgotten. To begin again takes the least of `abort_window` times: in the others something
    else came between.
    """

    def __init__(self, tuning: AdaptiveTuning = DEFAULT_TUNING, interpolates: bool = False) -> None:
        """`interpolates`: a length that was not timed is estimated from those around it; otherwise from the
        nearest.
        """
        self._tuning = tuning
        self._interpolates = interpolates
        self._step = ExponentialMean(tuning)
        self._verify = _RecentMeans(tuning)
        self._estimates: dict[int, float] = {}
        """Seconds by the length of a draft, of which none need have been verified, until the next forward."""
        self._leaving: deque[float] = deque(maxlen=tuning.abort_window)
        self._left_at = 0
        self._forwards = 0
        self._changes = 0
        """Forwards in a row that took much longer or shorter than those like them."""

    def on_forward(self, num_drafted: int, compute_s: float) -> bool:
        """One over a draft (or a step, with none) took so long. Returns whether the machine is another now,
        as far as that shows.
        """
        self._forwards += 1
        if self._forwards - self._left_at > self._tuning.forward_window:
            self._leaving.clear()
        changed = _differ(self._timed.get(num_drafted, 0.0), compute_s, self._tuning.speed_change)
        self._changes = self._changes + 1 if changed else 0
        if self._changes == 1:
            return False
        if changed:
            self.forget()
        if not num_drafted:
            self._step.add(compute_s)
        self._verify.forget(self._forwards, self._step.value)
        if num_drafted:
            self._verify.add(num_drafted, compute_s, self._forwards, self._step.value)
        self._estimates.clear()
        return changed

    def forget(self) -> None:
        """The machine is another now."""
        self._changes = 0
        self._estimates.clear()
        self._step = ExponentialMean(self._tuning)
        self._verify = _RecentMeans(self._tuning)

    def on_begun_again(self, after_s: float) -> None:
        """So long after a forward was aborted the next one has begun."""
        self._leaving.append(after_s)
        self._left_at = self._forwards

    @property
    def known(self) -> bool:
        """Whether both a step and a verification have been timed, so that they can be weighed."""
        return self._step.known and bool(self._verify.means)

    @property
    def step_known(self) -> bool:
        """Whether a step has been timed."""
        return self._step.known

    @property
    def any_known(self) -> bool:
        """Whether a step or a verification has been timed."""
        return self._step.known or bool(self._verify.means)

    def draft_s(self, num_drafted: int) -> float:
        """A verification of so many tokens, or a step where there are none; each as the other as long as only
        that has been timed.
        """
        seconds = self._estimates.get(num_drafted)
        if seconds is None:
            seconds = self._estimates[num_drafted] = self._estimate_s(num_drafted)
        return seconds

    def _estimate_s(self, num_drafted: int) -> float:
        if (not num_drafted and self._step.known) or not self._verify.means:
            return self._step.value
        if self._interpolates:
            return self._interpolated(num_drafted)
        return self._verify.means[min(self._verify.means, key=lambda n: abs(n - num_drafted))].value

    @property
    def _timed(self) -> dict[int, float]:
        """Seconds by length, of those that have been timed; a step has none."""
        steps = {0: self._step.value} if self._step.known else {}
        return steps | {length: mean.value for length, mean in self._verify.means.items()}

    def ratio_to(self, other: ForwardTimes, num_drafted: int) -> float:
        """The time of a verification over that in another way, at the nearest length that has been timed in
        both, if there is any.
        """
        both = self._timed.keys() & other._timed.keys()
        length = min(both, key=lambda one: abs(one - num_drafted), default=num_drafted)
        return self.draft_s(length) / other.draft_s(length)

    def _interpolated(self, num_drafted: int) -> float:
        """Return the time by straight lines between the lengths timed, and from the shortest to the longest
        beyond that.
        """
        known = sorted(self._timed.items())
        after = bisect_left(known, (num_drafted, 0.0))
        if after == 0 or len(known) == 1:
            return known[0][1]
        around = (known[0], known[-1]) if after == len(known) else known[after - 1 : after + 1]
        (low, low_s), (high, high_s) = around
        return high_s + (num_drafted - high) * max(0.0, high_s - low_s) / (high - low)

    def part_of(self, num_drafted: int, running_s: float) -> float:
        """What part of the verification of so many has been done after so long, as far as is known."""
        known = bool(self._verify.means) if num_drafted else self._step.known
        return min(1.0, running_s / self.draft_s(num_drafted)) if known else 1.0

    @property
    def begin_again_s(self) -> float:
        """From giving a forward up to the next one's begin."""
        return min(self._leaving, default=0.0)


class _RecentMeans:
    """Mean seconds by number of tokens, of those numbers that were timed lately and on the same machine."""

    def __init__(self, tuning: AdaptiveTuning) -> None:
        self._tuning = tuning
        self.means: dict[int, ExponentialMean] = {}
        self._timed: dict[int, tuple[int, float]] = {}
        """The forward by which each was last timed, and the step's time then."""

    def add(self, num_tokens: int, seconds: float, forward: int, step_s: float) -> None:
        self.means.setdefault(num_tokens, ExponentialMean(self._tuning)).add(seconds)
        self._timed[num_tokens] = forward, step_s

    def forget(self, forward: int, step_s: float) -> None:
        """Drop what is too old, or was timed when a step took much longer or shorter than now."""
        for num_tokens, (timed_at, step_then_s) in list(self._timed.items()):
            old = forward - timed_at >= self._tuning.forward_window
            if old or _differ(step_s, step_then_s, self._tuning.speed_change):
                del self.means[num_tokens], self._timed[num_tokens]


def _differ(one_s: float, other_s: float, factor: float) -> bool:
    """Whether two times, where both are known, differ by more than a factor."""
    return min(one_s, other_s) > 0.0 and max(one_s, other_s) > factor * min(one_s, other_s)
