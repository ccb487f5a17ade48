# SPDX-License-Identifier: Apache-2.0
"""Heartbeats of a goal's sender: a goal ends when its sender has gone, whatever the cause."""

from __future__ import annotations

SIGN_PERIOD_S = 0.1
"""The period of a sender's heartbeats. They start before the goal is sent and stop when it has ended."""
LOOK_PERIOD_S = 0.25
SILENT_LOOKS = 4
GONE_S = SILENT_LOOKS * LOOK_PERIOD_S
"""A sender that has gone or is frozen is noticed after this time."""
REMEMBERED = 8


class SenderSigns:
    """Counts polls without a heartbeat for the current goal. Call `heard` and `are_missed` from one thread.

    It counts polls, not seconds: a receiver that stalled, with heartbeats waiting to be read, misses no
    sender. A goal that never had a heartbeat, such as a foreign client's, is never missed.
    """

    def __init__(self) -> None:
        self._heard: tuple[bytes, ...] = ()
        self._goal = b""
        self._was_heard = False
        self._silent = 0

    def begin(self, goal: bytes) -> None:
        """Set the current goal. Heartbeats for it may have come before."""
        self._silent, self._was_heard = 0, False
        self._goal = goal
        if goal in self._heard:
            self._was_heard = True

    def end(self) -> None:
        """Clear the current goal."""
        self._goal, self._was_heard = b"", False

    def heard(self, goal: bytes) -> None:
        """Record a heartbeat of the sender of this goal."""
        if goal not in self._heard:
            self._heard = (*self._heard[1 - REMEMBERED :], goal)
        if goal == self._goal:
            self._silent, self._was_heard = 0, True

    def are_missed(self) -> bool:
        """Whether the sender of the current goal has gone. Call it every LOOK_PERIOD_S."""
        if not self._was_heard:
            return False
        self._silent += 1
        return self._silent >= SILENT_LOOKS
