# SPDX-License-Identifier: Apache-2.0
"""Bounded waits on the robot's clock, which is slow or stands still in some simulations."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from outrider.core.values import Odometry
from outrider.runtime.mission.robot_side import RobotSide

POLL_S = 0.05
NO_ODOMETRY = "no odometry: check that something publishes odom"
# The slowest pace, in simulated seconds per real second, at which waits still last their full time.
SLOWEST_PACE = 0.1


class Patience:
    """Measures the time that a wait has lasted, in seconds.

    A clock that is slower than real time counts, but with at least SLOWEST_PACE per real second.
    """

    def __init__(self, now_s: Callable[[], float], real_s: Callable[[], float] = time.monotonic) -> None:
        """Start the wait now. `now_s` is the clock that the robot moves by, `real_s` a monotonic clock."""
        self._now_s, self._real_s = now_s, real_s
        self._began_s, self._really_began_s = now_s(), real_s()

    def spent_s(self) -> float:
        """Returns how many seconds of the wait are over."""
        real_s = self._real_s() - self._really_began_s
        return min(real_s, max(self._now_s() - self._began_s, SLOWEST_PACE * real_s))


def polls(robot: RobotSide, patience_s: float, poll_s: float) -> Iterator[None]:
    """Yields before each poll of `poll_s` real seconds, until `patience_s` are over on the robot's clock.

    The wait takes at most `patience_s / SLOWEST_PACE` real seconds, and `patience_s` if the clock stands
    still.
    """
    started_s, waited_s = robot.now_s(), 0.0
    elapsed_s = 0.0
    while elapsed_s < patience_s and waited_s < (patience_s / SLOWEST_PACE if elapsed_s else patience_s):
        yield
        waited_s += poll_s
        elapsed_s = abs(robot.now_s() - started_s)


def first_odometry(robot: RobotSide, patience_s: float, cancelled: Callable[[], bool]) -> Odometry | None:
    """Returns the newest odometry; waits if there is none yet. None after the timeout or a cancellation."""
    for _ in polls(robot, patience_s, POLL_S):
        odometry = robot.odometry()
        if odometry is not None or cancelled():
            return odometry
        robot.pause(POLL_S)
    return None
