# SPDX-License-Identifier: Apache-2.0
"""Answers a stop: that the robot stands, once odometry shows it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from outrider.core.language.sentences.stops import left_by_a_stop
from outrider.nodes.navigator.ros_robot_side import RosRobotSide
from outrider.runtime.plans.errand import STANDS

STANDSTILL_TIMEOUT_S = 3.0
"""How long the answer to a stop waits for the robot to stand. The stop itself never waits."""
NOT_CONFIRMED = "the robot was asked to stop; its odometry has not shown yet that it stands"


class StopAnswers:
    """Answers stops that have already taken effect. Thread-safe."""

    def __init__(
        self, robot: RosRobotSide, on_wait: Callable[[], None], timeout_s: float = STANDSTILL_TIMEOUT_S
    ) -> None:
        """`on_wait` is called when odometry becomes necessary, for at most `timeout_s` seconds."""
        self._robot, self._on_wait, self._timeout_s = robot, on_wait, timeout_s
        self._waiting = threading.Lock()

    @property
    def needs_odometry(self) -> bool:
        """Whether odometry is necessary."""
        return self._waiting.locked()

    def answer(self, sentence: str, is_active: bool) -> str:
        """Returns STANDS once odometry from now on shows it, else ASKED.

        ASKED is for a timeout, or a navigator that is not active. A note on the rest of the sentence
        follows.
        """
        rest = left_by_a_stop(sentence)
        return "; ".join(filter(None, (self._standstill() if is_active else NOT_CONFIRMED, rest)))

    def _standstill(self) -> str:
        """Returns STANDS or ASKED.

        Only one answer waits at a time, so that threads remain for other calls.
        """
        if not self._waiting.acquire(blocking=False):
            return NOT_CONFIRMED
        try:
            stop_s = self._robot.now_s()
            self._on_wait()
            return STANDS if self._robot.stands_after(stop_s, self._timeout_s) else NOT_CONFIRMED
        finally:
            self._waiting.release()
