# SPDX-License-Identifier: Apache-2.0
"""Bounded waits on a robot's clock: a simulated one may be slow, or stand still."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from outrider.core.values import Odometry
from outrider.runtime.mission.robot_side import RobotSide

POLL_S = 0.05
NO_ODOMETRY = "no odometry: check that something publishes odom"
# Simulated seconds in a second, at which waits last their full time on the robot's clock.
SLOWEST_PACE = 0.1


class Patience:
    """How much of a wait in seconds is over. Simulated seconds count where they pass more slowly than real
    ones, down to SLOWEST_PACE.
    """

    def __init__(self, now_s: Callable[[], float], real_s: Callable[[], float] = time.monotonic) -> None:
        """Begin now; `now_s` is the clock that the robot moves by, and `real_s` a monotonic one."""
        self._now_s, self._real_s = now_s, real_s
        self._began_s, self._really_began_s = now_s(), real_s()

    def spent_s(self) -> float:
        """Returns the seconds that count so far."""
        real_s = self._real_s() - self._really_began_s
        return min(real_s, max(self._now_s() - self._began_s, SLOWEST_PACE * real_s))


def polls(robot: RobotSide, patience_s: float, poll_s: float) -> Iterator[None]:
    """Yields before each look of `poll_s` real seconds, until the patience is over on the robot's clock.

    A simulated clock that is slower than SLOWEST_PACE stretches it no further, one that stands still not
    at all.
    """
    started_s, waited_s = robot.now_s(), 0.0
    elapsed_s = 0.0
    while elapsed_s < patience_s and waited_s < (patience_s / SLOWEST_PACE if elapsed_s else patience_s):
        yield
        waited_s += poll_s
        elapsed_s = abs(robot.now_s() - started_s)


def first_odometry(robot: RobotSide, patience_s: float, cancelled: Callable[[], bool]) -> Odometry | None:
    """The newest odometry, waited for where there is none yet; None once out of patience, or cancelled."""
    for _ in polls(robot, patience_s, POLL_S):
        odometry = robot.odometry()
        if odometry is not None or cancelled():
            return odometry
        robot.pause(POLL_S)
    return None
