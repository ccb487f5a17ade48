# SPDX-License-Identifier: Apache-2.0
"""The log of a robot's steps since its start, for "what did you do?", and its last search."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from outrider.core.language.plan import Find
from outrider.core.values import Pose2D
from outrider.memory.answers import time_words

MAX_DEEDS = 20


@dataclass(frozen=True)
class Deed:
    """A step that was carried out or tried. `ended_s` is in seconds since the epoch."""

    words: str
    outcome: str
    ended_s: float


@dataclass
class RunLog:
    """A robot's run. `start` is its pose at its first task; `breaks_before`: how often odometry had jumped
    by then; `wanted` is the step of its last search.
    """

    start: Pose2D | None = None
    breaks_before: int = 0
    wanted: Find | None = None
    deeds: deque[Deed] = field(default_factory=lambda: deque(maxlen=MAX_DEEDS))

    def set_start(self, pose: Pose2D | None, num_breaks: int) -> None:
        """Record `pose` as the start, if there is none yet, and how often odometry has jumped."""
        if self.start is None:
            self.start, self.breaks_before = pose, num_breaks

    def note(self, words: str, outcome: str, now_s: float) -> None:
        """Record a step that ended at `now_s`, and its outcome."""
        self.deeds.append(Deed(words, outcome, now_s))

    def forget(self, about: str) -> None:
        """Drop the entries, and the last search, that contain these words; all for an empty text."""
        remaining = [deed for deed in self.deeds if about and about not in f"{deed.words} {deed.outcome}"]
        self.deeds = deque(remaining, maxlen=MAX_DEEDS)
        if self.wanted is not None and about in self.wanted.thing:
            self.wanted = None

    def words(self, now_s: float) -> str:
        """Returns the answer to "what did you do?"."""
        if not self.deeds:
            return "i have done nothing yet"
        return "; ".join(
            f"{time_words(max(0.0, now_s - deed.ended_s))}: {deed.words}: {deed.outcome}"
            for deed in self.deeds
        )
