# SPDX-License-Identifier: Apache-2.0
"""The texts of a trial: the way to the target by the simulation's truth, as late as over a network."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from outrider.core.errors import Cancelled, LinkError
from outrider.core.values import Decoded, DecodeRequest, LinkState, Verified
from outrider.evaluation.safety.world import STEP_S, SafetyWorld

REACHED_M = 0.9


@dataclass
class Guide:
    """Implements TextDecoder: the way to the target by the simulation's own truth, with a network's delays.

    `late_s` is added to the verdict that is awaited or comes next; `spins` turns left for ever.
    """

    world: SafetyWorld
    verdict_s: float = 0.08
    reason_s: float = 0.4
    late_s: float = 0.0
    spins: bool = False
    awaits_verdict: bool = False
    link_state: LinkState = LinkState.CONNECTED

    def decode(
        self,
        request: DecodeRequest,
        on_verified: Callable[[Verified], None] = lambda _: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Decoded:
        """Returns the right action and a reason, after the delays of a verdict and of the rest."""
        self._await_verdict()
        line = self._action() + "\n"
        on_verified(Verified((1,), line + "approach:", self.verdict_s))
        self._wait(self.world.now_s() + self.reason_s, cancelled)
        text = line + "approach: the way is known"
        on_verified(Verified((2,), text, self.reason_s))
        return Decoded(text, (1, 2), True, self.verdict_s + self.reason_s, self.verdict_s, 1)

    def close(self) -> None:
        """Nothing is open."""

    def _await_verdict(self) -> None:
        started_s, self.awaits_verdict = self.world.now_s(), True
        self._wait(started_s + self.verdict_s)
        self._wait(started_s + self.verdict_s + self.late_s)
        self.late_s, self.awaits_verdict = 0.0, False

    def _wait(self, until_s: float, cancelled: Callable[[], bool] = lambda: False) -> None:
        while self.world.now_s() < until_s:
            if cancelled():
                raise Cancelled("the text is wanted no more")
            self.world.pause(STEP_S)
            if not self.world.switches.link:
                raise LinkError("the verifier cannot be reached: start it with `outrider verifier`")

    def _action(self) -> str:
        if self.spins:
            return "turn left large"
        simulator = self.world.simulator
        pose, target = simulator.truth(), simulator.home.target
        bearing_deg = math.degrees(pose.bearing_to(target.x, target.y))
        if pose.distance_to(target.x, target.y) < REACHED_M + target.radius / 2:
            return "stop"
        if abs(bearing_deg) > 10:
            side, size = "left" if bearing_deg > 0 else "right", "large" if abs(bearing_deg) > 40 else "small"
            return f"turn {side} {size}"
        return "move forward medium"
