# SPDX-License-Identifier: Apache-2.0
"""Answers a stop: that the robot stands, once odometry shows it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from outrider.core.language.sentences.stops import left_by_a_stop
from outrider.nodes.navigator.ros_robot_side import RosRobotSide
from outrider.runtime.plans.errand import STANDS

STAND_S = 3.0
"""How long the answer to a stop waits for the robot to stand. The stop itself never waits."""
ASKED = "the robot was asked to stop; its odometry has not shown yet that it stands"


class Standing:
    """Answers stops that have already taken effect. Thread-safe."""

    def __init__(self, robot: RosRobotSide, on_watch: Callable[[], None], stand_s: float = STAND_S) -> None:
        """`on_watch` is called when odometry becomes necessary, for at most `stand_s` seconds."""
        self._robot, self._on_watch, self._stand_s = robot, on_watch, stand_s
        self._watching = threading.Lock()

    @property
    def is_watched(self) -> bool:
        """Whether odometry is necessary."""
        return self._watching.locked()

    def answer(self, sentence: str, is_active: bool) -> str:
        """Returns STANDS once odometry from now on shows it, else ASKED.

        ASKED is for a timeout, or a navigator that is not active. A note on the rest of the sentence
        follows.
        """
        left = left_by_a_stop(sentence)
        return "; ".join(filter(None, (self._seen() if is_active else ASKED, left)))

    def _seen(self) -> str:
        """Returns STANDS or ASKED.

        Only one answer waits at a time, so that threads remain for other calls.
        """
        if not self._watching.acquire(blocking=False):
            return ASKED
        try:
            told_s = self._robot.now_s()
            self._on_watch()
            return STANDS if self._robot.stands_after(told_s, self._stand_s) else ASKED
        finally:
            self._watching.release()
