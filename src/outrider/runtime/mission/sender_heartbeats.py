# SPDX-License-Identifier: Apache-2.0
"""Heartbeats of a goal's sender: a goal ends when its sender has gone, whatever the cause."""

from __future__ import annotations

HEARTBEAT_PERIOD_S = 0.1
"""The period of a sender's heartbeats. They start before the goal is sent and stop when it has ended."""
POLL_PERIOD_S = 0.25
SILENT_POLLS = 4
GONE_S = SILENT_POLLS * POLL_PERIOD_S
"""A sender that has gone or is frozen is noticed after this time."""
MAX_SENDERS = 8


class SenderHeartbeats:
    """Counts polls without a heartbeat for the current goal.

    One thread calls `begin` and `end`, another one the rest.

    It counts polls, not seconds: a receiver that stalled, with heartbeats waiting to be read, takes no
    sender for gone. A goal that never had a heartbeat, such as a foreign client's, has no sender to miss.
    """

    def __init__(self) -> None:
        self._recent: tuple[bytes, ...] = ()
        self._goal = b""
        self._has_heartbeat = False
        self._num_silent = 0

    def begin(self, goal: bytes) -> None:
        """Set the current goal. Heartbeats for it may have come before, or come meanwhile."""
        self.end()
        self._num_silent = 0
        self._goal = goal  # first: a heartbeat that comes now counts
        if goal in self._recent:
            self._has_heartbeat = True

    def end(self) -> None:
        """Clear the current goal."""
        self._goal, self._has_heartbeat = b"", False

    def on_heartbeat(self, goal: bytes) -> None:
        """Record a heartbeat of the sender of this goal."""
        if goal not in self._recent:
            self._recent = (*self._recent[1 - MAX_SENDERS :], goal)
        if goal == self._goal:
            self._num_silent, self._has_heartbeat = 0, True

    def poll(self) -> bool:
        """Count a poll, every POLL_PERIOD_S. Returns whether the current goal's sender has gone."""
        if not self._has_heartbeat:
            return False
        self._num_silent += 1
        return self._num_silent >= SILENT_POLLS
