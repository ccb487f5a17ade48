# SPDX-License-Identifier: Apache-2.0
"""Starts an accepted goal, even one that is cancelled at that moment, and drops one that never starts."""

from __future__ import annotations

import threading
from typing import Any

from rclpy.impl.implementation_singleton import rclpy_implementation

from outrider.runtime.mission.robot_side import GoalError

MAX_CHECKS = 20
"""A goal that has not started after this number of looks never will: nothing delays the start."""


def start_goal(goal: Any) -> None:
    """Start the goal. A cancelled goal is started too; its executor ends it as cancelled.

    rclpy checks for a cancellation before it lets a goal start, and fails if the cancellation comes in
    between.
    """
    try:
        goal.execute()
    except rclpy_implementation.RCLError:
        if not goal.is_cancel_requested:
            raise
        goal.execute()


class GoalSlot:
    """A slot for one goal, taken from the goal's acceptance until its end. Thread-safe.

    rclpy silently drops an accepted goal whose client has gone before the answer. A regular call of `check`
    frees the slot then; otherwise no other goal would ever be accepted. `stopped` is why the goal must end,
    None while it may continue. `num_stops` counts all stops.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._checks_left = 0
        self.is_taken = False
        self.stopped: tuple[GoalError, str] | None = None
        self.num_stops = 0

    def take(self, num_stops: int) -> bool:
        """Take the slot, for a goal that came when there had been `num_stops`. Returns whether it was free.

        A stop that came since, while the goal was being read, stops it.
        """
        with self._lock:
            was_free, self.is_taken = not self.is_taken, True
            if was_free:
                self._checks_left = MAX_CHECKS
                if num_stops == self.num_stops:
                    self.stopped = None
            return was_free

    def stop(self, error: GoalError, reason: str) -> None:
        """Record that the goal in the slot must end, even if it has not started."""
        with self._lock:
            self.stopped, self.num_stops = (error, reason), self.num_stops + 1

    def start(self) -> None:
        """Record that the goal has started."""
        with self._lock:
            self._checks_left, self.is_taken = 0, True

    def release(self) -> None:
        """Free the slot: the goal has ended."""
        with self._lock:
            self._checks_left, self.is_taken = 0, False

    def check(self) -> None:
        """Free the slot if its goal was dropped."""
        with self._lock:
            if self._checks_left > 0:
                self._checks_left -= 1
                self.is_taken = self._checks_left > 0
