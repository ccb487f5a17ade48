# SPDX-License-Identifier: Apache-2.0
"""How an accepted goal begins, also one that is cancelled at that moment, and one that never does."""

from __future__ import annotations

import threading
from typing import Any

from rclpy.impl.implementation_singleton import rclpy_implementation

LOST_LOOKS = 20
"""A goal that has not begun by then never will: between its acceptance and its begin nothing waits."""


def begin(goal: Any) -> None:
    """Have it carried out. A cancelled one is begun too: whoever carries it out ends it as cancelled.

    rclpy looks whether a goal is cancelled before it lets it begin, and fails where the cancel comes between.
    """
    try:
        goal.execute()
    except rclpy_implementation.RCLError:
        if not goal.is_cancel_requested:
            raise
        goal.execute()


class GoalSlot:
    """Taken for one goal, from its acceptance until it has ended. For any thread.

    rclpy drops an accepted goal whose client has gone before it could be answered, and tells nobody: `look`,
    now and then, gives the slot back, or no other goal would ever be taken.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._looks_left = 0
        self.is_taken = False

    def take(self) -> bool:
        """Whether it was free."""
        with self._lock:
            was_free, self.is_taken = not self.is_taken, True
            if was_free:
                self._looks_left = LOST_LOOKS
            return was_free

    def begin(self) -> None:
        """The goal is carried out now."""
        with self._lock:
            self._looks_left, self.is_taken = 0, True

    def give_back(self) -> None:
        """The goal has ended."""
        with self._lock:
            self._looks_left, self.is_taken = 0, False

    def look(self) -> None:
        """Give it back where its goal was dropped."""
        with self._lock:
            if self._looks_left > 0:
                self._looks_left -= 1
                self.is_taken = self._looks_left > 0
