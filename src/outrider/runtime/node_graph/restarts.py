# SPDX-License-Identifier: Apache-2.0
"""Decides when an ended node is started again, for launch files and for `outrider demo`."""

from __future__ import annotations

import time
from collections.abc import Callable

from outrider.runtime.common.ending_signals import COULD_NOT_START
from outrider.runtime.node_graph.parameters import NodeSpec

MAX_RESTARTS, WITHIN_S = 5, 120.0


class Restarts:
    """Counts the restarts of one node.

    Until the node is back the robot stands still, and no earlier command moves it.
    """

    def __init__(self, spec: NodeSpec, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._spec, self._clock_s = spec, clock_s
        self._times_s: list[float] = []

    def allow(self, status: int) -> bool:
        """Whether to start it again after this exit status; counts as a restart if so.

        A node is not restarted if its specification does not say so, if it could not start, or after
        MAX_RESTARTS restarts within WITHIN_S.
        """
        now_s = self._clock_s()
        self._times_s = [at_s for at_s in self._times_s if now_s - at_s < WITHIN_S]
        if not self._spec.restarted or status == COULD_NOT_START or len(self._times_s) >= MAX_RESTARTS:
            return False
        self._times_s.append(now_s)
        return True
