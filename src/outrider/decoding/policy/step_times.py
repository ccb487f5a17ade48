# SPDX-License-Identifier: Apache-2.0
"""Measured times of the target's forward passes over one session: plain numbers, no clock."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque

from outrider.decoding.policy.estimators import ExponentialMean
from outrider.decoding.tuning import DEFAULT_TUNING, AdaptiveTuning


class ForwardTimes:
    """Mean seconds, over all texts of a session: of a step, and of verifications by number of draft tokens.

    The time of a verification length is forgotten after `forward_window` further forwards, or when the time
    of a step has changed by a factor of `speed_change` since: that time was a hiccup, or the machine's speed
    has changed. Steps are rare where the cloud drafts, so a second rule applies: two forwards in a row that
    differ that much from the mean of their length clear all times, and the first of them is not recorded.
    The time from an abort to the next forward is the minimum of the last `abort_window` ones, as other work
    may have run in between.
    """

    def __init__(self, tuning: AdaptiveTuning = DEFAULT_TUNING, interpolates: bool = False) -> None:
        """`interpolates`: estimate a length that was not timed by interpolation, not from the nearest one."""
        self._tuning = tuning
        self._interpolates = interpolates
        self._step = ExponentialMean(tuning)
        self._verify = _RecentMeans(tuning)
        self._estimates: dict[int, float] = {}
        """Estimated seconds by draft length, cached until the next forward."""
        self._abort_times_s: deque[float] = deque(maxlen=tuning.abort_window)
        self._aborted_at = 0
        self._forwards = 0
        self._changes = 0
        """Number of forwards in a row whose time differs much from the mean of their length."""

    def on_forward(self, num_drafted: int, compute_s: float) -> bool:
        """Record a forward over `num_drafted` draft tokens (0: a step). Return whether it shows that the
        machine's speed has changed.
        """
        self._forwards += 1
        if self._forwards - self._aborted_at > self._tuning.forward_window:
            self._abort_times_s.clear()
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
        """Clear all means: the machine's speed has changed."""
        self._changes = 0
        self._estimates.clear()
        self._step = ExponentialMean(self._tuning)
        self._verify = _RecentMeans(self._tuning)

    def on_begun_again(self, after_s: float) -> None:
        """Record that the next forward began `after_s` seconds after an aborted one."""
        self._abort_times_s.append(after_s)
        self._aborted_at = self._forwards

    @property
    def known(self) -> bool:
        """Whether both a step and a verification have been timed, so that they can be compared."""
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
        """Return the seconds of a verification of `num_drafted` tokens, or of a step if it is 0. If only one
        of the two kinds has been timed, its time stands in for the other.
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
        """Seconds by draft length, of the lengths timed so far; a step has length 0."""
        steps = {0: self._step.value} if self._step.known else {}
        return steps | {length: mean.value for length, mean in self._verify.means.items()}

    def ratio_to(self, other: ForwardTimes, num_drafted: int) -> float:
        """Return the time of a verification divided by its time in `other`, at the nearest length that both
        have timed; without a common length, at `num_drafted` by estimates.
        """
        both = self._timed.keys() & other._timed.keys()
        length = min(both, key=lambda length: abs(length - num_drafted), default=num_drafted)
        return self.draft_s(length) / other.draft_s(length)

    def _interpolated(self, num_drafted: int) -> float:
        """Return the time by linear interpolation between the timed lengths. Beyond the longest, the line
        from the shortest to the longest is continued; below the shortest, the shortest counts.
        """
        known = sorted(self._timed.items())
        after = bisect_left(known, (num_drafted, 0.0))
        if after == 0 or len(known) == 1:
            return known[0][1]
        around = (known[0], known[-1]) if after == len(known) else known[after - 1 : after + 1]
        (low, low_s), (high, high_s) = around
        return high_s + (num_drafted - high) * max(0.0, high_s - low_s) / (high - low)

    def part_of(self, num_drafted: int, running_s: float) -> float:
        """Return the share of a forward that is done after `running_s`; 1 if no such forward was timed."""
        known = bool(self._verify.means) if num_drafted else self._step.known
        return min(1.0, running_s / self.draft_s(num_drafted)) if known else 1.0

    @property
    def begin_again_s(self) -> float:
        """The seconds from an abort to the start of the next forward; 0 if not known."""
        return min(self._abort_times_s, default=0.0)


class _RecentMeans:
    """Mean seconds by number of tokens, for the numbers that were timed recently and at the same speed."""

    def __init__(self, tuning: AdaptiveTuning) -> None:
        self._tuning = tuning
        self.means: dict[int, ExponentialMean] = {}
        self._timed: dict[int, tuple[int, float]] = {}
        """For each number of tokens, the forward at which it was last timed, and the time of a step then."""

    def add(self, num_tokens: int, seconds: float, forward: int, step_s: float) -> None:
        self.means.setdefault(num_tokens, ExponentialMean(self._tuning)).add(seconds)
        self._timed[num_tokens] = forward, step_s

    def forget(self, forward: int, step_s: float) -> None:
        """Drop times that are too old, or from when a step took much longer or shorter than now."""
        for num_tokens, (timed_at, step_then_s) in list(self._timed.items()):
            old = forward - timed_at >= self._tuning.forward_window
            if old or _differ(step_s, step_then_s, self._tuning.speed_change):
                del self.means[num_tokens], self._timed[num_tokens]


def _differ(first_s: float, second_s: float, factor: float) -> bool:
    """Whether two times are both known (positive) and differ by more than a factor."""
    return min(first_s, second_s) > 0.0 and max(first_s, second_s) > factor * min(first_s, second_s)
