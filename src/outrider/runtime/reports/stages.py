# SPDX-License-Identifier: Apache-2.0
"""The stages of a run up to its verdict: printed when they are reached, and in seconds in its report."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from outrider.core.values import wrap_angle
from outrider.runtime.reports.report import PoseRecord

LASTING_TIMES = 4
READY, GOAL, MOTION, VERDICT = "ready", "goal given", "first motion", "verdict"
MOVED_M, MOVED_RAD = 0.01, 0.01


class Stages:
    """Counts the time from its creation, which is when the robot gets its task."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._began_s = clock, clock()
        self._last: dict[str, tuple[str, int]] = {}
        self._news: list[str] = []
        self._passed_s: dict[str, float] = {}

    def elapsed_s(self) -> float:
        """Returns seconds since the robot got its task."""
        return self._clock() - self._began_s

    def take(self, node: str, message: str) -> None:
        """Take a node's diagnosis, which comes every second: "ok", or a fault.

        A fault becomes news only when it has come LASTING_TIMES times in a row.
        """
        before, times = self._last.get(node, ("", 0))
        times = times + 1 if message == before else 1
        self._last[node] = message, times
        if times == (1 if message == "ok" else LASTING_TIMES):
            self._news.append(f"{node}: {READY if message == 'ok' else message}")
        if message == "ok":
            self._passed_s.setdefault(f"{node} {READY}", self.elapsed_s())

    def news(self) -> Iterator[str]:
        """Yields the lines that were not yielded yet."""
        while self._news:
            yield self._news.pop(0)

    def mark(self, stage: str) -> None:
        """Record that the stage is reached now; the first time counts."""
        self._passed_s.setdefault(stage, self.elapsed_s())

    def seconds(self, motion_s: float | None) -> dict[str, float]:
        """Returns when each stage was reached, in order; the verdict is now.

        `motion_s` counts from the goal.
        """
        self.mark(VERDICT)
        passed_s = dict(self._passed_s)
        if motion_s is not None and GOAL in passed_s:
            passed_s[MOTION] = passed_s[GOAL] + motion_s
        return {stage: round(at_s, 2) for stage, at_s in sorted(passed_s.items(), key=lambda entry: entry[1])}


def first_motion_s(poses: Sequence[PoseRecord]) -> float | None:
    """Returns when the robot first left its pose at the goal's start; None if never."""
    for record in poses:
        first, now = poses[0].truth, record.truth
        if first.distance_to(now.x, now.y) > MOVED_M or abs(wrap_angle(now.yaw - first.yaw)) > MOVED_RAD:
            return record.time_s
    return None
