# SPDX-License-Identifier: Apache-2.0
"""What batches take, by their size."""

from __future__ import annotations

from bisect import bisect_left

from outrider.decoding.policy.estimators import ExponentialMean
from outrider.decoding.tuning import DEFAULT_TUNING, AdaptiveTuning

TILE = 8
"""Matrix units multiply tiles of at least so many rows: among smaller batches there is none to be found."""


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
        for size in [size for size in self._means if self._seen_at[size] <= oldest]:
            del self._means[size]

    def seconds(self, sessions: int) -> float:
        """Beyond the sizes seen as at the nearest; `unseen_s` while none has been seen."""
        if not self._means:
            return self._unseen_s
        low, high = self._nearest(sessions)
        share = (sessions - low) / (high - low) if low < sessions < high else float(sessions >= high)
        return self._means[low].value + share * (self._means[high].value - self._means[low].value)

    def hoped_s(self, sessions: int) -> float:
        """As `seconds`, in the middle of a gap between two known sizes as at the cheaper of them.

        Devices multiply in tiles: the size that fills one is cheap beside the next. Where the hope pays, a
        size beyond the first tile is tried, once, and the gap has two halves.
        """
        low, high = self._nearest(sessions) if self._means else (sessions, sessions)
        is_middle = max(low, TILE) < sessions == (low + high) // 2
        if is_middle and sessions not in self._seen_at:
            return min(self._means[low].value, self._means[high].value)
        return self.seconds(sessions)

    def _nearest(self, sessions: int) -> tuple[int, int]:
        """Return the sizes seen that a size lies between, itself one of them where it was seen."""
        sizes = sorted(self._means)
        at = bisect_left(sizes, sessions)
        return sizes[max(at - 1, 0)], sizes[min(at, len(sizes) - 1)]
