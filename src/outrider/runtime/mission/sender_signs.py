# SPDX-License-Identifier: Apache-2.0
"""Signs of life of whoever sent a goal: the goal ends with them, whatever has become of the process."""

from __future__ import annotations

SIGN_PERIOD_S = 0.1
"""How often a sender says that it is there, from before it sends its goal until that has ended."""
LOOK_PERIOD_S = 0.25
SILENT_LOOKS = 4
GONE_S = SILENT_LOOKS * LOOK_PERIOD_S
"""By then a sender that is gone, or frozen, is missed."""
REMEMBERED = 8


class SenderSigns:
    """Counts the looks without a sign for the goal that runs; `heard` and `are_missed` from one thread.

    Looks, and no seconds: one who is held up itself, with signs that wait to be read, misses nobody. A goal
    for which no sign ever came, as one of a foreign client, misses none.
    """

    def __init__(self) -> None:
        self._heard: tuple[bytes, ...] = ()
        self._goal = b""
        self._was_heard = False
        self._silent = 0

    def begin(self, goal: bytes) -> None:
        """This goal runs from now on; signs for it may have come before."""
        self._silent, self._was_heard = 0, False
        self._goal = goal
        if goal in self._heard:
            self._was_heard = True

    def end(self) -> None:
        """No goal runs."""
        self._goal, self._was_heard = b"", False

    def heard(self, goal: bytes) -> None:
        """A sign of the sender of this goal has come."""
        if goal not in self._heard:
            self._heard = (*self._heard[1 - REMEMBERED :], goal)
        if goal == self._goal:
            self._silent, self._was_heard = 0, True

    def are_missed(self) -> bool:
        """Look, every LOOK_PERIOD_S: whether the sender of the goal that runs has gone."""
        if not self._was_heard:
            return False
        self._silent += 1
        return self._silent >= SILENT_LOOKS
