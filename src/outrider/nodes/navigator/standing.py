# SPDX-License-Identifier: Apache-2.0
"""What whoever told the robot to stop is told: that it stands, once that is seen."""

from __future__ import annotations

import threading
from collections.abc import Callable

from outrider.core.language.sentences.stops import left_by_a_stop
from outrider.nodes.navigator.ros_robot_side import RosRobotSide
from outrider.runtime.plans.errand import STANDS

STAND_S = 3.0
"""How long a stop's answer waits to see the robot stand; the stop itself waits for nothing."""
ASKED = "the robot was asked to stop; its odometry has not shown yet that it stands"


class Standing:
    """Answers stops, which have been heeded before. For any thread."""

    def __init__(self, robot: RosRobotSide, on_watch: Callable[[], None], stand_s: float = STAND_S) -> None:
        """`on_watch` is called when odometry begins to be needed, for `stand_s` seconds at most."""
        self._robot, self._on_watch, self._stand_s = robot, on_watch, stand_s
        self._watching = threading.Lock()

    @property
    def is_watched(self) -> bool:
        """Whether odometry is needed."""
        return self._watching.locked()

    def answer(self, sentence: str, is_active: bool) -> str:
        """Returns STANDS once odometry from now on shows it, ASKED where it does not in time, or where the
        navigator is not active; and what is to be told of the rest of the sentence.
        """
        left = left_by_a_stop(sentence)
        return "; ".join(filter(None, (self._seen() if is_active else ASKED, left)))

    def _seen(self) -> str:
        """One answer waits at a time: however many stops come, threads remain for what must not wait."""
        if not self._watching.acquire(blocking=False):
            return ASKED
        try:
            told_s = self._robot.now_s()
            self._on_watch()
            return STANDS if self._robot.stands_after(told_s, self._stand_s) else ASKED
        finally:
            self._watching.release()
