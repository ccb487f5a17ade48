"""A simulated robot that carries out sentences, with a decoder that records every prompt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from support.simulated_robot import SimulatedSide

from outrider.core.values import Decoded, DecodeRequest, Verified
from outrider.memory.store.store import MemoryStore
from outrider.runtime.mission.robot_side import GoalResult
from outrider.runtime.plans.errand import Errand
from outrider.simulation.homes.home import Home

HOME = "test home"
NOW_S = 1_700_000_000.0


@dataclass
class Listener:
    """Implements TextDecoder: records every prompt, returns the texts of its script, then stops."""

    script: list[str] = field(default_factory=list)
    on_prompt: Callable[[int], object] = lambda number: None
    prompts: list[str] = field(default_factory=list)

    def decode(
        self,
        request: DecodeRequest,
        on_verified: Callable[[Verified], None] = lambda _: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Decoded:
        self.prompts.append(request.prompt.text)
        self.on_prompt(len(self.prompts))
        text = self.script.pop(0) if self.script else "stop\ndone: there"
        on_verified(Verified((1,), text, 0.0))
        return Decoded(text, (1,), True, 0.0, 0.0, 1)

    def close(self) -> None:
        self.script.clear()


@dataclass
class World:
    """A robot with a memory, in a home whose silver lamp is in another room."""

    home: Home
    side: SimulatedSide
    memory: MemoryStore
    errand: Errand
    listener: Listener

    def say(self, sentence: str) -> GoalResult:
        return self.errand.run(sentence, lambda: False)

    def stands_at(self, x: float, y: float, within_m: float) -> bool:
        return self.side.distance_to(x, y) <= within_m and self.side.facing_rad(x, y) < 0.5
